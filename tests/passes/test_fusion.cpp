// SPDX-License-Identifier: Apache-2.0
// fuse_epilogues, merge_matmuls and fuse_elementwise.
#include <cmath>

#include "compiler/ops/lowering/scalar_cost.h"
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

const std::string kProductInputs =
    R"("inputs": [{"name": "x", "dtype": "f32", "shape": [2, 3]}, {"name": "w", "dtype": "f32", "shape": [3, 4]},
  {"name": "b", "dtype": "f32", "shape": [4]}, {"name": "r", "dtype": "f32", "shape": [2, 4]},
  {"name": "one", "dtype": "f32", "shape": [1]}, {"name": "col", "dtype": "f32", "shape": [2, 1]}],
  "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["p"]}, )";

Module product(const std::string& rest) {
  return module_of(kProductInputs + rest);
}

size_t text_count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// A chain of ops, one behind the other.
Module chain_of_ops(const std::vector<std::string>& ops) {
  std::string nodes;
  for (size_t i = 0; i < ops.size(); ++i) {
    nodes += std::string(i == 0 ? "" : ", ") + R"({"op": ")" + ops[i] + R"(", "inputs": ["v)" +
             std::to_string(i) + R"("], "outputs": ["v)" + std::to_string(i + 1) + R"("]})";
  }
  return module_of(R"("inputs": [{"name": "v0", "dtype": "f32", "shape": [4]}], "nodes": [)" +
                   nodes + R"(], "outputs": ["v)" + std::to_string(ops.size()) + R"("])");
}

// Steps of the regions that elementwise fusion leaves of a chain.
std::vector<size_t> region_steps(const std::vector<std::string>& ops) {
  Module module = chain_of_ops(ops);
  apply(fuse_elementwise, module);
  std::vector<size_t> steps;
  const Graph& graph = module.entries.at(0);
  for (NodeId id : graph.order())
    steps.push_back(std::max<size_t>(1, graph.node(id).region.size()));
  return steps;
}

}  // namespace

TEST_CASE("bias, activation and residual join the matmul, in this order") {
  Module module = product(R"({"op": "add", "inputs": ["b", "p"], "outputs": ["s"]},
    {"op": "leaky_relu", "inputs": ["s"], "outputs": ["a"], "attributes": {"alpha": 0.25}},
    {"op": "add", "inputs": ["r", "a"], "outputs": ["y"]}], "outputs": ["y"])");
  CHECK(apply_keeping_values(fuse_epilogues, module) == 1);
  CHECK(node_lines(module) == Lines{"fused_matmul_bias_act(x, w, b, r)"});
  const Node& fused = only_node(module, "fused_matmul_bias_act");
  CHECK(fused.attributes.at("activation") == AttributeValue(std::string("leaky_relu")));
  CHECK(fused.attributes.at("alpha") == AttributeValue(0.25));
}

TEST_CASE("an activation after the residual, or a bias after the activation, stays outside") {
  Module late_activation = product(R"({"op": "add", "inputs": ["p", "r"], "outputs": ["s"]},
    {"op": "relu", "inputs": ["s"], "outputs": ["y"]}], "outputs": ["y"])");
  apply_keeping_values(fuse_epilogues, late_activation);
  CHECK(node_lines(late_activation) == Lines{"fused_matmul_bias_act(x, w, null, r)", "relu(s)"});
  Module late_bias = product(R"({"op": "relu", "inputs": ["p"], "outputs": ["s"]},
    {"op": "add", "inputs": ["s", "b"], "outputs": ["y"]}], "outputs": ["y"])");
  apply_keeping_values(fuse_epilogues, late_bias);
  CHECK(node_lines(late_bias) == Lines{"fused_matmul_bias_act(x, w, null, null)", "add(s, b)"});
}

TEST_CASE("T42: only a vector as long as the rows is a bias") {
  for (const std::string other : {"one", "col"}) {
    Module module = product(R"({"op": "add", "inputs": ["p", ")" + other +
                            R"("], "outputs": ["y"]}], "outputs": ["y"])");
    CHECK(apply_keeping_values(fuse_epilogues, module) == 0);
    CHECK(node_lines(module) == Lines{"matmul(x, w)", "add(p, " + other + ")"});
  }
}

TEST_CASE("T42: a matmul that is an output or has two readers is not swallowed") {
  Module output =
      product(R"({"op": "add", "inputs": ["p", "b"], "outputs": ["y"]}], "outputs": ["p", "y"])");
  CHECK(apply_keeping_values(fuse_epilogues, output) == 0);
  Module read_twice = product(R"({"op": "add", "inputs": ["p", "b"], "outputs": ["y"]},
    {"op": "exp", "inputs": ["p"], "outputs": ["z"]}], "outputs": ["y", "z"])");
  CHECK(apply_keeping_values(fuse_epilogues, read_twice) == 0);
  Module doubled =
      product(R"({"op": "add", "inputs": ["p", "p"], "outputs": ["y"]}], "outputs": ["y"])");
  CHECK(apply_keeping_values(fuse_epilogues, doubled) == 0);
}

TEST_CASE("the chain stops at a value that is an output") {
  Module module = product(R"({"op": "add", "inputs": ["p", "b"], "outputs": ["s"]},
    {"op": "relu", "inputs": ["s"], "outputs": ["y"]}], "outputs": ["s", "y"])");
  CHECK(apply_keeping_values(fuse_epilogues, module) == 1);
  CHECK(node_lines(module) == Lines{"fused_matmul_bias_act(x, w, b, null)", "relu(s)"});
}

TEST_CASE("ops whose result is no float of the product's type are no activations") {
  Module module =
      product(R"({"op": "is_nan", "inputs": ["p"], "outputs": ["y"]}], "outputs": ["y"])");
  CHECK(apply_keeping_values(fuse_epilogues, module) == 0);
}

TEST_CASE("transposed weights stay transposed; transposed activations are not fused") {
  const auto with = [](const std::string& flag, const std::string& x, const std::string& w) {
    return module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": )" + x +
                     R"(}, {"name": "w", "dtype": "f32", "shape": )" + w + R"(}],
      "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["p"], "attributes": {")" +
                     flag + R"(": true}},
                {"op": "relu", "inputs": ["p"], "outputs": ["y"]}], "outputs": ["y"])");
  };
  Module weights = with("trans_b", "[2, 3]", "[4, 3]");
  CHECK(apply_keeping_values(fuse_epilogues, weights) == 1);
  CHECK(only_node(weights, "fused_matmul_bias_act").attributes.at("trans_w") ==
        AttributeValue(true));
  Module rows = with("trans_a", "[3, 2]", "[3, 4]");
  CHECK(apply_keeping_values(fuse_epilogues, rows) == 0);
}

TEST_CASE("a product takes an epilogue in the type of its result") {
  const auto with = [](const std::string& types, const std::string& rest) {
    return module_of(
        R"("inputs": [{"name": "x", "dtype": "f16", "shape": [2, 3]}, {"name": "w", "dtype": "f16", "shape": [3, 4]},
      {"name": "b", "dtype": "f32", "shape": [4]}, {"name": "h", "dtype": "f16", "shape": [4]},
      {"name": "r", "dtype": "f32", "shape": [2, 4]}],
      "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["p"], "attributes": {"out_dtype": ")" +
        types + R"("}}, )" + rest);
  };
  Module wider = with("f32", R"({"op": "add", "inputs": ["p", "b"], "outputs": ["s"]},
    {"op": "relu", "inputs": ["s"], "outputs": ["a"]},
    {"op": "add", "inputs": ["a", "r"], "outputs": ["y"]}], "outputs": ["y"])");
  CHECK(apply_keeping_values(fuse_epilogues, wider) == 1);
  CHECK(node_lines(wider) == Lines{"fused_matmul_bias_act(x, w, b, r)"});
  CHECK(only_node(wider, "fused_matmul_bias_act").attributes.at("out_dtype") ==
        AttributeValue(std::string("f32")));
  Module same = with("f16", R"({"op": "add", "inputs": ["h", "p"], "outputs": ["y"]}],
    "outputs": ["y"])");
  CHECK(apply_keeping_values(fuse_epilogues, same) == 1);
  CHECK(!only_node(same, "fused_matmul_bias_act").attributes.contains("out_dtype"));
  // What is added behind a cast is of another type than the product.
  Module cast =
      with("f16", R"({"op": "cast", "inputs": ["p"], "outputs": ["c"], "attributes": {"to": "f32"}},
    {"op": "add", "inputs": ["c", "b"], "outputs": ["y"]}], "outputs": ["y"])");
  CHECK(apply_keeping_values(fuse_epilogues, cast) == 0);
  // Nor does a product that an output holds join what is added to it.
  Module output = with("f32", R"({"op": "add", "inputs": ["p", "b"], "outputs": ["y"]}],
    "outputs": ["p", "y"])");
  CHECK(apply_keeping_values(fuse_epilogues, output) == 0);
}

TEST_CASE("a norm rounds its result to the halves that a cast makes of it") {
  const auto with = [](const std::string& op, const std::string& x, const std::string& rest) {
    return module_of(
        R"("inputs": [{"name": "x", "dtype": ")" + x +
        R"(", "shape": [3, 8]}, {"name": "g", "dtype": "f32", "shape": [8]}],
      "nodes": [{"op": ")" +
        op + R"(", "inputs": ["x", "g"], "outputs": ["n"], "attributes": {"eps": 1e-6}}, )" + rest);
  };
  const std::string cast =
      R"({"op": "cast", "inputs": ["n"], "outputs": ["h"], "attributes": {"to": "f16"}})";
  for (const char* op : {"rms_norm", "layer_norm"}) {
    Module module = with(op, "f32", cast + R"(], "outputs": ["h"])");
    CHECK(apply_keeping_values(round_norms, module, 1e-3) == 1);
    CHECK(node_lines(module) == Lines{std::string(op) + "(x, g)"});
    CHECK(only_node(module, op).attributes.at("out_dtype") == AttributeValue(std::string("f16")));
    // What reads it reads the same numbers.
    Module read = with(
        op, "f32",
        cast + R"(, {"op": "cast", "inputs": ["h"], "outputs": ["y"], "attributes": {"to": "f32"}}],
        "outputs": ["y"])");
    CHECK(apply_keeping_values(round_norms, read, 1e-12) == 1);
  }
  // The norm itself is read or asked for; a cast of halves rounds what was rounded before; f64.
  for (const std::string& rest :
       {cast + R"(], "outputs": ["n", "h"])",
        cast + R"(, {"op": "exp", "inputs": ["n"], "outputs": ["e"]}], "outputs": ["h", "e"])"}) {
    Module module = with("rms_norm", "f32", rest);
    CHECK(apply_keeping_values(round_norms, module) == 0);
  }
  for (const char* x : {"bf16", "f64"}) {
    Module module = with("rms_norm", x, cast + R"(], "outputs": ["h"])");
    CHECK(apply_keeping_values(round_norms, module) == 0);
  }
}

TEST_CASE("a conv takes an activation, with its parameter") {
  const auto with = [](const std::string& attributes) {
    return module_of(
        R"("inputs": [{"name": "x", "dtype": "f32", "shape": [1, 1, 5]}, {"name": "w", "dtype": "f32", "shape": [1, 1, 3]}],
      "nodes": [{"op": "conv", "inputs": ["x", "w"], "outputs": ["k"]},
                {"op": "leaky_relu", "inputs": ["k"], "outputs": ["y"])" +
        attributes + R"(}], "outputs": ["y"])");
  };
  Module plain = with("");
  CHECK(apply_keeping_values(fuse_conv, plain) == 1);
  CHECK(node_lines(plain) == Lines{"conv(x, w)"});
  Module parameter = with(R"(, "attributes": {"alpha": 0.5})");
  CHECK(apply_keeping_values(fuse_conv, parameter) == 1);
  CHECK(node_lines(parameter) == Lines{"conv(x, w)"});
}

namespace {

Module parallel(const std::string& second_bias, const std::string& outputs = R"(["y"])") {
  return module_of(
      R"("constants": [{"name": "w1", "dtype": "f32", "shape": [3, 2], "data": {"values": [1, 2, 3, 4, 5, 6]}},
                  {"name": "w2", "dtype": "f32", "shape": [3, 2], "data": {"values": [-1, 0.5, 2, 1, 3, -2]}},
                  {"name": "b1", "dtype": "f32", "shape": [2], "data": {"values": [1, -1]}}, )" +
      second_bias + R"(],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [7, 3]}],
    "nodes": [{"op": "fused_matmul_bias_act", "inputs": ["x", "w1", "b1"], "outputs": ["p"]},
              {"op": "fused_matmul_bias_act", "inputs": ["x", "w2", "b2"], "outputs": ["q"]},
              {"op": "mul", "inputs": ["p", "q"], "outputs": ["y"]}],
    "outputs": )" +
      outputs);
}

const std::string kSecondBias =
    R"({"name": "b2", "dtype": "f32", "shape": [2], "data": {"values": [4, 5]}})";

}  // namespace

TEST_CASE("matmuls of one input become one, with slices of its result") {
  Module module = parallel(kSecondBias);
  CHECK(apply_keeping_values(merge_matmuls, module) == 2);
  apply(fold_constants, module);
  const Lines lines = node_lines(module);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].starts_with("fused_matmul_bias_act(x, "));
  CHECK(only_node(module, "mul").inputs.size() == 2);
}

TEST_CASE("matmuls of what is itself a part of a joined matmul become one") {
  const auto weight = [](const std::string& name, const std::string& shape) {
    return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": )" + shape +
           R"(, "data": {"random": {"distribution": "normal", "mean": 0, "std": 1, "seed": 7}}})";
  };
  const auto product = [](const std::string& x, const std::string& w, const std::string& y) {
    return R"({"op": "fused_matmul_bias_act", "inputs": [")" + x + R"(", ")" + w +
           R"("], "outputs": [")" + y + R"("]})";
  };
  Module module =
      module_of(R"("params": [)" + weight("a", "[3, 4]") + "," + weight("b", "[3, 4]") + "," +
                weight("c", "[4, 4]") + "," + weight("d", "[4, 4]") +
                R"(], "inputs": [{"name": "x", "dtype": "f32", "shape": [7, 3]}], "nodes": [)" +
                product("x", "a", "p") + "," + product("x", "b", "q") + "," +
                product("p", "c", "s") + "," + product("p", "d", "t") + R"(,
      {"op": "mul", "inputs": ["s", "t"], "outputs": ["st"]}, {"op": "mul", "inputs": ["st", "q"], "outputs": ["y"]}],
      "outputs": ["y"])");
  CHECK(apply_keeping_values(merge_matmuls, module) == 4);
}

TEST_CASE(
    "matmuls whose biases differ in dtype, broadcast, or whose result is an output stay apart") {
  Module dtypes =
      parallel(R"({"name": "b2", "dtype": "f16", "shape": [2], "data": {"values": [4, 5]}})");
  CHECK(apply_keeping_values(merge_matmuls, dtypes) == 0);
  Module broadcast =
      parallel(R"({"name": "b2", "dtype": "f32", "shape": [1], "data": {"values": [4]}})");
  CHECK(apply_keeping_values(merge_matmuls, broadcast) == 0);
  Module output = parallel(kSecondBias, R"(["y", "q"])");
  CHECK(apply_keeping_values(merge_matmuls, output) == 0);
}

TEST_CASE("as many matmuls of one input become one as a kernel takes, and the rest another") {
  std::string weights;
  std::string nodes;
  std::string last = "x";
  for (int i = 0; i < 131; ++i) {
    const std::string w = "w" + std::to_string(i);
    weights +=
        (i == 0 ? "" : ",") + (R"({"name": ")" + w) +
        R"(", "dtype": "f32", "shape": [3, 3], "data": {"random": {"distribution": "normal", "mean": 0, "std": 1, "seed": )" +
        std::to_string(i) + "}}}";
    const std::string y = "y" + std::to_string(i);
    nodes += (i == 0 ? "" : ",") + (R"({"op": "fused_matmul_bias_act", "inputs": ["x", ")" + w) +
             R"("], "outputs": [")" + y + R"("]}, {"op": "add", "inputs": [")" + last + R"(", ")" +
             y + R"("], "outputs": ["s)" + std::to_string(i) + R"("]})";
    last = "s" + std::to_string(i);
  }
  Module module = module_of(R"("params": [)" + weights +
                            R"(], "inputs": [{"name": "x", "dtype": "f32", "shape": [7, 3]}],
    "nodes": [)" + nodes + R"(], "outputs": [")" +
                            last + R"("])");
  CHECK(apply_keeping_values(merge_matmuls, module) == 131);
  const Lines lines = node_lines(module);
  CHECK(std::ranges::count_if(lines, [](const std::string& line) {
          return line.starts_with("fused_matmul_bias_act(");
        }) == 3);
}

TEST_CASE("T22: a chain with three broadcast patterns becomes one region, steps in order") {
  Module module = module_of(
      R"("inputs": [{"name": "a", "dtype": "f32", "shape": [4, 1, 6]}, {"name": "b", "dtype": "f32", "shape": [5, 1]},
      {"name": "c", "dtype": "f32", "shape": [4, 5, 6]}],
    "nodes": [{"op": "add", "inputs": ["a", "b"], "outputs": ["s"]}, {"op": "sigmoid", "inputs": ["s"], "outputs": ["t"]},
              {"op": "lt", "inputs": ["t", "c"], "outputs": ["m"]}, {"op": "where", "inputs": ["m", "t", "c"], "outputs": ["y"]}],
    "outputs": ["y"])");
  CHECK(apply_keeping_values(fuse_elementwise, module) == 3);
  const Node& region = only_node(module, "ew_region");
  REQUIRE(region.region.size() == 4);
  const std::vector<std::string> ops = {"add", "sigmoid", "lt", "where"};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(region.region[i].op == ops[i]);
    for (uint32_t operand : region.region[i].operands) CHECK(operand < region.inputs.size() + i);
  }
  CHECK(region.region[2].dtype == DType::bool_);
  CHECK(region.inputs.size() == 3);
}

TEST_CASE("a producer of a smaller shape keeps its own kernel") {
  Module module = module_of(
      R"("inputs": [{"name": "a", "dtype": "f32", "shape": [6]}, {"name": "c", "dtype": "f32", "shape": [4, 6]}],
    "nodes": [{"op": "exp", "inputs": ["a"], "outputs": ["e"]}, {"op": "mul", "inputs": ["c", "e"], "outputs": ["y"]}],
    "outputs": ["y"])");
  CHECK(apply_keeping_values(fuse_elementwise, module) == 0);
}

TEST_CASE("T35: producers that are outputs or have readers outside the region stay") {
  Module module = module_of(R"("states": [{"name": "st", "dtype": "f32", "shape": [3, 7]}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [3, 7]}],
    "nodes": [{"op": "exp", "inputs": ["x"], "outputs": ["a"]}, {"op": "tanh", "inputs": ["a"], "outputs": ["b"]},
              {"op": "neg", "inputs": ["b"], "outputs": ["c"]}, {"op": "state_write", "inputs": ["st", "c"], "outputs": ["n"]},
              {"op": "abs", "inputs": ["c"], "outputs": ["y"]}],
    "outputs": ["a", "y"])");
  CHECK(apply_keeping_values(fuse_elementwise, module) == 1);
  CHECK(node_lines(module) == Lines{"exp(x)", "ew_region(a)", "state_write(st, c)", "abs(c)"});
}

TEST_CASE("a diamond becomes one region that computes its top once") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [5]}],
    "nodes": [{"op": "exp", "inputs": ["x"], "outputs": ["t"]}, {"op": "neg", "inputs": ["t"], "outputs": ["l"]},
              {"op": "sqrt", "inputs": ["t"], "outputs": ["r"]}, {"op": "mul", "inputs": ["l", "r"], "outputs": ["y"]}],
    "outputs": ["y"])");
  CHECK(apply_keeping_values(fuse_elementwise, module) == 3);
  CHECK(only_node(module, "ew_region").region.size() == 4);
}

TEST_CASE("T34: equal chains of different ops stay different") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [5]}],
    "nodes": [{"op": "exp", "inputs": ["x"], "outputs": ["a"]}, {"op": "neg", "inputs": ["a"], "outputs": ["y"]},
              {"op": "tanh", "inputs": ["x"], "outputs": ["b"]}, {"op": "neg", "inputs": ["b"], "outputs": ["z"]}],
    "outputs": ["y", "z"])");
  CHECK(apply_keeping_values(fuse_elementwise, module) == 2);
  CHECK(apply_keeping_values(merge_common, module) == 0);
}

TEST_CASE("a region has at most 15 inputs") {
  std::string inputs = R"({"name": "x0", "dtype": "f32", "shape": [4]})";
  std::string nodes;
  for (int i = 1; i <= 20; ++i) {
    const std::string n = std::to_string(i);
    inputs += R"(, {"name": "x)" + n + R"(", "dtype": "f32", "shape": [4]})";
    const std::string left = i == 1 ? "x0" : "s" + std::to_string(i - 1);
    nodes += (i > 1 ? ", " : "") + (R"({"op": "add", "inputs": [")" + left + R"(", "x)" + n +
                                    R"("], "outputs": ["s)" + n + R"("]})");
  }
  Module module =
      module_of("\"inputs\": [" + inputs + "], \"nodes\": [" + nodes + "], \"outputs\": [\"s20\"]");
  apply_keeping_values(fuse_elementwise, module);
  const Graph& graph = module.entries[0];
  CHECK(graph.order().size() == 2);
  for (NodeId id : graph.order()) CHECK(graph.node(id).inputs.size() <= 15);
}

TEST_CASE("a chain longer than a region can be becomes several") {
  std::string nodes;
  for (int i = 0; i < 100; ++i) {
    const std::string from = i == 0 ? "x" : "t" + std::to_string(i - 1);
    nodes += (i > 0 ? ", " : "") + (R"({"op": "neg", "inputs": [")" + from +
                                    R"("], "outputs": ["t)" + std::to_string(i) + "\"]}");
  }
  Module module =
      module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [4]}], "nodes": [)" + nodes +
                R"(], "outputs": ["t99"])");
  apply_keeping_values(fuse_elementwise, module);
  CHECK(text_count(print(module), "= ew_region(") == 3);
}

TEST_CASE("a chain that only a reduction reads is computed inside the reduction") {
  Module module = module_of(R"("inputs": [{"name": "a", "dtype": "f32", "shape": [4, 1, 6]},
      {"name": "b", "dtype": "f32", "shape": [5, 1]}],
    "nodes": [{"op": "add", "inputs": ["a", "b"], "outputs": ["s"]},
              {"op": "exp", "inputs": ["s"], "outputs": ["t"]},
              {"op": "reduce_sum", "inputs": ["t"], "outputs": ["y"], "attributes": {"axes": [0, 2]}},
              {"op": "cast", "inputs": ["a"], "outputs": ["i"], "attributes": {"to": "i32"}},
              {"op": "reduce_max", "inputs": ["i"], "outputs": ["z"]}],
    "outputs": ["y", "z"])");
  apply_keeping_values(fuse_elementwise, module);
  CHECK(apply_keeping_values(fuse_reductions, module) == 2);
  CHECK(node_lines(module) == Lines{"reduce_sum(a, b)", "reduce_max(a)"});
  CHECK(only_node(module, "reduce_sum").region.size() == 2);
  CHECK(only_node(module, "reduce_sum").attributes.at("axes") == AttributeValue(Ints{0, 2}));
}

TEST_CASE("chains with another reader, that are outputs, in f64 or over no axes stay outside") {
  const auto stays = [](const std::string& dtype, const std::string& attributes,
                        const std::string& outputs) {
    Module module = module_of(R"("inputs": [{"name": "x", "dtype": ")" + dtype +
                              R"(", "shape": [4, 6]}],
      "nodes": [{"op": "neg", "inputs": ["x"], "outputs": ["t"]},
                {"op": "abs", "inputs": ["t"], "outputs": ["u"]},
                {"op": "reduce_sum", "inputs": ["t"], "outputs": ["y"]},
                {"op": "reduce_sum", "inputs": ["u"], "outputs": ["z"])" +
                              attributes + "}], \"outputs\": " + outputs);
    CHECK(apply_keeping_values(fuse_reductions, module) == 0);
  };
  stays("f64", "", R"(["y", "z"])");
  stays("f32", "", R"(["y", "z", "u"])");
  stays("f32", R"(, "attributes": {"axes": []})", R"(["y", "z"])");
}

TEST_CASE("a region ends where its code would grow too long, or its steps too many") {
  std::vector<size_t> sines(13, 8);  // 8 are 4096 instructions
  sines.front() = 4;
  CHECK(region_steps(std::vector<std::string>(100, "sin")) == sines);
  CHECK(region_steps(std::vector<std::string>(100, "abs")) == std::vector<size_t>{4, 48, 48});
  for (const std::string op : {"sin", "tan", "log1p", "asinh", "softplus", "gelu", "exp", "abs"}) {
    for (const size_t steps : region_steps(std::vector<std::string>(200, op))) {
      const std::vector<DType> f32 = {DType::f32};
      CHECK(steps * scalar_cost(op, f32, DType::f32) <= kMostRegionCost);
    }
  }
}

TEST_CASE("a model's region of too much code becomes regions that are not") {
  std::string chain;
  for (int i = 0; i < 100; ++i)
    chain += std::string(i == 0 ? "" : ", ") + "\"sin(" + std::to_string(i) + ")\"";
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [4]}],
    "nodes": [{"op": "ew_region", "inputs": ["x"], "outputs": ["y"],
               "attributes": {"chain": [)" +
                            chain + R"(]}}], "outputs": ["y"])");
  const std::vector<Tensor> wanted = outputs_of(module);
  CHECK(apply(decompose, module) == 1);
  CHECK(module.entries[0].order().size() == 100);
  apply(fuse_elementwise, module);
  CHECK(module.entries[0].order().size() == 13);
  const std::vector<Tensor> got = outputs_of(module);
  for (size_t i = 0; i < 4; ++i) CHECK(std::abs(got[0].floats[i] - wanted[0].floats[i]) < 1e-6);
}

TEST_CASE("what is widened is widened again by each reader that can do it itself") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f16", "shape": [8, 6]},
    {"name": "g", "dtype": "f32", "shape": [6]}],
    "nodes": [{"op": "cast", "inputs": ["x"], "outputs": ["c"], "attributes": {"to": "f32"}},
    {"op": "mul", "inputs": ["c", "g"], "outputs": ["y"]},
    {"op": "reduce_sum", "inputs": ["c"], "outputs": ["s"], "attributes": {"axes": [0]}}],
    "outputs": ["y", "s"])");
  CHECK(apply_keeping_values(repeat_elementwise, module) == 2);
  CHECK(node_lines(module) ==
        Lines{"cast(x)", "mul(c.again, g)", "cast(x)", "reduce_sum(c.again.1)"});
}

TEST_CASE("what is wanted elsewhere too stays, and readers that join it read less") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f16", "shape": [8, 6]},
    {"name": "w", "dtype": "f32", "shape": [6, 4]}],
    "nodes": [{"op": "cast", "inputs": ["x"], "outputs": ["c"], "attributes": {"to": "f32"}},
    {"op": "matmul", "inputs": ["c", "w"], "outputs": ["p"]},
    {"op": "neg", "inputs": ["c"], "outputs": ["y"]}], "outputs": ["p", "y"])");
  CHECK(apply_keeping_values(repeat_elementwise, module) == 1);
  CHECK(node_lines(module) == Lines{"cast(x)", "matmul(c, w)", "cast(x)", "neg(c.again)"});
}

TEST_CASE(
    "what has larger operands than its result, is costly or has one reader is computed once") {
  const std::string inputs = R"("inputs": [{"name": "x", "dtype": "f32", "shape": [300, 100]},
    {"name": "z", "dtype": "f32", "shape": [300, 100]}], "nodes": [)";
  const std::string readers = R"(, {"op": "neg", "inputs": ["c"], "outputs": ["y"]},
    {"op": "abs", "inputs": ["c"], "outputs": ["u"]}], "outputs": ["y", "u"])";
  for (const char* node : {R"({"op": "add", "inputs": ["x", "z"], "outputs": ["c"]})",
                           R"({"op": "sin", "inputs": ["x"], "outputs": ["c"]})"}) {
    Module module = module_of(inputs + node + readers);
    CHECK(apply_keeping_values(repeat_elementwise, module) == 0);
  }
  Module alone = module_of(inputs + R"({"op": "neg", "inputs": ["x"], "outputs": ["c"]},
    {"op": "add", "inputs": ["c", "c"], "outputs": ["y"]}], "outputs": ["y", "x"])");
  CHECK(apply_keeping_values(repeat_elementwise, alone) == 0);
}

TEST_CASE("five readers are served by one result") {
  std::string nodes = R"({"op": "neg", "inputs": ["x"], "outputs": ["c"]})";
  std::string outputs;
  for (int i = 0; i < 5; ++i) {
    const std::string y = "y" + std::to_string(i);
    nodes += R"(, {"op": "abs", "inputs": ["c"], "outputs": [")" + y + R"("]})";
    outputs += (i == 0 ? "\"" : ", \"") + y + "\"";
  }
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [8, 6]}],
    "nodes": [)" + nodes + R"(], "outputs": [)" +
                            outputs + "]");
  CHECK(apply_keeping_values(repeat_elementwise, module) == 0);
}

TEST_CASE("sums over the same rows that read the same tensors are one node") {
  const std::string inputs = R"("inputs": [{"name": "x", "dtype": "f32", "shape": [8, 6]},
    {"name": "d", "dtype": "f32", "shape": [8, 6]}], "nodes": [
    {"op": "mul", "inputs": ["x", "d"], "outputs": ["p"]},
    {"op": "reduce_sum", "inputs": ["d"], "outputs": ["s"], "attributes": {"axes": [0]}},)";
  Module module = module_of(inputs + R"(
    {"op": "reduce_sum", "inputs": ["p"], "outputs": ["t"], "attributes": {"axes": [0]}}],
    "outputs": ["s", "t"])");
  apply(fuse_reductions, module);
  CHECK(apply_keeping_values(join_reductions, module) == 1);
  CHECK(node_lines(module) == Lines{"reduce_sum(d, x)"});
  CHECK(only_node(module, "reduce_sum").outputs.size() == 2);
  for (
      const char* other :
      {R"({"op": "reduce_sum", "inputs": ["p"], "outputs": ["t"], "attributes": {"axes": [1]}})",
       R"({"op": "reduce_max", "inputs": ["p"], "outputs": ["t"], "attributes": {"axes": [0]}})",
       R"({"op": "reduce_sum", "inputs": ["x"], "outputs": ["t"], "attributes": {"axes": [0]}})"}) {
    Module apart = module_of(inputs + other + R"(], "outputs": ["s", "t"])");
    apply(fuse_reductions, apart);
    CHECK(apply_keeping_values(join_reductions, apart) == 0);
  }
}

TEST_CASE("a sum that another one depends on stays before it") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [8, 6]}],
    "nodes": [
    {"op": "reduce_sum", "inputs": ["x"], "outputs": ["s"], "attributes": {"axes": [0]}},
    {"op": "mul", "inputs": ["x", "s"], "outputs": ["p"]},
    {"op": "reduce_sum", "inputs": ["p"], "outputs": ["t"], "attributes": {"axes": [0]}}],
    "outputs": ["s", "t"])");
  apply(fuse_reductions, module);
  CHECK(apply_keeping_values(join_reductions, module) == 0);
}

TEST_CASE("moments that go to states are results of the step that reads them") {
  Module module = module_of(R"("inputs": [{"name": "g", "dtype": "f32", "shape": [8, 6]}],
    "states": [{"name": "m", "dtype": "f32", "shape": [8, 6]},
               {"name": "p", "dtype": "f32", "shape": [8, 6]}],
    "nodes": [{"op": "add", "inputs": ["m", "g"], "outputs": ["n"]},
    {"op": "sub", "inputs": ["p", "n"], "outputs": ["q"]},
    {"op": "state_write", "inputs": ["p", "q"], "outputs": ["p1"]},
    {"op": "state_write", "inputs": ["m", "n"], "outputs": ["m1"]}], "outputs": ["p1", "m1"])");
  CHECK(apply_keeping_values(join_outputs, module) == 1);
  CHECK(only_node(module, "ew_region").outputs.size() == 2);
}

TEST_CASE("what reads several results of one chain takes it in with all of them") {
  Module module = module_of(R"("inputs": [{"name": "g", "dtype": "f32", "shape": [8, 6]}],
    "states": [{"name": "m", "dtype": "f32", "shape": [8, 6]}, {"name": "v", "dtype": "f32", "shape": [8, 6]},
               {"name": "p", "dtype": "f32", "shape": [8, 6]}],
    "nodes": [{"op": "sub", "inputs": ["m", "g"], "outputs": ["n"]},
    {"op": "mul", "inputs": ["n", "v"], "outputs": ["w"]},
    {"op": "div", "inputs": ["n", "w"], "outputs": ["d"]},
    {"op": "sub", "inputs": ["p", "d"], "outputs": ["q"]},
    {"op": "state_write", "inputs": ["p", "q"], "outputs": ["p1"]},
    {"op": "state_write", "inputs": ["v", "w"], "outputs": ["v1"]},
    {"op": "state_write", "inputs": ["m", "n"], "outputs": ["m1"]}], "outputs": ["p1", "v1", "m1"])");
  CHECK(apply_keeping_values(join_outputs, module) >= 2);
  CHECK(only_node(module, "ew_region").outputs.size() == 3);
}

}  // namespace rlx::test
