// SPDX-License-Identifier: Apache-2.0
// Arguments of --device-model, for every command that compiles or estimates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"

namespace CLI {
class App;
}

namespace rlx {

void add_device_model_option(CLI::App& command, std::vector<std::string>& arguments);

// [TARGET=]NAME|FILE, each for the target that it names or, without one, for all of `targets`; the
// more precise argument wins. Reports to stderr and sets `exit_code` where one is wrong.
std::optional<std::vector<ModelForTarget>> parse_device_models(
    const std::vector<std::string>& arguments, const std::vector<std::string>& targets,
    int& exit_code);

}  // namespace rlx
