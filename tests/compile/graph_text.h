// SPDX-License-Identifier: Apache-2.0
// Graphs as JSON text, and what to do with them.
#pragma once

#include <string>

#include "compiler/import/import.h"
#include "compiler/reference/evaluate.h"
#include "tests/support/catch.h"
#include "tests/support/fill.h"
#include "tests/support/harness.h"
#include "tests/support/judge.h"

namespace rlx::test {

inline Module module_from(const std::string& text, const DimBindings& dims = {}) {
  Diagnostics diagnostics;
  const auto source = read_json_graph(text, "test.json", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(source.has_value());
  auto module = bind_module(*source, dims, ".", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  return std::move(*module);
}

inline std::vector<std::byte> compiled(Module module, const CompileOptions& options) {
  Diagnostics diagnostics;
  auto bytes = compile_to_bytes(std::move(module), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(bytes.has_value());
  return std::move(*bytes);
}

// Steps that level 2 emits for the first of the tests' targets: a summary counts those of all.
inline size_t steps_of(const std::string& text) {
  CompileOptions options = test_options(2);
  options.targets.resize(1);
  Diagnostics diagnostics;
  CompileSummary summary;
  const auto plan = compile_to_bytes(module_from(text), options, diagnostics, &summary);
  INFO(diagnostics.text());
  REQUIRE(plan.has_value());
  return summary.steps;
}

// Random inputs of an entry.
inline std::vector<Tensor> random_inputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    inputs.push_back(fill(tensor(value.type.dtype, value.type.shape), value.name));
  }
  return inputs;
}

// Compiles at every optimisation level, runs on every device, and judges each output by class norm
// against the evaluator.
inline void check_on_devices(const std::string& text, const DimBindings& dims = {}) {
  const Module module = module_from(text, dims);
  const std::vector<Tensor> inputs = random_inputs(module.entries[0]);
  Diagnostics diagnostics;
  StateValues states;
  const auto wanted = evaluate_entry(module, module.entries[0], inputs, states, {}, diagnostics);
  REQUIRE(wanted.has_value());
  for (int level : {0, 1, 2}) {
    const auto plan = compile_plan(module, test_options(level), diagnostics);
    INFO("-O" << level << "\n" << diagnostics.text());
    REQUIRE(plan != nullptr);
    for (const auto& device : present_devices().devices) {
      TestSession session(*device, plan);
      const auto got = session.run(0, inputs, std::byte{0xA5});
      REQUIRE(got.size() == wanted->size());
      for (size_t i = 0; i < got.size(); ++i) {
        const Verdict verdict = judge(got[i], (*wanted)[i], Tolerance::Norm);
        INFO("output " << i << " on " << device->info().id << ": " << verdict.fault);
        CHECK(verdict.good);
      }
    }
  }
  CHECK(validation_messages().empty());
}

// A node as JSON: `inputs` quoted and separated, one output.
inline std::string node(const std::string& op, const std::string& inputs, const std::string& output,
                        const std::string& attributes = "{}") {
  return R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [")" + output +
         R"("], "attributes": )" + attributes + "}";
}

// An input as JSON.
inline std::string input(const std::string& name, const std::string& shape,
                         const std::string& dtype = "f32") {
  return R"({"name": ")" + name + R"(", "dtype": ")" + dtype + R"(", "shape": )" + shape + "}";
}

// A graph of such inputs and nodes.
inline std::string graph(const std::string& inputs, const std::string& nodes,
                         const std::string& outputs = R"("y")") {
  return R"({"rlx_graph": 1, "inputs": [)" + inputs + R"(], "nodes": [)" + nodes +
         R"(], "outputs": [)" + outputs + "]}";
}

}  // namespace rlx::test
