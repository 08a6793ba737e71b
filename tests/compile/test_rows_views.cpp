// SPDX-License-Identifier: Apache-2.0
// Reductions, softmax, norms, attention and rope read views: transposed, reversed, sliced and
// broadcast tensors.
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// x [12, 20, 6] becomes v: transposed, its last dim reversed; then `nodes` make y of v.
std::string over_view(const std::string& perm, const std::string& nodes) {
  return R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [12, 20, 6]}],
    "nodes": [{"op": "transpose", "inputs": ["x"], "outputs": ["t"], "attributes": {"perm": )" +
         perm + R"(}},
              {"op": "slice", "inputs": ["t"], "outputs": ["v"],
               "attributes": {"starts": [-1], "ends": [-100], "axes": [1], "steps": [-1]}}, )" +
         nodes + R"(], "outputs": ["y"]})";
}

std::string row_node(const std::string& op, const std::string& attributes) {
  return R"({"op": ")" + op + R"(", "inputs": ["v"], "outputs": ["y"], "attributes": )" +
         attributes + "}";
}

}  // namespace

TEST_CASE("reductions_read_reversed_and_transposed_views") {
  for (const char* perm : {"[2, 0, 1]", "[1, 2, 0]", "[0, 1, 2]"}) {
    check_on_devices(over_view(perm, row_node("reduce_sum", R"({"axes": [1]})")));
    check_on_devices(over_view(perm, row_node("reduce_max", R"({"axes": [0, 2]})")));
    check_on_devices(over_view(perm, row_node("variance", R"({"axes": [-1]})")));
    check_on_devices(over_view(perm, row_node("argmax", R"({"axis": 1})")));
    check_on_devices(over_view(perm, row_node("argmin", "{}")));
  }
}

TEST_CASE("softmax_and_norms_read_reversed_and_transposed_views") {
  for (const char* perm : {"[2, 0, 1]", "[1, 2, 0]", "[0, 1, 2]"}) {
    check_on_devices(over_view(perm, row_node("softmax", R"({"axis": 1})")));
    check_on_devices(over_view(perm, row_node("log_softmax", R"({"axis": -1})")));
    check_on_devices(over_view(perm, row_node("layer_norm", R"({"axis": -2})")));
    check_on_devices(over_view(perm, row_node("rms_norm", "{}")));
  }
}

TEST_CASE("reductions_read_broadcast_views") {
  const std::string graph =
      R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [12, 1, 6]}],
    "nodes": [{"op": "expand", "inputs": ["x"], "outputs": ["v"], "attributes": {"shape": [12, 9, 6]}}, )";
  check_on_devices(graph + row_node("reduce_sum", R"({"axes": [1, 2]})") +
                   R"(], "outputs": ["y"]})");
  check_on_devices(graph + row_node("softmax", R"({"axis": 1})") + R"(], "outputs": ["y"]})");
  check_on_devices(graph + row_node("layer_norm", R"({"axis": 1})") + R"(], "outputs": ["y"]})");
}

TEST_CASE("attention_and_rope_read_transposed_and_sliced_heads") {
  check_on_devices(R"({"rlx_graph": 1,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [2, 9, 72]}, {"name": "c", "dtype": "f32", "shape": [8, 9]},
               {"name": "s", "dtype": "f32", "shape": [8, 9]}],
    "nodes": [{"op": "narrow", "inputs": ["x"], "outputs": ["q3"], "attributes": {"axis": 2, "start": 0, "len": 24}},
              {"op": "narrow", "inputs": ["x"], "outputs": ["k3"], "attributes": {"axis": 2, "start": 24, "len": 24}},
              {"op": "narrow", "inputs": ["x"], "outputs": ["v3"], "attributes": {"axis": 2, "start": 48, "len": 24}},
              {"op": "reshape", "inputs": ["q3"], "outputs": ["q4"], "attributes": {"shape": [2, 9, 3, 8]}},
              {"op": "transpose", "inputs": ["q4"], "outputs": ["qt"], "attributes": {"perm": [0, 2, 1, 3]}},
              {"op": "transpose", "inputs": ["c"], "outputs": ["ct"]},
              {"op": "transpose", "inputs": ["s"], "outputs": ["st"]},
              {"op": "rope", "inputs": ["qt", "ct", "st"], "outputs": ["q"], "attributes": {"head_dim": 8, "layout": "bhsd"}},
              {"op": "attention", "inputs": ["q", "k3", "v3"], "outputs": ["y"],
               "attributes": {"num_heads": 3, "head_dim": 8, "q_layout": "bhsd", "kv_layout": "bsd", "out_layout": "bsd", "causal": true}},
              {"op": "transpose", "inputs": ["x"], "outputs": ["xt"], "attributes": {"perm": [0, 2, 1]}},
              {"op": "attention", "inputs": ["xt"], "outputs": ["z"],
               "attributes": {"num_heads": 1, "head_dim": 3, "packed": "gqa"}}],
    "outputs": ["y", "z"]})");
}

TEST_CASE("T20_T21_tensors_beyond_32_bits_compile") {
  const auto compiles = [](const std::string& shape, const std::string& node_text) {
    const std::string text =
        R"({"rlx_graph": 1, "inputs": [{"name": "v", "dtype": "f16", "shape": )" + shape +
        R"(}], "nodes": [)" + node_text + R"(], "outputs": ["y"]})";
    CHECK_FALSE(compiled(module_from(text), test_options(2)).empty());
  };
  for (const char* shape : {"[70000, 70001]", "[5000000000, 2]", "[2, 5000000000]"}) {
    for (const char* axis : {"0", "1"}) {
      compiles(shape, row_node("reduce_sum", R"({"axes": [)" + std::string(axis) + "]}"));
      compiles(shape, row_node("argmax", R"({"axis": )" + std::string(axis) + "}"));
      compiles(shape, row_node("log_softmax", R"({"axis": )" + std::string(axis) + "}"));
    }
    compiles(shape, row_node("layer_norm", "{}"));
    compiles(shape, row_node("variance", "{}"));
  }
  compiles("[40000, 512, 3, 8, 16]",
           row_node("attention", R"({"num_heads": 8, "head_dim": 16, "packed": "3hd"})"));
}

}  // namespace rlx::test
