// SPDX-License-Identifier: Apache-2.0
// From a model with a loss to its gradients, or to the entries of a training step, whose
// parameters, moments and step counter are states.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

enum class Optimizer : uint8_t { Sgd, Adam, AdamW };

struct TrainingOptions {
  std::string loss;                 // a value of the entry
  std::vector<std::string> wanted;  // params and inputs; empty: every float param
  std::vector<std::string> frozen;  // params that stay as they are
  std::optional<Optimizer> optimizer = std::nullopt;
  double lr = 1e-3;
  bool lr_is_input = false;  // a scalar input "lr" of each training run instead
  double momentum = 0;       // Sgd
  double dampening = 0;
  bool nesterov = false;
  double beta1 = 0.9;  // Adam, AdamW
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double clip_norm = 0;    // of all gradients together; 0: none
  int64_t accumulate = 1;  // runs whose gradients make one step
};

// Adds the gradients of the loss to every entry that has it, as outputs "grad.NAME". False where
// anything was reported.
bool add_gradients(Module& module, const TrainingOptions& options, Diagnostics& diagnostics);

// Turns the trained params into states of their names, begun with the weights, and makes entries:
// "train" (of the entry of this name, or of the only one that has the loss) runs forward, backward
// and update, and gives the loss; with options.accumulate above 1, "accumulate" adds its gradients
// to states, and the next run of "train" takes them along; every other entry stays and reads the
// states, "eval" where there was but one, in it dropout and batch_norm do not train. False where
// anything was reported.
bool make_training_step(Module& module, const TrainingOptions& options, Diagnostics& diagnostics);

}  // namespace rlx
