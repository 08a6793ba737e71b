// SPDX-License-Identifier: Apache-2.0
// remove_dead, merge_common and decompose.
#include <cmath>

#include "tests/passes/pass_support.h"

namespace rlx::test {

TEST_CASE("what nobody reads goes, chains of it at once; state writes stay") {
  Module module = module_of(R"("states": [{"name": "s", "dtype": "f32", "shape": [2]}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [2]}],
    "nodes": [{"op": "exp", "inputs": ["x"], "outputs": ["a"]},
              {"op": "neg", "inputs": ["a"], "outputs": ["dead"]},
              {"op": "abs", "inputs": ["dead"], "outputs": ["deader"]},
              {"op": "add", "inputs": ["s", "a"], "outputs": ["v"]},
              {"op": "state_write", "inputs": ["s", "v"], "outputs": ["new"]},
              {"op": "sqrt", "inputs": ["x"], "outputs": ["y"]}],
    "outputs": ["y"])");
  CHECK(apply_keeping_values(remove_dead, module) == 2);
  CHECK(node_lines(module) == Lines{"exp(x)", "add(s, a)", "state_write(s, v)", "sqrt(x)"});
}

TEST_CASE("a node stays while one of its outputs is read") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [4]}],
    "nodes": [{"op": "split", "inputs": ["x"], "outputs": ["a", "b"], "attributes": {"axis": 0, "num": 2}}],
    "outputs": ["b"])");
  CHECK(apply_keeping_values(remove_dead, module) == 0);
}

TEST_CASE("equal nodes merge, and so do nodes that become equal by it") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [3]}],
    "nodes": [{"op": "exp", "inputs": ["x"], "outputs": ["a"]}, {"op": "exp", "inputs": ["x"], "outputs": ["b"]},
              {"op": "neg", "inputs": ["a"], "outputs": ["c"]}, {"op": "neg", "inputs": ["b"], "outputs": ["d"]},
              {"op": "sub", "inputs": ["c", "d"], "outputs": ["y"]}],
    "outputs": ["y", "d"])");
  CHECK(apply_keeping_values(merge_common, module) == 2);
  CHECK(node_lines(module) == Lines{"exp(x)", "neg(a)", "sub(c, c)"});
  CHECK(output_lines(module) == Lines{"y : f32[3]", "c : f32[3]"});
}

TEST_CASE(
    "nodes that differ in an attribute, in the sign of zero, or in operand order do not merge") {
  Module module = module_of(
      R"("inputs": [{"name": "x", "dtype": "f32", "shape": [3]}, {"name": "z", "dtype": "f32", "shape": [3]}],
    "nodes": [{"op": "sub", "inputs": ["x", "z"], "outputs": ["a"]}, {"op": "sub", "inputs": ["z", "x"], "outputs": ["b"]},
              {"op": "leaky_relu", "inputs": ["x"], "outputs": ["c"], "attributes": {"alpha": 0.0}},
              {"op": "leaky_relu", "inputs": ["x"], "outputs": ["d"], "attributes": {"alpha": -0.0}},
              {"op": "leaky_relu", "inputs": ["x"], "outputs": ["e"], "attributes": {"alpha": 1.0}},
              {"op": "leaky_relu", "inputs": ["x"], "outputs": ["f"], "attributes": {"alpha": 2.0}}],
    "outputs": ["a", "b", "c", "d", "e", "f"])");
  Graph& graph = module.entries[0];
  graph.change_node(graph.order().back(), [](Node& node) {
    node.attributes["alpha"] = std::nan("");  // as folding may make it
  });
  CHECK(apply(merge_common, module) == 0);
}

TEST_CASE("writes of two states with one value stay two writes") {
  Module module = module_of(
      R"("states": [{"name": "s", "dtype": "f32", "shape": [2]}, {"name": "t", "dtype": "f32", "shape": [2]}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [2]}],
    "nodes": [{"op": "state_write", "inputs": ["s", "x"], "outputs": ["a"]},
              {"op": "state_write", "inputs": ["t", "x"], "outputs": ["b"]}],
    "outputs": ["a"])");
  CHECK(apply(merge_common, module) == 0);
  CHECK(node_lines(module).size() == 2);
}

TEST_CASE("an op without a kernel becomes ops that have one") {
  Module module = module_of(
      R"("constants": [{"name": "g", "dtype": "f32", "shape": [2], "data": {"values": [2, 0.5]}},
                  {"name": "b", "dtype": "f32", "shape": [2], "data": {"values": [1, -1]}},
                  {"name": "m", "dtype": "f32", "shape": [2], "data": {"values": [0.5, 3]}},
                  {"name": "v", "dtype": "f32", "shape": [2], "data": {"values": [4, 0.25]}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [3, 2, 4]}],
    "nodes": [{"op": "batch_norm", "inputs": ["x", "g", "b", "m", "v"], "outputs": ["n"]},
              {"op": "global_pool", "inputs": ["n"], "outputs": ["y"], "attributes": {"kind": "mean"}}],
    "outputs": ["y", "n"])");
  CHECK(apply_keeping_values(decompose, module) >= 2);
  for (const std::string& line : node_lines(module)) {
    CHECK(line.find("batch_norm") == std::string::npos);
    CHECK(line.find("global_pool") == std::string::npos);
  }
}

TEST_CASE("outputs of a selection that nobody wants may be left out") {
  const std::vector<std::string> names = {"y", "count", "first", "inverse", "counts"};
  for (size_t outputs = 1; outputs <= names.size(); ++outputs) {
    std::string list;
    for (size_t i = 0; i < outputs; ++i) list += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
    Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [20]}],
      "nodes": [{"op": "unique", "inputs": ["x"], "outputs": [)" +
                              list + "]}], \"outputs\": [" + list + "]");
    CAPTURE(outputs);
    CHECK(apply_keeping_values(decompose, module) >= 1);
  }
}

TEST_CASE("the evaluator gives a gate's experts without their weights") {
  const Module module = module_of(R"("inputs": [{"name": "s", "dtype": "f32", "shape": [2, 8]},
                                       {"name": "r", "dtype": "f32", "shape": [2, 8]}],
    "nodes": [{"op": "llada2_gate", "inputs": ["s", "r"], "outputs": ["chosen"],
               "attributes": {"n_group": 2, "topk_group": 1, "top_k": 2}}],
    "outputs": ["chosen"])");
  CHECK(outputs_of(module).at(0).integers == std::vector<int64_t>{7, 6, 7, 6});
}

}  // namespace rlx::test
