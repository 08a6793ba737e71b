// SPDX-License-Identifier: Apache-2.0
// fold_constants and fold_batch_norm.
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

// A conv of constants with a batch_norm after it; `entry` holds the nodes and outputs.
Module conv_module(const std::string& entry) {
  return module_of(R"("constants": [
    {"name": "w", "dtype": "f32", "shape": [2, 1, 2], "data": {"values": [1, -2, 0.5, 3]}},
    {"name": "c", "dtype": "f32", "shape": [2], "data": {"values": [0.25, -1]}},
    {"name": "g", "dtype": "f32", "shape": [2], "data": {"values": [2, 0.5]}},
    {"name": "b", "dtype": "f32", "shape": [2], "data": {"values": [1, -1]}},
    {"name": "m", "dtype": "f32", "shape": [2], "data": {"values": [0.5, 3]}},
    {"name": "v", "dtype": "f32", "shape": [2], "data": {"values": [4, 0.25]}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 2, 6]}], )" +
                   entry);
}

}  // namespace

TEST_CASE("nodes of constants are evaluated, through chains, up to the first input") {
  Module module = module_of(
      R"("constants": [{"name": "a", "dtype": "f32", "shape": [3], "data": {"values": [1, 2, 3]}},
                                             {"name": "b", "dtype": "f32", "shape": [1], "data": {"splat": 2}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [3]}],
    "nodes": [{"op": "mul", "inputs": ["a", "b"], "outputs": ["p"]}, {"op": "neg", "inputs": ["p"], "outputs": ["q"]},
              {"op": "add", "inputs": ["x", "q"], "outputs": ["y"]}],
    "outputs": ["y", "q"])");
  CHECK(apply_keeping_values(fold_constants, module) == 2);
  CHECK(node_lines(module) == Lines{"add(x, q.const)"});
  CHECK(outputs_of(module)[1].floats == std::vector<double>{-2, -4, -6});
}

TEST_CASE("folding that would swell the plan is left to the device") {
  const auto expanded = [](const std::string& rows) {
    return module_of(
        R"("constants": [{"name": "a", "dtype": "f32", "shape": [64], "data": {"splat": 1}}],
      "nodes": [{"op": "expand", "inputs": ["a"], "outputs": ["e"], "attributes": {"shape": [)" +
        rows + R"(, 64]}},
                {"op": "exp", "inputs": ["e"], "outputs": ["y"]}], "outputs": ["y"])");
  };
  Module small = expanded("256");  // 64 KiB
  CHECK(apply(fold_constants, small) == 2);
  Module big = expanded("257");
  CHECK(apply(fold_constants, big) == 0);
  CHECK(node_lines(big).size() == 2);
}

TEST_CASE("random weights stay random, and their casts move into the generator") {
  Module module = module_of(R"("params": [{"name": "w", "dtype": "f32", "shape": [8],
      "data": {"random": {"distribution": "normal", "mean": 0, "std": 1, "seed": 3}}}],
    "nodes": [{"op": "cast", "inputs": ["w"], "outputs": ["a"], "attributes": {"to": "f16"}},
              {"op": "cast", "inputs": ["w"], "outputs": ["b"], "attributes": {"to": "f16"}},
              {"op": "cast", "inputs": ["w"], "outputs": ["i"], "attributes": {"to": "i32"}},
              {"op": "exp", "inputs": ["a"], "outputs": ["y"]}],
    "outputs": ["y", "a", "b", "i"])");
  CHECK(apply_keeping_values(fold_constants, module, 2e-3) == 2);
  CHECK(node_lines(module) == Lines{"cast(w)", "exp(w.f16)"});
  REQUIRE(module.weights.size() == 2);
  CHECK(std::holds_alternative<RandomData>(module.weights[1].data));
  CHECK(module.entries[0].outputs[1] == module.entries[0].outputs[2]);
}

TEST_CASE("a weight of the model with the name of a cast is not taken for the cast") {
  Module module = module_of(R"("params": [{"name": "w", "dtype": "f32", "shape": [4],
      "data": {"random": {"distribution": "uniform", "low": 2, "high": 3, "seed": 3}}},
     {"name": "w.f16", "dtype": "f16", "shape": [4], "data": {"splat": -7}}],
    "inputs": [{"name": "x", "dtype": "f16", "shape": [4]}],
    "nodes": [{"op": "cast", "inputs": ["w"], "outputs": ["a"], "attributes": {"to": "f16"}},
              {"op": "add", "inputs": ["a", "w.f16"], "outputs": ["b"]}, {"op": "add", "inputs": ["b", "x"], "outputs": ["y"]}],
    "outputs": ["y"])");
  apply_keeping_values(fold_constants, module, 2e-3);
  CHECK(module.weights.size() == 3);
}

TEST_CASE("state writes of constants and reads of states are not folded") {
  Module module = module_of(
      R"("constants": [{"name": "a", "dtype": "f32", "shape": [2], "data": {"values": [1, 2]}}],
    "states": [{"name": "s", "dtype": "f32", "shape": [2]}],
    "nodes": [{"op": "add", "inputs": ["s", "a"], "outputs": ["y"]}, {"op": "state_write", "inputs": ["s", "a"], "outputs": ["n"]}],
    "outputs": ["y"])");
  CHECK(apply(fold_constants, module) == 0);
}

TEST_CASE("a batch_norm after a conv of constants goes into its weights") {
  const bool biased = GENERATE(false, true);
  Module module = conv_module(std::string(R"("nodes": [{"op": "conv", "inputs": ["x", "w")") +
                              (biased ? R"(, "c")" : "") +
                              R"(], "outputs": ["k"], "attributes": {"groups": 2}},
    {"op": "batch_norm", "inputs": ["k", "g", "b", "m", "v"], "outputs": ["y"], "attributes": {"eps": 0.125}}],
    "outputs": ["y"])");
  const std::vector<Tensor> wanted = outputs_of(module);
  CHECK(apply(fold_batch_norm, module) == 1);
  check_close(outputs_of(module), wanted);
  CHECK(only_node(module, "conv").inputs.size() == 3);
  apply(fold_constants, module);
  CHECK(node_lines(module).size() == 1);
  check_close(outputs_of(module), wanted);
}

TEST_CASE(
    "a batch_norm stays where the conv is an output, has another reader, or has an activation") {
  const auto stays = [](const std::string& entry) {
    Module module = conv_module(entry);
    CHECK(apply(fold_batch_norm, module) == 0);
  };
  const std::string conv =
      R"("nodes": [{"op": "conv", "inputs": ["x", "w"], "outputs": ["k"], "attributes": {"groups": 2}}, )";
  const std::string norm =
      R"({"op": "batch_norm", "inputs": ["k", "g", "b", "m", "v"], "outputs": ["y"]})";
  stays(conv + norm + R"(], "outputs": ["y", "k"])");
  stays(conv + norm +
        R"(, {"op": "exp", "inputs": ["k"], "outputs": ["z"]}], "outputs": ["y", "z"])");
  stays(
      R"("nodes": [{"op": "conv", "inputs": ["x", "w"], "outputs": ["k"], "attributes": {"groups": 2, "activation": "relu"}}, )" +
      norm + R"(], "outputs": ["y"])");
}

TEST_CASE("a batch_norm over another axis than the channels stays") {
  Module module = module_of(R"("constants": [
    {"name": "w", "dtype": "f32", "shape": [2, 2, 1], "data": {"values": [1, -2, 0.5, 3]}},
    {"name": "g", "dtype": "f32", "shape": [2], "data": {"splat": 1}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 2, 2]}],
    "nodes": [{"op": "conv", "inputs": ["x", "w"], "outputs": ["k"]},
              {"op": "batch_norm", "inputs": ["k", "g", "g", "g", "g"], "outputs": ["y"], "attributes": {"axis": 2}}],
    "outputs": ["y"])");
  CHECK(apply(fold_batch_norm, module) == 0);
}

}  // namespace rlx::test
