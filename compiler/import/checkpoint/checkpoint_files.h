// SPDX-License-Identifier: Apache-2.0
// The files of a checkpoint's folder: JSON beside safetensors. None of them is trusted.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/json_value.h"
#include "compiler/import/model_files.h"
#include "compiler/import/safetensors.h"
#include "compiler/support/diagnostics.h"

namespace rlx::checkpoint {

// A JSON object of the folder; nullopt where there is no such file, and after an error.
std::optional<JsonObject> read_json_file(const std::string& folder, const std::string& name,
                                         Diagnostics& diagnostics);
// A whole file as text, under the same rule.
std::optional<std::string> read_text_file(const std::string& folder, const std::string& name,
                                          Diagnostics& diagnostics);

struct Shard {
  std::string name;  // in the folder
  std::shared_ptr<const MappedFile> owner;
  SafetensorsView tensors;
};

// model.safetensors, or else the files that model.safetensors.index.json names: each tensor in the
// one that the index says, and in no other. nullopt after an error.
std::optional<std::vector<Shard>> open_shards(const std::string& folder, Diagnostics& diagnostics);

}  // namespace rlx::checkpoint
