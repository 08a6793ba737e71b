// SPDX-License-Identifier: Apache-2.0
// A training step as a plan, against the evaluator.
#include <algorithm>

#include "compiler/passes/training_step.h"
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// A convolution, a pool and a product.
constexpr const char* kNetwork = R"({"rlx_graph": 1,
  "params": [
    {"name": "filters", "dtype": "f32", "shape": [2, 1, 3, 3],
     "data": {"random": {"distribution": "normal", "std": 0.5}}},
    {"name": "w", "dtype": "f32", "shape": [8, 3],
     "data": {"random": {"distribution": "normal", "std": 0.5}}},
    {"name": "b", "dtype": "f32", "shape": [3], "data": {"splat": 0.5}}],
  "inputs": [{"name": "x", "dtype": "f32", "shape": [3, 1, 4, 4]},
             {"name": "labels", "dtype": "u8", "shape": [3]}],
  "nodes": [
    {"op": "conv", "inputs": ["x", "filters"], "outputs": ["c"],
     "attributes": {"pads": [1, 1, 1, 1]}},
    {"op": "relu", "inputs": ["c"], "outputs": ["r"]},
    {"op": "pool", "inputs": ["r"], "outputs": ["p"],
     "attributes": {"kind": "max", "kernel": [2, 2], "stride": [2, 2]}},
    {"op": "flatten", "inputs": ["p"], "outputs": ["f"]},
    {"op": "matmul", "inputs": ["f", "w"], "outputs": ["m"]},
    {"op": "add", "inputs": ["m", "b"], "outputs": ["logits"]},
    {"op": "softmax_cross_entropy", "inputs": ["logits", "labels"], "outputs": ["loss"],
     "attributes": {"reduction": "mean"}}],
  "outputs": ["loss"]})";

Module trained(const TrainingOptions& options) {
  Module module = module_from(kNetwork);
  Diagnostics diagnostics;
  const bool good = make_training_step(module, options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(good);
  return module;
}

size_t index_of_entry(const Module& module, const std::string& name) {
  const auto found = std::find_if(module.entries.begin(), module.entries.end(),
                                  [&name](const Graph& graph) { return graph.name == name; });
  REQUIRE(found != module.entries.end());
  return static_cast<size_t>(found - module.entries.begin());
}

}  // namespace

TEST_CASE("a_training_step_is_the_evaluators_and_copies_no_parameter") {
  const Module module = trained({.loss = "loss",
                                 .optimizer = Optimizer::AdamW,
                                 .lr = 0.01,
                                 .weight_decay = 0.1,
                                 .clip_norm = 1,
                                 .accumulate = 2});
  Diagnostics diagnostics;
  const auto plan = compile_plan(module, test_options(2), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  const std::vector<const char*> runs = {"accumulate", "train", "eval", "train"};
  for (const auto& device : present_devices().devices) {
    TestSession session(*device, plan);
    StateValues states;
    for (const char* name : runs) {
      const size_t entry = index_of_entry(module, name);
      const std::vector<Tensor> inputs = random_inputs(module.entries[entry]);
      const auto wanted =
          evaluate_entry(module, module.entries[entry], inputs, states, {}, diagnostics);
      INFO(diagnostics.text());
      REQUIRE(wanted.has_value());
      const auto got = session.run(static_cast<uint32_t>(entry), inputs, std::byte{0xA5});
      REQUIRE(got.size() == wanted->size());
      const Verdict verdict = judge(got[0], (*wanted)[0], Tolerance::Norm);
      INFO("entry " << name << " on " << device->info().id << ": " << verdict.fault);
      CHECK(verdict.good);
    }
  }
  for (const fb::Entry* entry : *plan->index().entries()) {
    const auto copies =
        std::count_if(entry->steps()->begin(), entry->steps()->end(),
                      [](const fb::Step* step) { return step->kind() == fb::StepKind::Copy; });
    INFO("entry " << entry->name()->string_view());
    // The sums of gradients begin anew, from zeros.
    CHECK(copies == (entry->name()->string_view() == "train" ? 3 : 0));
  }
}

}  // namespace rlx::test
