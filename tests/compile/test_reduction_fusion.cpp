// SPDX-License-Identifier: Apache-2.0
// Elementwise chains computed inside the reduction after them: levels 0, 1 and 2 against the
// evaluator, on every device, and one kernel at level 2.
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// Checks a graph's values and that level 2 emits `steps` kernels for it.
void check_fused(const std::string& text, size_t steps = 1) {
  check_on_devices(text);
  CHECK(steps_of(text) == steps);
}

std::string reduction(const std::string& op, const std::string& attributes = "{}") {
  return R"({"op": ")" + op + R"(", "inputs": ["c"], "outputs": ["y"], "attributes": )" +
         attributes + R"(}], "outputs": ["y"]})";
}

}  // namespace

TEST_CASE("a chain of broadcast operands is reduced over several axes in one kernel") {
  const std::string chain = R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "f32", "shape": [4, 1, 6, 3]},
               {"name": "b", "dtype": "f32", "shape": [5, 1, 1]},
               {"name": "d", "dtype": "f32", "shape": [4, 5, 6, 3]}],
    "nodes": [{"op": "add", "inputs": ["a", "b"], "outputs": ["s"]},
              {"op": "sigmoid", "inputs": ["s"], "outputs": ["t"]},
              {"op": "mul", "inputs": ["t", "d"], "outputs": ["c"]}, )";
  for (const char* axes : {"[0, 2]", "[1, 3]", "[3]", "[0]", "[0, 1, 2, 3]"}) {
    const std::string attributes = std::string("{\"axes\": ") + axes + ", \"keep_dims\": true}";
    check_fused(chain + reduction("reduce_sum", attributes));
  }
}

TEST_CASE("a chain without a full-size operand is reduced over the shape that it broadcasts to") {
  check_fused(R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "f32", "shape": [7, 1]},
               {"name": "b", "dtype": "f32", "shape": [9]}],
    "nodes": [{"op": "sub", "inputs": ["a", "b"], "outputs": ["c"]}, )" +
              reduction("reduce_mean", R"({"axes": [0]})"));
}

TEST_CASE("rows long enough for several workgroups take their chain along") {
  check_fused(R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "f32", "shape": [2, 40000]},
               {"name": "b", "dtype": "f32", "shape": [2, 1]}],
    "nodes": [{"op": "mul", "inputs": ["a", "b"], "outputs": ["s"]},
              {"op": "square", "inputs": ["s"], "outputs": ["c"]}, )" +
                  reduction("reduce_sum", R"({"axes": [1]})"),
              2);
}

TEST_CASE("variance and log_sum_exp compute the chain in both of their passes") {
  const std::string chain = R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "f32", "shape": [6, 50]},
               {"name": "b", "dtype": "f32", "shape": [50]}],
    "nodes": [{"op": "add", "inputs": ["a", "b"], "outputs": ["s"]},
              {"op": "tanh", "inputs": ["s"], "outputs": ["c"]}, )";
  check_fused(chain + reduction("variance", R"({"axes": [1]})"), 2);
  check_fused(chain + reduction("reduce_log_sum_exp", R"({"axes": [0]})"), 2);
}

TEST_CASE("operands of a fused chain may be strided views") {
  check_fused(R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "f32", "shape": [6, 10]},
               {"name": "b", "dtype": "f32", "shape": [10, 12]}],
    "nodes": [{"op": "transpose", "inputs": ["a"], "outputs": ["t"]},
              {"op": "slice", "inputs": ["b"], "outputs": ["v"], "attributes": {"axes": [1], "starts": [11], "ends": [-13], "steps": [-2]}},
              {"op": "sub", "inputs": ["t", "v"], "outputs": ["s"]},
              {"op": "abs", "inputs": ["s"], "outputs": ["c"]}, )" +
              reduction("reduce_max", R"({"axes": [0]})"));
}

// Images channels last, as convolutions leave them: counted as the largest operand stands.
TEST_CASE("a chain over turned axes is reduced over any of them in one kernel") {
  for (const char* channels : {"8", "7"}) {
    const std::string c = channels;
    const std::string chain = R"({"rlx_graph": 1,
    "inputs": [{"name": "x", "dtype": "f32", "shape": [3, 5, 6, )" +
                              c + R"(]},
               {"name": "z", "dtype": "f16", "shape": [3, )" +
                              c + R"(, 5, 6]},
               {"name": "g", "dtype": "f32", "shape": [)" +
                              c + R"(, 1, 1]}],
    "nodes": [{"op": "transpose", "inputs": ["x"], "outputs": ["t"], "attributes": {"perm": [0, 3, 1, 2]}},
              {"op": "cast", "inputs": ["z"], "outputs": ["f"], "attributes": {"to": "f32"}},
              {"op": "mul", "inputs": ["t", "g"], "outputs": ["s"]},
              {"op": "add", "inputs": ["s", "f"], "outputs": ["c"]}, )";
    for (const char* axes : {"[0, 2, 3]", "[2, 3]", "[1]", "[1, 3]", "[0]", "[0, 1, 2, 3]"}) {
      check_fused(chain + reduction("reduce_sum", std::string("{\"axes\": ") + axes + "}"));
    }
    check_fused(chain + reduction("variance", R"({"axes": [0, 2, 3]})"), 2);
  }
}

// As the gradient of a norm sums dy, and dy times what was normalised.
TEST_CASE("sums of the same tensors over the same rows are one kernel") {
  const auto sums = [](const std::string& shape, const std::string& nodes, const char* axes) {
    const std::string reduced = R"(, "attributes": {"axes": )" + std::string(axes) + "}}";
    return R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f16", "shape": )" + shape +
           R"(}, {"name": "g", "dtype": "f16", "shape": )" + shape + R"(}], "nodes": [)" + nodes +
           R"({"op": "cast", "inputs": ["t"], "outputs": ["f"], "attributes": {"to": "f32"}},
              {"op": "cast", "inputs": ["g"], "outputs": ["d"], "attributes": {"to": "f32"}},
              {"op": "mul", "inputs": ["f", "d"], "outputs": ["p"]},
              {"op": "reduce_sum", "inputs": ["d"], "outputs": ["y"])" +
           reduced + R"(, {"op": "reduce_sum", "inputs": ["p"], "outputs": ["z"])" + reduced +
           R"(], "outputs": ["y", "z"]})";
  };
  const std::string same = R"({"op": "neg", "inputs": ["x"], "outputs": ["t"]}, )";
  for (const char* shape : {"[3, 5, 6, 8]", "[3, 5, 6, 7]"}) {
    for (const char* axes : {"[0, 1, 2]", "[3]", "[1, 2]", "[0, 1, 2, 3]"})
      check_fused(sums(shape, same, axes));
  }
  check_fused(sums("[2, 40000]", same, "[1]"), 3);
  check_fused(sums("[20000, 8]", same, "[0]"), 3);
}

TEST_CASE("rows that stand side by side are read four at a time") {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    for (const char* shape : {"[9, 5, 12]", "[9, 5, 260]", "[300, 1, 64]"}) {
      const std::string inputs = R"({"rlx_graph": 1, "inputs": [{"name": "c", "dtype": ")" +
                                 std::string(dtype) + R"(", "shape": )" + shape +
                                 R"(}], "nodes": [)";
      for (const char* op : {"reduce_sum", "reduce_max", "reduce_l2"})
        check_fused(inputs + reduction(op, R"({"axes": [0, 1]})"));
    }
  }
}

TEST_CASE("chains of other dtypes: comparisons, casts, narrow integers and halves") {
  check_fused(R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "f32", "shape": [8, 9]}, {"name": "b", "dtype": "f32", "shape": [9]}],
    "nodes": [{"op": "lt", "inputs": ["a", "b"], "outputs": ["c"]}, )" +
              reduction("reduce_any", R"({"axes": [1]})"));
  check_fused(R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "f32", "shape": [8, 9]}, {"name": "b", "dtype": "f32", "shape": [9]}],
    "nodes": [{"op": "lt", "inputs": ["a", "b"], "outputs": ["m"]},
              {"op": "cast", "inputs": ["m"], "outputs": ["c"], "attributes": {"to": "i64"}}, )" +
              reduction("reduce_sum", R"({"axes": [0]})"));
  check_fused(R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "i8", "shape": [8, 9]}, {"name": "b", "dtype": "i8", "shape": [8, 1]}],
    "nodes": [{"op": "add", "inputs": ["a", "b"], "outputs": ["c"]}, )" +
              reduction("reduce_max", R"({"axes": [1]})"));
  check_fused(R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "f16", "shape": [8, 64]}, {"name": "b", "dtype": "f16", "shape": [64]}],
    "nodes": [{"op": "mul", "inputs": ["a", "b"], "outputs": ["c"]}, )" +
              reduction("reduce_l2", R"({"axes": [1]})"));
}

TEST_CASE("an empty reduction of a chain gives the reduction's neutral value") {
  check_fused(R"({"rlx_graph": 1,
    "inputs": [{"name": "a", "dtype": "f32", "shape": [3, 0]}],
    "nodes": [{"op": "exp", "inputs": ["a"], "outputs": ["c"]}, )" +
              reduction("reduce_sum", R"({"axes": [1]})"));
}

TEST_CASE(
    "a chain of thirteen inputs fits beside the centre of a variance; one of fourteen stays "
    "apart") {
  const auto sum_of = [](int count) {
    std::string inputs;
    std::string nodes;
    for (int i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      inputs +=
          (i > 0 ? ", " : "") + (R"({"name": "x)" + n + R"(", "dtype": "f32", "shape": [4, 6]})");
      if (i == 0) continue;
      const std::string left = i == 1 ? "x0" : "s" + std::to_string(i - 1);
      const std::string result = i + 1 == count ? "c" : "s" + n;
      nodes += R"({"op": "add", "inputs": [")" + left + R"(", "x)" + n + R"("], "outputs": [")" +
               result + R"("]}, )";
    }
    return R"({"rlx_graph": 1, "inputs": [)" + inputs + R"(], "nodes": [)" + nodes +
           reduction("variance", R"({"axes": [1]})");
  };
  check_fused(sum_of(13), 2);
  check_fused(sum_of(14), 3);
}

}  // namespace rlx::test
