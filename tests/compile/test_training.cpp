// SPDX-License-Identifier: Apache-2.0
// A training step as a plan: the network of examples/train, against the evaluator.
#include <algorithm>

#include "compiler/passes/training_step.h"
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

Module network(int64_t batch) {
  Diagnostics diagnostics;
  ImportOptions options;
  options.dims = {{"batch", batch}};
  std::optional<Module> module = load_module("examples/train/model.json", options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  return std::move(*module);
}

Module trained(int64_t batch, const TrainingOptions& options) {
  Module module = network(batch);
  Diagnostics diagnostics;
  REQUIRE(make_training_step(module, options, diagnostics));
  INFO(diagnostics.text());
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
  const Module module = trained(2, {.loss = "loss",
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
    CHECK(copies == 0);
  }
}

}  // namespace rlx::test
