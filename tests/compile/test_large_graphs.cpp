// SPDX-License-Identifier: Apache-2.0
// Graphs of many nodes and few kernels: compiled within a time that grows with them, into plans
// that the verifier takes.
#include <functional>

#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// The nodes of a graph over input "x", weights "w" of 64 x 64 and "c" of 64.
class LargeGraph {
 public:
  // Gives the node's output.
  std::string add(const std::string& op, const std::vector<std::string>& inputs,
                  const std::string& attributes = "{}") {
    std::string quoted;
    for (const std::string& input : inputs)
      quoted += (quoted.empty() ? "\"" : ", \"") + input + '"';
    std::string output = "v" + std::to_string(count_++);
    nodes_ += (nodes_.empty() ? "" : ",\n") + node(op, quoted, output, attributes);
    return output;
  }

  [[nodiscard]] size_t count() const { return count_; }
  [[nodiscard]] std::string text(const std::string& result,
                                 const std::string& x_shape = "8, 64") const {
    return R"({"rlx_graph": 1, "params": [)" + param("w", "64, 64") + ", " + param("c", "64") +
           R"(], "inputs": [{"name": "x", "dtype": "f32", "shape": [)" + x_shape +
           R"(]}], "nodes": [)" + nodes_ + R"(], "outputs": [")" + result + "\"]}";
  }

 private:
  static std::string param(const std::string& name, const std::string& shape) {
    return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": [)" + shape +
           R"(], "data": {"random": {"distribution": "uniform", "low": -0.1, "high": 0.1, "seed": 1}}})";
  }

  std::string nodes_;
  size_t count_ = 0;
};

// Layers of a product, an activation, the way around them, and a norm.
std::string residual_net(size_t nodes) {
  LargeGraph graph;
  std::string x = "x";
  while (graph.count() < nodes) {
    const std::string grown = graph.add("gelu", {graph.add("matmul", {x, "w"})});
    x = graph.add("layer_norm", {graph.add("add", {grown, x}), "c", "c"});
  }
  return graph.text(x);
}

// What the first half makes is read by the second, the last first.
std::string long_skips(size_t nodes) {
  LargeGraph graph;
  std::vector<std::string> made = {"x"};
  while (graph.count() < nodes / 3) made.push_back(graph.add("softmax", {made.back()}));
  std::string x = made.back();
  for (; !made.empty(); made.pop_back())
    x = graph.add("add", {graph.add("softmax", {x}), made.back()});
  return graph.text(x);
}

// A softmax of every eight rows of x, added in pairs.
std::string fan_and_tree(size_t nodes) {
  LargeGraph graph;
  const size_t count = nodes / 3;
  std::vector<std::string> level;
  for (size_t i = 0; i < count; ++i) {
    const std::string rows =
        graph.add("slice", {"x"},
                  R"({"starts": [)" + std::to_string(8 * i) + R"(], "ends": [)" +
                      std::to_string(8 * i + 8) + R"(], "axes": [0]})");
    level.push_back(graph.add("softmax", {rows}));
  }
  while (level.size() > 1) {
    std::vector<std::string> sums;
    for (size_t i = 0; i + 1 < level.size(); i += 2)
      sums.push_back(graph.add("add", {level[i], level[i + 1]}));
    if (level.size() % 2 == 1) sums.push_back(level.back());
    level = sums;
  }
  return graph.text(level[0], std::to_string(8 * count) + ", 64");
}

// A recurrence over the middle axis of x, written out.
std::string unrolled(size_t nodes) {
  LargeGraph graph;
  const size_t steps = nodes / 6;
  const std::string y = graph.add("softmax", {"x"});
  std::string h;
  for (size_t t = 0; t < steps; ++t) {
    const std::string line = graph.add("slice", {y},
                                       R"({"starts": [)" + std::to_string(t) + R"(], "ends": [)" +
                                           std::to_string(t + 1) + R"(], "axes": [1]})");
    const std::string x =
        graph.add("matmul", {graph.add("reshape", {line}, R"({"shape": [8, 64]})"), "w"});
    h = h.empty() ? x : graph.add("tanh", {graph.add("add", {x, graph.add("matmul", {h, "w"})})});
  }
  return graph.text(h, "8, " + std::to_string(steps) + ", 64");
}

struct GraphKind {
  const char* name;
  std::function<std::string(size_t nodes)> text;
};
const std::vector<GraphKind>& kinds() {
  static const std::vector<GraphKind> all = {{"residual net", residual_net},
                                             {"long skips", long_skips},
                                             {"fan and tree", fan_and_tree},
                                             {"unrolled recurrence", unrolled}};
  return all;
}

}  // namespace

TEST_CASE("graphs_of_some_thousand_nodes_compile_to_plans_that_verify") {
  for (const GraphKind& kind : kinds()) {
    INFO(kind.name);
    CHECK_FALSE(compiled(module_from(kind.text(4000)), test_options(2)).empty());
  }
}

// Under a time limit of ctest's.
TEST_CASE("graphs_of_50000_nodes_compile", "[.large]") {
  for (const GraphKind& kind : kinds()) {
    INFO(kind.name);
    CHECK_FALSE(compiled(module_from(kind.text(50000)), test_options(2)).empty());
  }
}

}  // namespace rlx::test
