// SPDX-License-Identifier: Apache-2.0
// Modules from JSON text, one pass at a time, and the text of what came out.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/passes/pass.h"
#include "compiler/reference/evaluate.h"
#include "tests/support/catch.h"

namespace rlx::test {

// `body`: the fields of a graph file after its version.
inline Module module_of(const std::string& body) {
  Diagnostics diagnostics;
  const auto source = read_json_graph("{\"rlx_graph\": 1, " + body + "}", "test.json", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(source.has_value());
  auto module = bind_module(*source, {}, ".", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  return std::move(*module);
}

// Runs one pass, which must report nothing and leave a valid module; returns how many nodes it says
// it changed.
inline size_t apply(PassFunction pass, Module& module, const PassOptions& options = {}) {
  Diagnostics diagnostics;
  const size_t changed = pass(module, options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE_FALSE(diagnostics.has_errors());
  INFO(find_fault(module).value_or("") << "\n" << print(module));
  REQUIRE_FALSE(find_fault(module).has_value());
  return changed;
}

// "op(input, ...)" per live node of the first entry, in execution order.
inline std::vector<std::string> node_lines(const Module& module) {
  const Graph& graph = module.entries.at(0);
  std::vector<std::string> lines;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::string line = node.op + "(";
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (i > 0) line += ", ";
      line += node.inputs[i] ? graph.value(*node.inputs[i]).name : "null";
    }
    lines.push_back(line + ")");
  }
  return lines;
}

inline std::vector<std::string> output_lines(const Module& module) {
  const Graph& graph = module.entries.at(0);
  std::vector<std::string> lines;
  for (ValueId id : graph.outputs()) {
    lines.push_back(graph.value(id).name + " : " + to_string(graph.value(id).type));
  }
  return lines;
}

// The only live node of an op.
inline const Node& only_node(const Module& module, const std::string& op) {
  const Graph& graph = module.entries.at(0);
  const Node* found = nullptr;
  for (NodeId id : graph.order()) {
    if (graph.node(id).op != op) continue;
    INFO(print(module));
    REQUIRE(found == nullptr);
    found = &graph.node(id);
  }
  INFO(print(module));
  REQUIRE(found != nullptr);
  return *found;
}

// The outputs of the first entry for inputs 0.25, 0.5, 0.75, ... (integers: 0, 1, 2, ...).
inline std::vector<Tensor> outputs_of(const Module& module) {
  const Graph& graph = module.entries.at(0);
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs) {
    Tensor tensor = Tensor::zeros(graph.value(id).type);
    for (size_t i = 0; i < tensor.floats.size(); ++i) {
      tensor.floats[i] = 0.25 * static_cast<double>((i + inputs.size()) % 17 + 1);
    }
    for (size_t i = 0; i < tensor.integers.size(); ++i) {
      tensor.integers[i] = static_cast<int64_t>(i % 2);
    }
    inputs.push_back(std::move(tensor));
  }
  StateValues states;
  Diagnostics diagnostics;
  auto outputs = evaluate_entry(module, graph, inputs, states, {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(outputs.has_value());
  return std::move(*outputs);
}

inline void check_close(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted,
                        double tolerance = 1e-5) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(got[i].type == wanted[i].type);
    CHECK(got[i].integers == wanted[i].integers);
    for (size_t k = 0; k < got[i].floats.size(); ++k) {
      CHECK(got[i].floats[k] == Approx(wanted[i].floats[k]).epsilon(tolerance).margin(tolerance));
    }
  }
}

// Applies one pass and checks that the outputs keep their values and types; returns the number of
// nodes changed.
inline size_t apply_keeping_values(PassFunction pass, Module& module, double tolerance = 1e-5,
                                   const PassOptions& options = {}) {
  const std::vector<Tensor> wanted = outputs_of(module);
  const size_t changed = apply(pass, module, options);
  check_close(outputs_of(module), wanted, tolerance);
  return changed;
}
inline size_t apply_for(PassFunction pass, Module& module, const char* target,
                        double tolerance = 1e-5) {
  return apply_keeping_values(pass, module, tolerance, {.target = find_target(target)});
}

using Lines = std::vector<std::string>;

}  // namespace rlx::test
