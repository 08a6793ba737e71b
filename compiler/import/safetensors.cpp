// SPDX-License-Identifier: Apache-2.0
// Safetensors files (format 0.4 and later: little-endian, the tensors cover the data exactly).
#include "compiler/import/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "compiler/import/json_value.h"
#include "compiler/import/names.h"
#include "compiler/import/source_graph.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;  // of the format's own reader

struct StoredType {
  std::string_view text;
  uint32_t bytes;
  std::optional<DType> dtype;
};
constexpr std::array<StoredType, 16> kStoredTypes = {{{"F32", 4, DType::f32},
                                                      {"F16", 2, DType::f16},
                                                      {"BF16", 2, DType::bf16},
                                                      {"F64", 8, DType::f64},
                                                      {"I8", 1, DType::i8},
                                                      {"U8", 1, DType::u8},
                                                      {"I16", 2, DType::i16},
                                                      {"I32", 4, DType::i32},
                                                      {"U32", 4, DType::u32},
                                                      {"I64", 8, DType::i64},
                                                      {"BOOL", 1, DType::bool_},
                                                      {"C64", 8, DType::c64},
                                                      {"F8_E4M3", 1, DType::f8e4m3},
                                                      {"F8_E5M2", 1, DType::f8e5m2},
                                                      {"U16", 2, std::nullopt},
                                                      {"U64", 8, std::nullopt}}};

struct Placed {
  uint64_t begin = 0;
  uint64_t end = 0;
  const std::string* name = nullptr;
};

ParseFault fault_of(std::string message, DiagCode code = DiagCode::FileFormat) {
  return {code, std::move(message)};
}

// An array of non-negative integers.
std::optional<std::vector<uint64_t>> integers_of(const JsonValue* value) {
  const JsonArray* items = value ? value->array() : nullptr;
  if (items == nullptr) return std::nullopt;
  std::vector<uint64_t> integers;
  for (const JsonValue& item : *items) {
    if (item.integer() == nullptr || *item.integer() < 0) return std::nullopt;
    integers.push_back(static_cast<uint64_t>(*item.integer()));
  }
  return integers;
}

std::optional<uint64_t> bytes_of(const std::vector<uint64_t>& shape, uint64_t element_bytes) {
  if (std::find(shape.begin(), shape.end(), 0u) != shape.end()) return 0;
  uint64_t bytes = element_bytes;
  for (const uint64_t dim : shape) {
    const auto product = checked_mul(bytes, dim);
    if (!product || *product > kMaxTensorBytes) return std::nullopt;
    bytes = *product;
  }
  return bytes;
}

// One member of the header. Returns what is wrong with it, or adds it.
std::optional<ParseFault> add_tensor(const JsonMember& member, std::span<const std::byte> data,
                                     SafetensorsView& view, std::vector<Placed>& placed) {
  const std::string who = "has tensor " + in_quotes(member.key);
  const JsonObject* object = member.value.object();
  const JsonValue* dtype = object ? find_member(*object, "dtype") : nullptr;
  const auto shape = integers_of(object ? find_member(*object, "shape") : nullptr);
  const auto offsets = integers_of(object ? find_member(*object, "data_offsets") : nullptr);
  if (!object || object->size() != 3 || !dtype || !dtype->string() || !shape || !offsets ||
      offsets->size() != 2) {
    return fault_of(who +
                    " whose header is not {\"dtype\", \"shape\", \"data_offsets\": [begin, end]}");
  }
  const uint64_t begin = offsets->at(0);
  const uint64_t end = offsets->at(1);
  if (begin > end || end > data.size()) {
    return fault_of(who + " at bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                        ", the file holds " + std::to_string(data.size()) + " bytes of data",
                    DiagCode::FileSize);
  }
  const auto* stored =
      std::find_if(kStoredTypes.begin(), kStoredTypes.end(),
                   [&](const StoredType& type) { return type.text == *dtype->string(); });
  SafetensorsTensor tensor{.dtype_text = *dtype->string(),
                           .dtype = std::nullopt,
                           .shape = *shape,
                           .bytes = data.subspan(begin, end - begin)};
  if (stored != kStoredTypes.end()) {
    tensor.dtype = stored->dtype;
    const auto wanted = bytes_of(*shape, stored->bytes);
    if (!wanted || *wanted != end - begin) {
      return fault_of(who + " of " + std::to_string(end - begin) +
                          " bytes, its shape and dtype want " +
                          (wanted ? std::to_string(*wanted) : "more than 2^48"),
                      DiagCode::FileSize);
    }
  }
  placed.push_back({begin, end, &member.key});
  view.emplace(member.key, std::move(tensor));
  return std::nullopt;
}

// Tensors must follow one another from the first byte of data to the last.
std::optional<ParseFault> check_coverage(std::vector<Placed> placed, uint64_t data_bytes) {
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t covered = 0;
  for (const Placed& item : placed) {
    if (item.begin != covered) {
      return fault_of("has tensor " + in_quotes(*item.name) + " at byte " +
                      std::to_string(item.begin) +
                      (item.begin < covered ? ", inside another tensor that ends at "
                                            : ", after a hole that begins at ") +
                      std::to_string(covered));
    }
    covered = item.end;
  }
  if (covered == data_bytes) return std::nullopt;
  return fault_of("holds " + std::to_string(data_bytes) + " bytes of data, its tensors take " +
                      std::to_string(covered),
                  DiagCode::FileSize);
}

}  // namespace

std::variant<SafetensorsView, ParseFault> parse_safetensors(std::span<const std::byte> file) {
  constexpr size_t kLengthBytes = 8;
  if (file.size() < kLengthBytes) return fault_of("ends before its header", DiagCode::FileSize);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), kLengthBytes);
  if (header_bytes > kMaxSafetensorsHeaderBytes || header_bytes > file.size() - kLengthBytes) {
    return fault_of("wants a header of " + std::to_string(header_bytes) + " bytes, the file has " +
                    std::to_string(file.size()) + " bytes and at most " +
                    std::to_string(kMaxSafetensorsHeaderBytes) + " are read");
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              header_bytes);
  Diagnostics diagnostics;
  const std::optional<JsonValue> header = parse_json(text, {}, diagnostics);
  if (!header) return fault_of("has a header with " + diagnostics.all().front().message);
  if (header->object() == nullptr) return fault_of("has a header that is no JSON object");
  const std::span<const std::byte> data = file.subspan(kLengthBytes + header_bytes);
  SafetensorsView view;
  std::vector<Placed> placed;
  for (const JsonMember& member : *header->object()) {
    if (member.key == "__metadata__") continue;  // free text about the file
    if (auto fault = add_tensor(member, data, view, placed)) return *fault;
  }
  if (auto fault = check_coverage(std::move(placed), data.size())) return *fault;
  return view;
}

}  // namespace rlx
