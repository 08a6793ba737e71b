// SPDX-License-Identifier: Apache-2.0
// What a checkpoint's config.json says of its model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/checkpoint/made_file.h"
#include "compiler/import/gguf/architecture.h"
#include "compiler/import/json_value.h"
#include "compiler/support/diagnostics.h"

namespace rlx::checkpoint {

// What checkpoints call the experts of a layer: where all of them are, and the three matrices of
// each. What chooses among them is `gate` of that place.
struct ExpertNames {
  std::string_view place;
  std::string_view gate;
  std::string_view up;
  std::string_view down;
};

struct Config {
  gguf::Architecture architecture;  // its row, with pairs as checkpoints have them
  int64_t layers = 0;
  bool is_tied = false;  // the head is the embedding's table
  bool has_qkv_bias = false;
  bool has_output_bias = false;  // of attention
  bool has_ffn_bias = false;
  int64_t experts = 0;
  ExpertNames expert_names = {};  // where there are experts
  // What angles are divided by, one per pair, or none: always; within the original context; beyond.
  std::vector<double> rope_factors;
  std::vector<double> short_factors;
  std::vector<double> long_factors;
  std::optional<int64_t> begin_id;
  std::vector<int64_t> end_ids;
};

// Puts the model's numbers into `made` as GGUF's keys. nullopt after errors about `path`: what is
// missing, of the wrong kind, or asks for what is not read, all at once.
std::optional<Config> read_config(const JsonObject& config, const std::string& path, MadeFile& made,
                                  Diagnostics& diagnostics);

}  // namespace rlx::checkpoint
