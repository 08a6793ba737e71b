// SPDX-License-Identifier: Apache-2.0
// add_parts: reductions over few elements that stand apart.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

Module reduction_of(const std::string& x, const std::string& op, const std::string& attributes,
                    const std::string& dtype = "f32") {
  return module_of(R"("inputs": [)" + input_text("x", x, dtype) + R"(], "nodes": [)" +
                   op_text(op, R"("x")", "y", attributes) + R"(], "outputs": ["y"])");
}

}  // namespace

TEST_CASE("sums and extremes of two parts are elementwise nodes of these") {
  Module sum = reduction_of("[2, 2, 3, 5]", "reduce_sum", R"("axes": [1])");
  CHECK(apply_keeping_values(add_parts, sum) == 1);
  CHECK(node_lines(sum).back() == "add(y.reshape, y.reshape.1)");
  Module kept = reduction_of("[3, 16]", "reduce_max", R"("axes": [-2], "keep_dims": true)");
  CHECK(apply_keeping_values(add_parts, kept) == 1);
  Module mean = reduction_of("[4, 3, 9]", "reduce_mean", R"("axes": [0])");
  CHECK(apply_keeping_values(add_parts, mean) == 1);
  Module halves = reduction_of("[4, 3, 9]", "reduce_min", R"("axes": [0])", "f16");
  CHECK(apply_keeping_values(add_parts, halves) == 1);
}

TEST_CASE("elementwise nodes that a reduction alone reads are of parts too") {
  Module module = module_of(
      R"("inputs": [)" + input_text("x", "[2, 2, 4, 5]") + ", " + input_text("w", "[2, 1, 1]") +
      ", " + input_text("b", "[5]") + R"(], "nodes": [)" + op_text("mul", R"("x", "w")", "scaled") +
      ", " + op_text("add", R"("scaled", "b")", "moved") + ", " +
      op_text("reduce_sum", R"("moved")", "y", R"("axes": [1])") + R"(], "outputs": ["y"])");
  CHECK(apply_keeping_values(add_parts, module) == 1);
  for (const std::string& line : node_lines(module)) CHECK(line.find("moved") == line.npos);
}

TEST_CASE("a chain that would be too much for one kernel stays before its reduction") {
  std::string inputs = input_text("x0", "[4, 9]");
  std::string nodes;
  for (int i = 1; i <= 2; ++i) {
    const std::string name = std::to_string(i);
    inputs += ", " + input_text("x" + name, "[4, 9]");
    nodes += op_text("add", "\"" + std::string(i == 1 ? "x0" : "s1") + "\", \"x" + name + "\"",
                     "s" + name) +
             ", ";
  }
  Module module =
      module_of("\"inputs\": [" + inputs + "], \"nodes\": [" + nodes +
                op_text("reduce_sum", R"("s2")", "y", R"("axes": [0])") + R"(], "outputs": ["y"])");
  CHECK(apply(add_parts, module) == 0);
}

TEST_CASE("reductions stay that add neighbours, many elements, or along several axes") {
  const auto stays = [](const std::string& x, const std::string& op, const std::string& attributes,
                        const std::string& dtype = "f32") {
    Module module = reduction_of(x, op, attributes, dtype);
    CHECK(apply(add_parts, module) == 0);
  };
  stays("[9, 2]", "reduce_sum", R"("axes": [1])");
  stays("[5, 9]", "reduce_sum", R"("axes": [0])");
  stays("[2, 2, 9]", "reduce_sum", R"("axes": [0, 1])");
  stays("[2, 9]", "reduce_sum", "");
  stays("[2, 9]", "reduce_prod", R"("axes": [0])");
  stays("[2, 9]", "reduce_sum", R"("axes": [0])", "i32");
}

}  // namespace rlx::test
