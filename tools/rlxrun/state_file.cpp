// SPDX-License-Identifier: Apache-2.0
// States in safetensors files: 8 bytes of the header's length, a JSON header, the tensors.
#include "tools/rlxrun/state_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/input_file.h"
#include "runtime/base/output_file.h"
#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/numbers.h"

namespace rlx::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = uint64_t{100} << 20;  // as safetensors itself
constexpr const char* kMetadata = "__metadata__";

struct TypeName {
  uint32_t dtype;
  std::string_view name;
};
constexpr std::array kTypes = {
    TypeName{RLX_F32, "F32"}, TypeName{RLX_F16, "F16"},  TypeName{RLX_BF16, "BF16"},
    TypeName{RLX_F64, "F64"}, TypeName{RLX_I8, "I8"},    TypeName{RLX_U8, "U8"},
    TypeName{RLX_I16, "I16"}, TypeName{RLX_I32, "I32"},  TypeName{RLX_U32, "U32"},
    TypeName{RLX_I64, "I64"}, TypeName{RLX_BOOL, "BOOL"}};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Failure(ExitCode::InputRefused, path + ": " + what);
}

struct Entry {
  std::string type;
  std::vector<uint64_t> dims;
  uint64_t begin = 0;
  uint64_t end = 0;
};

std::optional<Entry> entry_of(const Json& json) {
  const auto numbers = [](const Json& list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& number) {
             return number.is_number_unsigned();
           });
  };
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    return std::nullopt;
  const Json& offsets = json["data_offsets"];
  if (!json["dtype"].is_string() || !numbers(json["shape"]) || !numbers(offsets) ||
      offsets.size() != 2)
    return std::nullopt;
  return Entry{
      .type = json["dtype"], .dims = json["shape"], .begin = offsets[0], .end = offsets[1]};
}

std::map<std::string, Entry> parse_header(const std::string& path, std::string_view text,
                                          uint64_t data_bytes) {
  const Json header = Json::parse(text, nullptr, false);
  if (!header.is_object())
    refuse(path, "the file is no safetensors file: its header is no JSON object");
  std::map<std::string, Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) continue;
    const std::optional<Entry> entry = entry_of(value);
    if (!entry || entry->begin > entry->end || entry->end > data_bytes)
      refuse(path,
             "tensor \"" + name + "\" of the header is not described, or lies outside the file");
    entries.emplace(name, *entry);
  }
  return entries;
}

std::string described(const Entry& entry) {
  std::string text = entry.type + "[";
  for (size_t i = 0; i < entry.dims.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(entry.dims[i]);
  return text + "]";
}

std::string type_name(const Tensor& state) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const TypeName& type) { return type.dtype == state.dtype; });
  return found == kTypes.end() ? std::string() : std::string(found->name);
}

void list(std::string& names, const std::string& name) {
  names += (names.empty() ? "" : ", ") + name;
}

// Names on one side alone: the file belongs to another model.
void check_names(const std::string& path, const std::map<std::string, Entry>& entries,
                 const std::vector<Tensor>& states) {
  std::string missing;
  std::string unknown;
  for (const Tensor& state : states) {
    if (!entries.contains(state.name)) list(missing, state.name);
  }
  for (const auto& [name, entry] : entries) {
    const bool known =
        std::any_of(states.begin(), states.end(),
                    [&wanted = name](const Tensor& state) { return state.name == wanted; });
    if (!known) list(unknown, name);
  }
  if (missing.empty() && unknown.empty()) return;
  refuse(path, "the states are of another model: " +
                   (missing.empty() ? std::string() : "the file lacks " + missing) +
                   (missing.empty() || unknown.empty() ? "" : "; ") +
                   (unknown.empty() ? std::string() : "the plan has no " + unknown));
}

}  // namespace

std::vector<std::vector<std::byte>> read_state_file(const std::string& path,
                                                    const std::vector<Tensor>& states) {
  std::vector<std::byte> file;
  uint64_t most = kLengthBytes + kLargestHeader;
  for (const Tensor& state : states) most += state.size_bytes;
  check(read_file(path, most, file));
  uint64_t length = 0;
  if (file.size() < kLengthBytes) refuse(path, "the file is no safetensors file: it is too short");
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kLargestHeader || length > file.size() - kLengthBytes)
    refuse(path, "the file is no safetensors file: its header does not fit");
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  const std::byte* const data = file.data() + kLengthBytes + length;
  const std::map<std::string, Entry> entries =
      parse_header(path, header, file.size() - kLengthBytes - length);
  check_names(path, entries, states);
  std::vector<std::vector<std::byte>> all;
  for (const Tensor& state : states) {
    const Entry& entry = entries.at(state.name);
    const bool same = entry.type == type_name(state) && entry.dims == state.dims;
    if (!same || entry.end - entry.begin != state.size_bytes) {
      refuse(path, "state \"" + state.name + "\" is " + described(entry) + " of " +
                       std::to_string(entry.end - entry.begin) + " bytes, wanted " +
                       type_text(state.dtype, state.dims) + " of " +
                       std::to_string(state.size_bytes));
    }
    all.emplace_back(data + entry.begin, data + entry.end);
  }
  return all;
}

void write_state_file(const std::string& path, const std::vector<Tensor>& states,
                      const std::vector<std::vector<std::byte>>& data) {
  Json header = Json::object();
  uint64_t offset = 0;
  for (const Tensor& state : states) {
    const std::string type = type_name(state);
    if (type.empty()) {
      throw Failure(ExitCode::InputRefused, "state \"" + state.name + "\" is " +
                                                type_text(state.dtype, state.dims) +
                                                ", which safetensors files cannot hold");
    }
    header[state.name] = {{"dtype", type},
                          {"shape", state.dims},
                          {"data_offsets", {offset, offset + state.size_bytes}}};
    offset += state.size_bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::vector<std::byte> file(kLengthBytes + text.size());
  file.reserve(file.size() + offset);
  std::memcpy(file.data(), &length, kLengthBytes);
  std::memcpy(file.data() + kLengthBytes, text.data(), text.size());
  for (const std::vector<std::byte>& bytes : data)
    file.insert(file.end(), bytes.begin(), bytes.end());
  check_written(write_file(path, file));
}

}  // namespace rlx::tool
