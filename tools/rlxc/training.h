// SPDX-License-Identifier: Apache-2.0
// --grad and --optimizer: gradients and training steps of a model that was read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/passes/training_step.h"

namespace CLI {
class App;
}

namespace rlx {

struct TrainingArguments {
  TrainingOptions options;
  std::string optimizer;  // empty: none
  std::string rate;       // a number, or "input"
};

// --grad, --wrt, --frozen, --optimizer and its numbers.
void add_training_options(CLI::App& command, TrainingArguments& arguments);

// What is wrong with them; nothing where all is well. Otherwise fills the options.
std::optional<std::string> find_training_misuse(TrainingArguments& arguments);

// Does to the module what they ask for; false where anything was reported.
bool apply_training(Module& module, const TrainingArguments& arguments, Diagnostics& diagnostics);

}  // namespace rlx
