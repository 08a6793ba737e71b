// SPDX-License-Identifier: Apache-2.0
// Which tensors get which type, and the new file up to its tensors.
#include "compiler/import/gguf/quantize.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "compiler/import/gguf/tensor_types.h"
#include "compiler/import/names.h"
#include "compiler/ops/lowering/block_weights.h"
#include "compiler/support/block_encoder.h"
#include "schema/rounding.h"

namespace rlx::gguf {
namespace {

constexpr uint32_t kVersion = 3;
constexpr uint32_t kQuantizationVersion = 2;  // of the blocks' layouts, as GGML counts
constexpr std::string_view kFileTypeKey = "general.file_type";
constexpr std::string_view kQuantizationKey = "general.quantization_version";

bool can_write(DType dtype) {
  return is_short_float(dtype) || can_encode(dtype);
}

// ---- rules ----

std::optional<DType> writable_type(std::string_view name, Diagnostics& diagnostics) {
  const auto dtype = dtype_from_name(name);
  if (dtype && can_write(*dtype)) return dtype;
  std::vector<std::string_view> known;
  for (uint32_t number = 0; dtype_from_number(number); ++number) {
    if (can_write(*dtype_from_number(number))) known.push_back(name_of(*dtype_from_number(number)));
  }
  diagnostics.error(DiagCode::BadOption, {},
                    "--type has " + in_quotes(name) +
                        (dtype ? ", which is read but not made" : ", which is no type"),
                    "these are: " + list_names(known));
  return std::nullopt;
}

bool add_rule(std::string_view item, QuantizeRules& rules, Diagnostics& diagnostics) {
  const size_t equals = item.find('=');
  const bool is_named = equals != std::string_view::npos;
  const auto type = writable_type(is_named ? item.substr(equals + 1) : item, diagnostics);
  if (!type) return false;
  if (!is_named) {
    rules.types.push_back(*type);
    return true;
  }
  if (equals == 0) {
    diagnostics.error(DiagCode::BadOption, {},
                      "--type has " + in_quotes(item) + " without a part of a name",
                      "PART=TYPE is for tensors whose name contains PART");
    return false;
  }
  rules.named.push_back({.part = std::string(item.substr(0, equals)), .type = *type});
  return true;
}

// ---- what a tensor gets ----

// Why a tensor is no matrix to be rounded; empty where it is one. Names are those of ops that take
// f32 alone, here and in llama.cpp.
std::string_view why_kept(const Tensor& tensor) {
  if (tensor.shape.size() < 2) return "of one dimension";
  if (!is_short_float(tensor.dtype) && !is_block_type(tensor.dtype)) return "of no float type";
  if (!tensor.name.ends_with(".weight")) return "no weights";
  if (tensor.name.find("_norm") != std::string::npos) return "norms";
  if (tensor.name.find("ffn_gate_inp") != std::string::npos) return "the choice of experts";
  for (const std::string_view table : {"position_embd", "token_types"}) {
    if (tensor.name.starts_with(table)) return "tables of positions and kinds";
  }
  return {};
}

bool divides_rows(DType type, const Tensor& tensor) {
  return tensor.shape.back() % block_elements(type) == 0;
}

// The first rule whose part the tensor's name contains; nullptr where there is none.
const QuantizeRules::Named* rule_for(const Tensor& tensor, const QuantizeRules& rules) {
  for (const QuantizeRules::Named& rule : rules.named) {
    if (tensor.name.find(rule.part) != std::string::npos) return &rule;
  }
  return nullptr;
}

std::optional<DType> type_for(const Tensor& tensor, const QuantizeRules& rules) {
  const auto* rule = rule_for(tensor, rules);
  if (rule != nullptr && divides_rows(rule->type, tensor)) return rule->type;
  const auto fits = [&](DType type) { return divides_rows(type, tensor); };
  const auto found = std::ranges::find_if(rules.types, fits);
  if (found == rules.types.end()) return std::nullopt;
  return *found;
}

PlannedTensor plan_tensor(const Tensor& tensor, const QuantizeRules& rules) {
  PlannedTensor planned{.from = &tensor, .type = tensor.dtype, .why_kept = why_kept(tensor)};
  if (planned.why_kept.empty()) {
    const auto type = type_for(tensor, rules);
    if (!type) planned.why_kept = "of rows that are not whole blocks";
    if (type == tensor.dtype) planned.why_kept = "of the type already";
    planned.type = type.value_or(tensor.dtype);
  }
  planned.size_bytes = tensor.bytes.size() / block_bytes(tensor.dtype) *
                       block_elements(tensor.dtype) / block_elements(planned.type) *
                       block_bytes(planned.type);
  return planned;
}

// Rules for tensors that the model does not have, or that all stay as they are.
bool check_rules(const QuantizeRules& rules, std::span<const PlannedTensor> tensors,
                 const std::string& path, Diagnostics& diagnostics) {
  for (const QuantizeRules::Named& rule : rules.named) {
    const auto obeys = [&](const PlannedTensor& tensor) {
      return tensor.from->name.find(rule.part) != std::string::npos;
    };
    if (std::ranges::any_of(tensors, obeys)) continue;
    diagnostics.error(
        DiagCode::BadOption, {path, ""},
        "--type has a rule for tensors named " + in_quotes(rule.part) + ", the model has none");
  }
  const auto is_kept = [](const PlannedTensor& tensor) { return !tensor.why_kept.empty(); };
  if (!diagnostics.has_errors() && std::ranges::all_of(tensors, is_kept)) {
    diagnostics.error(DiagCode::BadOption, {path, ""},
                      "no tensor of the model can be written in the types of --type",
                      "a smaller block divides more rows: q8_0 and q4_0 have 32 elements");
  }
  return !diagnostics.has_errors();
}

void warn_of_broken_rules(const QuantizeRules& rules, std::span<const PlannedTensor> tensors,
                          const std::string& path, Diagnostics& diagnostics) {
  for (const PlannedTensor& tensor : tensors) {
    const auto* rule = rule_for(*tensor.from, rules);
    if (rule == nullptr || tensor.type == rule->type) continue;
    diagnostics.warning(
        DiagCode::BadOption, {path, ""},
        "tensor " + in_quotes(tensor.from->name) + " gets " + std::string(name_of(tensor.type)) +
            ", not the " + std::string(name_of(rule->type)) + " of " + in_quotes(rule->part) +
            (divides_rows(rule->type, *tensor.from)
                 ? ": it is " + std::string(tensor.why_kept)
                 : ": its rows of " + std::to_string(tensor.from->shape.back()) +
                       " are not whole blocks of " + std::to_string(block_elements(rule->type))));
  }
}

void warn_of_second_rounding(std::span<const PlannedTensor> tensors, const std::string& path,
                             Diagnostics& diagnostics) {
  const auto count = std::ranges::count_if(tensors, [](const PlannedTensor& tensor) {
    return tensor.why_kept.empty() && is_block_type(tensor.from->dtype);
  });
  if (count == 0) return;
  diagnostics.warning(
      DiagCode::BadDtype, {path, ""},
      std::to_string(count) + " tensors are in blocks already and are rounded a second time",
      "a file of f16, bf16 or f32 loses less");
}

// ---- the new file's beginning ----

class HeaderWriter {
 public:
  template <typename T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void text(std::string_view value) {
    number(uint64_t{value.size()});
    bytes_ += value;
  }
  void raw(std::span<const std::byte> bytes) {
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void key(std::string_view name, uint32_t value) {
    text(name);
    number(static_cast<uint32_t>(ValueType::U32));
    number(value);
  }
  void pad(uint64_t alignment) { bytes_.resize(round_up(bytes_.size(), alignment)); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// llama.cpp's number of a file most of whose matrices are of that type.
uint32_t file_type_of(DType dtype) {
  struct FileType {
    DType dtype;
    uint32_t number;
  };
  constexpr std::array kFileTypes = {
      FileType{DType::f32, 0},     FileType{DType::f16, 1},     FileType{DType::q4_0, 2},
      FileType{DType::q4_1, 3},    FileType{DType::q8_0, 7},    FileType{DType::q5_0, 8},
      FileType{DType::q5_1, 9},    FileType{DType::q2_k, 10},   FileType{DType::q3_k, 11},
      FileType{DType::q4_k, 14},   FileType{DType::q5_k, 16},   FileType{DType::q6_k, 18},
      FileType{DType::iq4_nl, 25}, FileType{DType::iq4_xs, 30}, FileType{DType::bf16, 32}};
  return std::ranges::find(kFileTypes, dtype, &FileType::dtype)->number;
}

bool is_rewritten(std::string_view key) {
  return key == kFileTypeKey || key == kQuantizationKey ||
         std::ranges::find(kPartKeys, key) != std::end(kPartKeys);
}

void write_keys(const File& first, DType main_type, HeaderWriter& header) {
  for (const KeyRecord& record : first.key_records) {
    if (!is_rewritten(record.name)) header.raw(record.bytes);
  }
  header.key(kFileTypeKey, file_type_of(main_type));
  header.key(kQuantizationKey, kQuantizationVersion);
}

uint64_t count_keys(const File& first) {
  const auto kept = std::ranges::count_if(
      first.key_records, [](const KeyRecord& record) { return !is_rewritten(record.name); });
  return static_cast<uint64_t>(kept) + 2;
}

void write_record(const PlannedTensor& tensor, HeaderWriter& header) {
  const std::vector<int64_t>& shape = tensor.from->shape;
  header.text(tensor.from->name);
  header.number(static_cast<uint32_t>(shape.size()));
  std::for_each(shape.rbegin(), shape.rend(), [&](int64_t dim) { header.number(dim); });
  header.number(*type_number(tensor.type));
  header.number(tensor.offset_bytes);
}

}  // namespace

std::optional<QuantizeRules> parse_quantize_rules(std::string_view text, Diagnostics& diagnostics) {
  QuantizeRules rules;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    if (!add_rule(text.substr(at, comma - at), rules, diagnostics)) return std::nullopt;
    at = comma + 1;
  }
  if (!rules.types.empty()) return rules;
  diagnostics.error(DiagCode::BadOption, {}, "--type has rules alone, and no type for the rest",
                    "for example --type q4_k,output=q6_k");
  return std::nullopt;
}

void Quantization::lay_out(const QuantizeRules& rules) {
  const File& first = parts_.front().file;
  uint64_t at = 0;
  for (PlannedTensor& tensor : tensors_) {
    at = round_up(at, first.alignment);
    tensor.offset_bytes = at;
    at += tensor.size_bytes;
  }
  HeaderWriter header;
  header.raw(std::as_bytes(std::span("GGUF", 4)));
  header.number(kVersion);
  header.number(uint64_t{tensors_.size()});
  header.number(count_keys(first));
  write_keys(first, rules.types.front(), header);
  for (const PlannedTensor& tensor : tensors_) write_record(tensor, header);
  header.pad(first.alignment);
  header_ = header.take();
  for (PlannedTensor& tensor : tensors_) tensor.offset_bytes += header_.size();
  size_bytes_ = header_.size() + at;
}

std::optional<Quantization> Quantization::plan(const GraphBytes& bytes, const std::string& path,
                                               const QuantizeRules& rules,
                                               Diagnostics& diagnostics) {
  const auto first = parse_file(bytes.bytes, path, diagnostics);
  auto parts =
      first ? read_parts(*first, path, {bytes.owner, bytes.bytes}, diagnostics) : std::nullopt;
  if (!parts) return std::nullopt;
  Quantization plan;
  plan.parts_ = std::move(*parts);
  for (const ModelPart& part : plan.parts_) {
    for (const Tensor& tensor : part.file.tensors)
      plan.tensors_.push_back(plan_tensor(tensor, rules));
  }
  if (!check_rules(rules, plan.tensors_, path, diagnostics)) return std::nullopt;
  warn_of_broken_rules(rules, plan.tensors_, path, diagnostics);
  warn_of_second_rounding(plan.tensors_, path, diagnostics);
  plan.lay_out(rules);
  return plan;
}

}  // namespace rlx::gguf
