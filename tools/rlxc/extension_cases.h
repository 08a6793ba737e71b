// SPDX-License-Identifier: Apache-2.0
// The table of cases of an extension: what it holds, and what its ops make of it, on the evaluator,
// by differences, and on a device.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/extension/load_extension.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

struct ExtensionCase {
  std::string name;
  const Extension* op = nullptr;
  nlohmann::ordered_json attributes;
  std::vector<Tensor> inputs;
  std::map<std::string, std::vector<double>> golden;  // by output
  double rtol = 0;
  double atol = 0;
  bool gradient = true;  // its gradient, where it has one, is held to differences
  std::string refused;   // a part of the error that the case must give; empty: it is taken
};

// nullopt where anything was reported. Inputs without values are drawn, the same ones every time.
std::optional<std::vector<ExtensionCase>> read_extension_cases(const ExtensionFamily& family,
                                                               Diagnostics& diagnostics);

// A graph of that one node. nullopt where the compiler refuses it, which `diagnostics` says.
std::optional<Module> module_of_case(const ExtensionCase& test, Diagnostics& diagnostics);

// Each returns what is wrong, as a sentence, or nothing.

// The evaluator against golden values and the refusal that is wanted. `outputs`: what it gave,
// where it gave something.
std::optional<std::string> check_on_evaluator(const ExtensionCase& test,
                                              std::optional<std::vector<Tensor>>& outputs);
// The gradient that the description, or the graph, gives against central differences.
std::optional<std::string> check_gradient_of(const ExtensionCase& test);
// A device ("vulkan:0") against the evaluator, or only golden values where there is no evaluator.
std::optional<std::string> check_on_device(const ExtensionCase& test, const std::string& device,
                                           const CompileOptions& options,
                                           const std::optional<std::vector<Tensor>>& outputs);

}  // namespace rlx
