// SPDX-License-Identifier: Apache-2.0
// recompute: cheap values that wait over the arena's peak are computed again behind it.
#include "compiler/passes/recompute.h"
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

// Two layers and their way back; `late` is what the last product reads of the first activation, and
// the scale behind it reads `scale`.
Module layers(const std::string& activation, const std::string& before_last,
              const std::string& late, const std::string& scale) {
  const std::string square = "[256, 256]";
  return module_of(
      R"("inputs": [)" + input_text("x", square) + "], \"params\": [" +
      R"({"name": "w", "dtype": "f32", "shape": [256, 256], "data": {"splat": 0.01}}], )" +
      R"("nodes": [)" + op_text("matmul", R"("x", "w")", "h1") + "," +
      op_text(activation, R"("h1")", "y1") + "," + op_text("matmul", R"("y1", "w")", "h2") + "," +
      op_text("exp", R"("h2")", "y2") + "," + op_text("matmul", R"("y2", "w")", "h3") + "," +
      op_text("matmul", R"("h3", "y2")", "g2") + "," + op_text("mul", R"("g2", "h2")", "s2") + "," +
      before_last + op_text("matmul", R"("s2", ")" + late + "\"", "g1") + "," +
      op_text("mul", R"("g1", ")" + scale + "\"", "s1") + R"(], "outputs": ["s1"])");
}

size_t count_of(const Module& module, const std::string& op) {
  const Graph& graph = module.entries.at(0);
  return static_cast<size_t>(
      std::ranges::count_if(graph.order(), [&](NodeId id) { return graph.node(id).op == op; }));
}

// The node that stands right before the one that makes `name`.
const Node& node_before(const Graph& graph, const std::string& name) {
  const Node* before = nullptr;
  for (const NodeId id : graph.order()) {
    if (graph.value(graph.node(id).outputs[0]).name == name) break;
    before = &graph.node(id);
  }
  REQUIRE(before != nullptr);
  return *before;
}

}  // namespace

TEST_CASE("an activation that waits over the peak is computed again where it is read",
          "[recompute]") {
  Module module = layers("relu", "", "y1", "h1");
  CHECK(recompute(module) == 1);
  CHECK(find_fault(module) == std::nullopt);
  CHECK(count_of(module, "relu") == 2);
  const Graph& graph = module.entries.at(0);
  const Node& again = node_before(graph, "g1");
  CHECK(again.op == "relu");
  CHECK(graph.value(*again.inputs[0]).name == "h1");
  CHECK(recompute(module) == 0);
}

TEST_CASE("views of what is computed again are made again behind it", "[recompute]") {
  Module module = layers(
      "relu", op_text("transpose", R"("y1")", "turned", R"("perm": [1, 0])") + ",", "turned", "h1");
  CHECK(recompute(module) == 1);
  CHECK(find_fault(module) == std::nullopt);
  CHECK(count_of(module, "transpose") == 1);
  CHECK(node_before(module.entries.at(0), "g1").op == "transpose");
}

TEST_CASE("what would keep its operand as long, or is not cheap, waits", "[recompute]") {
  Module operand = layers("relu", "", "y1", "x");  // h1 dies in the activation
  CHECK(recompute(operand) == 0);
  Module product = layers("softmax", "", "y1", "h1");
  CHECK(recompute(product) == 0);
  Module drawn = layers("dropout", "", "y1", "h1");
  CHECK(recompute(drawn) == 0);
}

}  // namespace rlx::test
