// SPDX-License-Identifier: Apache-2.0
// run_passes: levels, disabled passes, dumps, times and the log.
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

const char* const kModel =
    R"("constants": [{"name": "k", "dtype": "f32", "shape": [4], "data": {"values": [1, 2, 3, 4]}}],
  "inputs": [{"name": "x", "dtype": "f32", "shape": [2, 3]}, {"name": "w", "dtype": "f32", "shape": [3, 4]}],
  "nodes": [{"op": "identity", "inputs": ["x"], "outputs": ["i"]}, {"op": "matmul", "inputs": ["i", "w"], "outputs": ["p"]},
            {"op": "neg", "inputs": ["k"], "outputs": ["b"]}, {"op": "add", "inputs": ["p", "b"], "outputs": ["s"]},
            {"op": "exp", "inputs": ["x"], "outputs": ["dead"]}, {"op": "relu", "inputs": ["s"], "outputs": ["y"]}],
  "outputs": ["y"])";

struct Run {
  Module module;
  std::vector<std::string> log;
};

Run run(const PassOptions& options) {
  Run result{.module = module_of(kModel), .log = {}};
  Diagnostics diagnostics;
  PassOptions for_target = options;
  for_target.target = find_target("vulkan");
  for (const PassStage stage : {PassStage::Neutral, PassStage::PerTarget})
    REQUIRE(run_passes(result.module, stage, for_target, diagnostics, result.log));
  CHECK(diagnostics.all().empty());
  return result;
}

}  // namespace

TEST_CASE("each level does more: necessary, folding, fusion") {
  const std::vector<Tensor> wanted = outputs_of(module_of(kModel));
  const std::vector<Lines> lines = {{"matmul(x, w)", "neg(k)", "add(p, b)", "relu(s)"},
                                    {"matmul(x, w)", "add(p, b.const)", "relu(s)"},
                                    {"fused_matmul_bias_act(x, w, b.const, null)"}};
  for (int level : {0, 1, 2}) {
    const Run result = run({.optimisation = level});
    CHECK(node_lines(result.module) == lines.at(static_cast<size_t>(level)));
    check_close(outputs_of(result.module), wanted);
  }
}

TEST_CASE("a disabled pass does not run; the necessary ones cannot be disabled") {
  const Run result = run({.optimisation = 2,
                          .disabled = {"fold-weights", "fold-constants", "fold-joined",
                                       "canonicalise", "remove-dead"}});
  CHECK(node_lines(result.module) == Lines{"neg(k)", "fused_matmul_bias_act(x, w, b, null)"});
}

TEST_CASE("the log names the passes that changed something, in order") {
  CHECK(run({.optimisation = 2}).log ==
        Lines{"canonicalise: 1 nodes changed", "fold-weights: 1 nodes changed",
              "remove-dead: 1 nodes changed", "fuse-epilogues: 1 nodes changed"});
}

TEST_CASE("a dump is the module after the pass that was asked for") {
  Lines dumps;
  PassOptions options;
  options.dump_after = "canonicalise";
  options.dump = [&dumps](const std::string& text) { dumps.push_back(text); };
  run(options);
  REQUIRE(dumps.size() == 1);
  CHECK(dumps[0].find("identity") == std::string::npos);
  CHECK(dumps[0].find("dead : f32[2, 3] = exp(x)") != std::string::npos);
}

TEST_CASE("every pass that runs is timed once") {
  Lines timed;
  PassOptions options;
  options.timing = [&timed](const std::string& pass, double seconds) {
    CHECK(seconds >= 0);
    timed.push_back(pass);
  };
  run(options);
  Lines names;
  for (const Pass& pass : all_passes()) names.emplace_back(pass.name);
  CHECK(timed == names);
}

TEST_CASE("names of passes are unique and each says what it does") {
  Lines names;
  for (const Pass& pass : all_passes()) {
    CHECK_FALSE(pass.summary.empty());
    CHECK(std::find(names.begin(), names.end(), pass.name) == names.end());
    names.emplace_back(pass.name);
  }
}

TEST_CASE("passes give one text for one module") {
  CHECK(print(run({.optimisation = 2}).module) == print(run({.optimisation = 2}).module));
}

}  // namespace rlx::test
