// SPDX-License-Identifier: Apache-2.0
// Group norms as instance norms of reshaped channels become one node; what only looks like them
// stays.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

// x [2, 6, 2, 3]
Module with_image(const std::string& nodes, const std::string& outputs = R"(["y"])") {
  return module_of(R"("inputs": [)" + input_text("x", "[2, 6, 2, 3]") + R"(], "params": [)" +
                   constant_text("ones", "[3]", "[1, 1, 1]") + ", " +
                   constant_text("zeros", "[3]", "[0, 0, 0]") + ", " +
                   constant_text("g", "[6, 1, 1]", "[1, -2, 0.5, 3, 2, 1]") + ", " +
                   constant_text("b", "[1, 6, 1, 1]", "[0.5, 1, -1, 2, 0, 1]") + ", " +
                   constant_text("rows", "[2, 1]", "[1, 2]") + R"(], "nodes": [)" + nodes +
                   R"(], "outputs": )" + outputs);
}

std::string groups_text(const std::string& weights = R"(, "ones", "zeros")",
                        const std::string& back = "[2, 6, 2, 3]") {
  return op_text("reshape", R"("x")", "apart", R"("shape": [2, 3, 12])") + ", " +
         op_text("instance_norm", R"("apart")" + weights, "normed", R"("eps": 0.125)") + ", " +
         op_text("reshape", R"("normed")", "n", R"("shape": )" + back) + ", ";
}

const std::string kScaledGroups = op_text("mul", R"("n", "g")", "scaled") + ", ";

}  // namespace

TEST_CASE("a group norm is seen in an instance norm of groups, with the weights behind it") {
  for (const std::string& weights : {std::string(R"(, "ones", "zeros")"), std::string()}) {
    Module module =
        with_image(groups_text(weights) + kScaledGroups + op_text("add", R"("b", "scaled")", "y"));
    CHECK(apply_keeping_values(see_groups, module) == 1);
    const Node& norm = only_node(module, "group_norm");
    CHECK(attribute_of<int64_t>(norm, "num_groups") == 3);
    CHECK(attribute_of<double>(norm, "eps") == 0.125);
    CHECK(norm.inputs.size() == 3);
  }
  Module bare = with_image(groups_text() + op_text("exp", R"("n")", "y"));
  CHECK(apply_keeping_values(see_groups, bare) == 1);
  CHECK(node_lines(bare) == Lines{"group_norm(x)", "exp(n.group_norm)"});
}

TEST_CASE("weights that are none of the channels stay behind a group norm") {
  Module module = with_image(groups_text() + op_text("mul", R"("n", "rows")", "y"));
  CHECK(apply_keeping_values(see_groups, module) == 1);
  CHECK(node_lines(module) == Lines{"group_norm(x)", "mul(n.group_norm, rows)"});
}

TEST_CASE("what only looks like a group norm stays as it is") {
  const std::string end = op_text("exp", R"("n")", "y");
  check_stays(see_groups, with_image(groups_text(R"(, "zeros", "zeros")") + end));
  check_stays(see_groups, with_image(groups_text(R"(, "ones", "ones")") + end));
  check_stays(see_groups, with_image(groups_text(R"(, "ones", "zeros")", "[2, 3, 4, 3]") + end));
  check_stays(see_groups, with_image(groups_text() + end, R"(["y", "normed"])"));
  check_stays(see_groups, with_image(groups_text() + end, R"(["y", "apart"])"));
}

}  // namespace rlx::test
