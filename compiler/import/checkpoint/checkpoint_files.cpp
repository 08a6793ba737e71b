// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/checkpoint/checkpoint_files.h"

#include <map>
#include <set>
#include <utility>
#include <variant>

#include "compiler/import/names.h"
#include "compiler/import/source_graph.h"

namespace rlx::checkpoint {
namespace {

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

using Mapped = std::shared_ptr<const MappedFile>;

// nullptr where there is no such file, and after an error.
Mapped map_if_there(const std::string& path, Diagnostics& diagnostics) {
  FileResult file = map_file(path);
  if (auto* mapped = std::get_if<Mapped>(&file)) return std::move(*mapped);
  const auto& fault = std::get<FileFault>(file);
  if (fault.code != DiagCode::FileMissing)
    diagnostics.error(fault.code, {path, ""}, "the file " + fault.message);
  return nullptr;
}

std::string_view text_of(const Mapped& file) {
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

// Names of files in the folder itself alone.
bool is_plain_name(const std::string& name) {
  return !name_fault(name) && name.find('/') == std::string::npos && name != "." && name != "..";
}

using TensorPlaces = std::map<std::string, std::string>;  // tensor to file

std::optional<TensorPlaces> read_index(const std::string& folder, Diagnostics& diagnostics) {
  const std::string path = folder + "/" + kIndex;
  const auto index = read_json_file(folder, kIndex, diagnostics);
  if (!index) {
    if (!diagnostics.has_errors()) {
      diagnostics.error(DiagCode::FileMissing, {folder, ""},
                        "the checkpoint has neither " + std::string(kWhole) + " nor " + kIndex,
                        "weights are read from safetensors files alone");
    }
    return std::nullopt;
  }
  const JsonValue* map = find_member(*index, "weight_map");
  const JsonObject* members = map ? map->object() : nullptr;
  if (members == nullptr) {
    diagnostics.error(DiagCode::BadField, {path, ""}, "the index has no object \"weight_map\"");
    return std::nullopt;
  }
  TensorPlaces places;
  for (const JsonMember& member : *members) {
    const std::string* name = member.value.string();
    if (name == nullptr || !is_plain_name(*name)) {
      diagnostics.error(DiagCode::BadField, {path, "/weight_map" + pointer_step(member.key)},
                        name ? "file " + in_quotes(*name) + " is not in the checkpoint's folder"
                             : "the tensor's file is no string");
      return std::nullopt;
    }
    places.emplace(member.key, *name);
  }
  return places;
}

std::optional<Shard> open_shard(const std::string& folder, const std::string& name, Mapped file,
                                Diagnostics& diagnostics) {
  auto parsed = parse_safetensors(file->bytes());
  if (auto* view = std::get_if<SafetensorsView>(&parsed))
    return Shard{.name = name, .owner = std::move(file), .tensors = std::move(*view)};
  const auto& fault = std::get<ParseFault>(parsed);
  diagnostics.error(fault.code, {folder + "/" + name, ""}, "the safetensors file " + fault.message);
  return std::nullopt;
}

std::optional<Shard> open_named(const std::string& folder, const std::string& name,
                                Diagnostics& diagnostics) {
  Mapped file = map_if_there(folder + "/" + name, diagnostics);
  if (file) return open_shard(folder, name, std::move(file), diagnostics);
  if (!diagnostics.has_errors()) {
    diagnostics.error(DiagCode::FileMissing, {folder + "/" + kIndex, ""},
                      "the index speaks of file " + in_quotes(name) + ", which does not exist");
  }
  return std::nullopt;
}

// The index and the files must say the same of every tensor.
bool agrees(const std::vector<Shard>& shards, const TensorPlaces& places, const std::string& folder,
            Diagnostics& diagnostics) {
  size_t found = 0;
  for (const Shard& shard : shards) {
    for (const auto& [tensor, view] : shard.tensors) {
      const auto place = places.find(tensor);
      if (place != places.end() && place->second == shard.name) {
        ++found;
        continue;
      }
      diagnostics.error(
          DiagCode::FileFormat, {folder + "/" + kIndex, ""},
          "file " + in_quotes(shard.name) + " has tensor " + in_quotes(tensor) +
              ", which the index " +
              (place == places.end() ? "does not have" : "has in " + in_quotes(place->second)));
      return false;
    }
  }
  if (found == places.size()) return true;
  for (const auto& [tensor, name] : places) {
    for (const Shard& shard : shards) {
      if (shard.name != name || shard.tensors.contains(tensor)) continue;
      diagnostics.error(DiagCode::FileFormat, {folder + "/" + kIndex, ""},
                        "the index has tensor " + in_quotes(tensor) + " in " + in_quotes(name) +
                            ", which does not have it");
      return false;
    }
  }
  return false;
}

}  // namespace

std::optional<std::string> read_text_file(const std::string& folder, const std::string& name,
                                          Diagnostics& diagnostics) {
  const Mapped file = map_if_there(folder + "/" + name, diagnostics);
  if (!file) return std::nullopt;
  return std::string(text_of(file));
}

std::optional<JsonObject> read_json_file(const std::string& folder, const std::string& name,
                                         Diagnostics& diagnostics) {
  const std::string path = folder + "/" + name;
  const Mapped file = map_if_there(path, diagnostics);
  if (!file) return std::nullopt;
  const auto value = parse_json(text_of(file), path, diagnostics);
  if (!value) return std::nullopt;
  if (value->object() != nullptr) return *value->object();
  diagnostics.error(DiagCode::BadField, {path, ""},
                    "the file holds " + std::string(kind_text(*value)) + ", wanted an object");
  return std::nullopt;
}

std::optional<std::vector<Shard>> open_shards(const std::string& folder, Diagnostics& diagnostics) {
  std::vector<Shard> shards;
  if (Mapped whole = map_if_there(folder + "/" + kWhole, diagnostics)) {
    auto shard = open_shard(folder, kWhole, std::move(whole), diagnostics);
    if (!shard) return std::nullopt;
    shards.push_back(std::move(*shard));
    return shards;
  }
  if (diagnostics.has_errors()) return std::nullopt;
  const auto places = read_index(folder, diagnostics);
  if (!places) return std::nullopt;
  std::set<std::string> names;
  for (const auto& [tensor, name] : *places) names.insert(name);
  for (const std::string& name : names) {
    auto shard = open_named(folder, name, diagnostics);
    if (!shard) return std::nullopt;
    shards.push_back(std::move(*shard));
  }
  if (!agrees(shards, *places, folder, diagnostics)) return std::nullopt;
  return shards;
}

}  // namespace rlx::checkpoint
