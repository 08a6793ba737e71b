// SPDX-License-Identifier: Apache-2.0
// The numbers of a language model: what its file says, over what its architecture has by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/import/gguf/architecture.h"
#include "compiler/import/gguf/keys.h"
#include "compiler/import/gguf/rope_tables.h"

namespace rlx::gguf {

struct Hyperparameters {
  const Architecture* architecture = nullptr;
  std::string name;  // of the model, for people
  int64_t layers = 1;
  int64_t width = 1;  // of the residual
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t key_dim = 1;    // of a head's queries and keys
  int64_t value_dim = 1;  // of a head's values
  int64_t trained_context = 1;
  double eps = 1e-5;
  double attention_scale = 1;
  double attention_softcap = 0;  // 0: none, as of the next
  double logit_softcap = 0;
  double embedding_scale = 1;
  double residual_scale = 1;
  double logit_divisor = 1;
  int64_t experts = 0;  // 0: none
  int64_t experts_used = 0;
  double expert_scale = 1;
  std::vector<bool> is_local;     // per layer: keys in a window alone
  int64_t window = 0;             // keys that a query of a local layer sees, its own with them
  int64_t ignored_window = 0;     // of a file whose architecture has none
  RopeAngles rope;                // without factors, which are tensors
  RopeAngles local_rope;          // of local layers
  double original_context = 1;    // beyond it the long factors hold
  double temperature_scale = 0;   // 0: none
  double temperature_length = 1;  // positions per step of the temperature
};

// Reports every key that is missing, of the wrong kind or out of range, and everything that says
// the model to be one that is not read: by name. Only then the result means nothing.
Hyperparameters read_hyperparameters(const Architecture& architecture, Keys& keys);

}  // namespace rlx::gguf
