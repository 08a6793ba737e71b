// SPDX-License-Identifier: Apache-2.0
// Graphs whose meaning must survive every pass: levels 0, 1 and 2 against the evaluator, on every
// device.
#include "tests/compile/graph_text.h"

namespace rlx::test {

TEST_CASE("bias_activation_and_residual_join_a_matmul") {
  check_on_devices(R"({"rlx_graph": 1,
    "params": [{"name": "w", "dtype": "f32", "shape": [24, 40], "data": {"random": {"distribution": "normal", "mean": 0, "std": 1, "seed": 3}}},
               {"name": "b", "dtype": "f32", "shape": [40], "data": {"random": {"distribution": "uniform", "low": -1, "high": 1, "seed": 3}}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [17, 24]}, {"name": "r", "dtype": "f32", "shape": [17, 40]}],
    "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["p"]},
              {"op": "add", "inputs": ["p", "b"], "outputs": ["s"]},
              {"op": "gelu", "inputs": ["s"], "outputs": ["g"]},
              {"op": "add", "inputs": ["r", "g"], "outputs": ["y"]}],
    "outputs": ["y"]})");
}

TEST_CASE("T42_a_matmul_that_is_an_output_is_not_swallowed") {
  check_on_devices(R"({"rlx_graph": 1,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [5, 8]}, {"name": "w", "dtype": "f32", "shape": [8, 5]},
               {"name": "c", "dtype": "f32", "shape": [5, 1]}],
    "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["p"]},
              {"op": "add", "inputs": ["p", "c"], "outputs": ["s"]},
              {"op": "relu", "inputs": ["s"], "outputs": ["y"]}],
    "outputs": ["p", "y"]})");
}

TEST_CASE("T35_an_intermediate_of_a_chain_can_be_an_output") {
  check_on_devices(R"({"rlx_graph": 1,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [3, 7]}, {"name": "z", "dtype": "f32", "shape": [7]}],
    "nodes": [{"op": "mul", "inputs": ["x", "z"], "outputs": ["a"]},
              {"op": "tanh", "inputs": ["a"], "outputs": ["b"]},
              {"op": "add", "inputs": ["b", "a"], "outputs": ["c"]}],
    "outputs": ["a", "c", "c", "x"]})");
}

TEST_CASE("T22_chains_with_three_broadcast_patterns_keep_their_values") {
  check_on_devices(R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "f32", "shape": [4, 1, 6]}, {"name": "b", "dtype": "f32", "shape": [5, 1]},
               {"name": "c", "dtype": "f32", "shape": [4, 5, 6]}],
    "nodes": [{"op": "add", "inputs": ["a", "b"], "outputs": ["s"]},
              {"op": "sigmoid", "inputs": ["s"], "outputs": ["t"]},
              {"op": "lt", "inputs": ["t", "c"], "outputs": ["m"]},
              {"op": "where", "inputs": ["m", "t", "c"], "outputs": ["y"]}],
    "outputs": ["y"]})");
}

TEST_CASE("T2_a_cast_between_two_matmuls_converts") {
  check_on_devices(R"({"rlx_graph": 1,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [6, 8]}, {"name": "w", "dtype": "f32", "shape": [8, 8]}],
    "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["p"]},
              {"op": "cast", "inputs": ["p"], "outputs": ["i"], "attributes": {"to": "i32"}},
              {"op": "cast", "inputs": ["i"], "outputs": ["f"], "attributes": {"to": "f32"}},
              {"op": "matmul", "inputs": ["f", "w"], "outputs": ["y"]}],
    "outputs": ["y"]})");
}

TEST_CASE("concat_parts_written_in_place_keep_their_values") {
  check_on_devices(R"({"rlx_graph": 1,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 3, 4]}, {"name": "z", "dtype": "f32", "shape": [1, 2, 4]}],
    "nodes": [{"op": "exp", "inputs": ["x"], "outputs": ["a"]},
              {"op": "neg", "inputs": ["z"], "outputs": ["b"]},
              {"op": "concat", "inputs": ["a", "b", "a"], "outputs": ["inner"], "attributes": {"axis": 1}},
              {"op": "square", "inputs": ["z"], "outputs": ["c"]},
              {"op": "concat", "inputs": ["inner", "c"], "outputs": ["outer"], "attributes": {"axis": 1}},
              {"op": "softmax", "inputs": ["outer"], "outputs": ["y"]}],
    "outputs": ["y"]})");
}

TEST_CASE("views_of_views_reach_their_consumers") {
  check_on_devices(R"({"rlx_graph": 1,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [6, 10]}],
    "nodes": [{"op": "transpose", "inputs": ["x"], "outputs": ["t"]},
              {"op": "slice", "inputs": ["t"], "outputs": ["s"], "attributes": {"starts": [9], "ends": [0], "steps": [-2]}},
              {"op": "reshape", "inputs": ["s"], "outputs": ["r"], "attributes": {"shape": [5, 2, 3]}},
              {"op": "narrow", "inputs": ["r"], "outputs": ["n"], "attributes": {"axis": 2, "start": 1, "len": 2}},
              {"op": "reduce_sum", "inputs": ["n"], "outputs": ["y"], "attributes": {"axes": [1]}}],
    "outputs": ["y", "n"]})");
}

TEST_CASE("parallel_matmuls_of_constants_are_joined") {
  const std::string text = R"({"rlx_graph": 1,
    "constants": [{"name": "w1", "dtype": "f32", "shape": [3, 2], "data": {"values": [1, 2, 3, 4, 5, 6]}},
                  {"name": "w2", "dtype": "f32", "shape": [3, 1], "data": {"values": [-1, 0.5, 2]}},
                  {"name": "b1", "dtype": "f32", "shape": [2], "data": {"values": [1, -1]}},
                  {"name": "b2", "dtype": "f32", "shape": [1], "data": {"values": [4]}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [7, 3]}],
    "nodes": [{"op": "fused_matmul_bias_act", "inputs": ["x", "w1", "b1"], "outputs": ["p"]},
              {"op": "fused_matmul_bias_act", "inputs": ["x", "w2", "b2"], "outputs": ["q"]},
              {"op": "mul", "inputs": ["p", "q"], "outputs": ["y"]}],
    "outputs": ["y"]})";
  check_on_devices(text);
  CHECK(steps_of(text) == 2);
}

}  // namespace rlx::test
