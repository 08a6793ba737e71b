// SPDX-License-Identifier: Apache-2.0
// sink_transposes: transpose(f(x)) as f(transpose(x)) between elementwise nodes.
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

// y = r + (0, 3, 1, 2) of f(x): x [2, 4, 5, 3], r [2, 3, 4, 5]; g [3], h [5, 1], s [1].
Module image(const std::string& nodes, const std::string& outputs = R"(["y"])") {
  return module_of(R"("inputs": [
      {"name": "x", "dtype": "f32", "shape": [2, 4, 5, 3]},
      {"name": "r", "dtype": "f32", "shape": [2, 3, 4, 5]},
      {"name": "g", "dtype": "f32", "shape": [3]},
      {"name": "h", "dtype": "f32", "shape": [5, 1]},
      {"name": "m", "dtype": "f32", "shape": [5, 3]},
      {"name": "s", "dtype": "f32", "shape": [1]}], "nodes": [)" +
                   nodes + R"(], "outputs": )" + outputs);
}

std::string node(const char* op, const char* inputs, const char* y) {
  return std::string(R"({"op": ")") + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [")" +
         y + R"("]})";
}
const std::string kTurn =
    R"(, {"op": "transpose", "inputs": ["a"], "outputs": ["t"], "attributes": {"perm": [0, 3, 1, 2]}}, )";
const std::string kAdd = node("add", R"("r", "t")", "y");

}  // namespace

TEST_CASE("a transpose moves in front of elementwise nodes with vectors along any axis") {
  for (const char* vector : {"g", "h", "s"}) {
    INFO(vector);
    const std::string inputs = std::string(R"("x", ")") + vector + '"';
    Module module = image(node("mul", inputs.c_str(), "a") + kTurn + kAdd);
    CHECK(apply_for(sink_transposes, module, "vulkan") == 1);
    // Only a transpose reads x now.
    const Node& turned = only_node(module, "transpose");
    CHECK(module.entries.at(0).value(*turned.inputs[0]).name == "x");
    CHECK(apply_for(sink_transposes, module, "vulkan") == 0);
  }
}

TEST_CASE("a transpose moves through a chain") {
  Module module = image(node("exp", R"("x")", "e") + ", " + node("sub", R"("g", "e")", "b") + ", " +
                        node("mul", R"("b", "s")", "a") + kTurn + kAdd);
  CHECK(apply_for(sink_transposes, module, "vulkan") == 3);
  CHECK(module.entries.at(0).value(*only_node(module, "transpose").inputs[0]).name == "x");
}

TEST_CASE("a transpose stays where a node has two whole inputs, other readers, or none behind") {
  const auto stays = [](const std::string& nodes, const std::string& outputs = R"(["y"])") {
    Module module = image(nodes, outputs);
    CHECK(apply_for(sink_transposes, module, "vulkan") == 0);
  };
  stays(node("mul", R"("x", "x")", "a") + kTurn + kAdd);
  stays(node("mul", R"("x", "m")", "a") + kTurn + kAdd);  // a matrix would be turned too
  stays(node("mul", R"("x", "g")", "a") + kTurn + kAdd, R"(["y", "a"])");
  stays(node("mul", R"("x", "g")", "a") + kTurn + kAdd, R"(["y", "t"])");
  stays(node("mul", R"("x", "g")", "a") + kTurn + node("softmax", R"("t")", "y"));
  stays(node("softmax", R"("x")", "a") + kTurn + kAdd);
  stays(node("trilu", R"("x")", "a") + kTurn + kAdd);  // goes by places
}

}  // namespace rlx::test
