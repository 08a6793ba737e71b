// SPDX-License-Identifier: Apache-2.0
// fuse_conv where a target adds residuals, lay_out_filters, lay_out_copies, and
// phases_of_transposes.
#include "compiler/passes/products.h"
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

// f16 rounds once less where two nodes become one.
constexpr double kHalfTolerance = 4e-3;

std::string filters(const std::string& name, const std::string& dtype, const std::string& shape) {
  return R"({"name": ")" + name + R"(", "dtype": ")" + dtype + R"(", "shape": )" + shape +
         R"(, "data": {"random": {"distribution": "uniform", "low": -0.5, "high": 0.5, "seed": 5}}})";
}

// x [1,16,6,5] and r of the same shape, filters w [16,16,3,3] and point [16,16,1,1].
Module image(const std::string& nodes, const std::string& outputs = R"(["y"])",
             const std::string& dtype = "f16") {
  const std::string type = R"("dtype": ")" + dtype + R"(", "shape": [1, 16, 6, 5]})";
  return module_of(R"("inputs": [{"name": "x", )" + type + R"(, {"name": "r", )" + type +
                   R"(], "params": [)" + filters("w", dtype, "[16, 16, 3, 3]") + ", " +
                   filters("point", dtype, "[16, 16, 1, 1]") + R"(], "nodes": [)" + nodes +
                   R"(], "outputs": )" + outputs);
}

std::string conv(const std::string& x, const std::string& w, const std::string& y) {
  const std::string pads = w == "w" ? "[1, 1, 1, 1]" : "[0, 0, 0, 0]";
  return R"({"op": "conv", "inputs": [")" + x + R"(", ")" + w + R"("], "outputs": [")" + y +
         R"("], "attributes": {"pads": )" + pads + "}}";
}
std::string node(const std::string& op, const std::string& inputs, const std::string& y) {
  return R"(, {"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [")" + y + R"("]})";
}

Shape filter_shape(const Module& module) {
  const Graph& graph = module.entries.at(0);
  return graph
      .value(*graph.node(*graph.value(*only_node(module, "conv").inputs[1]).producer).inputs[0])
      .type.shape;
}

}  // namespace

TEST_CASE("a conv on tensor cores takes a residual and the activation behind it") {
  const std::string sum = GENERATE(R"("k", "r")", R"("r", "k")");
  Module module = image(conv("x", "w", "k") + node("add", sum, "s") + node("relu", R"("s")", "y"));
  const char* target = GENERATE("cuda", "vulkan-nvidia");
  CHECK(apply_for(fuse_conv, module, target, kHalfTolerance) == 1);
  CHECK(node_lines(module) == Lines{"conv(x, w, null, r)"});
  CHECK(only_node(module, "conv").attributes.at("activation") ==
        AttributeValue(std::string("relu")));
}

TEST_CASE("an activation brings its parameters") {
  Module module = image(conv("x", "w", "k") +
                        R"(, {"op": "clamp", "inputs": ["k"], "outputs": ["y"],
                              "attributes": {"min": 0, "max": 6}})");
  const char* target = GENERATE("cuda", "vulkan");
  CHECK(apply_for(fuse_conv, module, target, kHalfTolerance) == 1);
  const Attributes& attributes = only_node(module, "conv").attributes;
  CHECK(attributes.at("activation") == AttributeValue(std::string("clamp")));
  CHECK(attributes.at("min") == AttributeValue(0.0));
  CHECK(attributes.at("max") == AttributeValue(6.0));
}

TEST_CASE("an activation before the residual keeps the residual outside") {
  Module module =
      image(conv("x", "w", "k") + node("relu", R"("k")", "a") + node("add", R"("a", "r")", "y"));
  CHECK(apply_for(fuse_conv, module, "cuda", kHalfTolerance) == 1);
  CHECK(node_lines(module) == Lines{"conv(x, w)", "add(a, r)"});
}

TEST_CASE("a residual stays outside where the result has other readers or no kernel adds it") {
  const std::string nodes = conv("x", "w", "k") + node("add", R"("k", "r")", "y");
  Module output = image(nodes, R"(["y", "k"])");
  CHECK(apply_for(fuse_conv, output, "cuda", kHalfTolerance) == 0);
  Module vulkan = image(nodes);
  CHECK(apply_for(fuse_conv, vulkan, "vulkan", kHalfTolerance) == 0);
  Module single = image(nodes, R"(["y"])", "f32");
  CHECK(apply_for(fuse_conv, single, "cuda") == 0);
  Module twice = image(conv("x", "w", "k") + node("add", R"("k", "k")", "y"));
  CHECK(apply_for(fuse_conv, twice, "cuda", kHalfTolerance) == 0);
}

TEST_CASE("filters of several taps are stored channels last where tensor cores read them") {
  const char* target = GENERATE("cuda", "vulkan-nvidia");
  Module taps = image(conv("x", "w", "y"));
  CHECK(apply_for(lay_out_filters, taps, target) == 1);
  CHECK(filter_shape(taps) == Shape{16, 3, 3, 16});
  Module point = image(conv("x", "point", "y"));
  CHECK(apply_for(lay_out_filters, point, target) == 0);
  Module vulkan = image(conv("x", "w", "y"));
  CHECK(apply_for(lay_out_filters, vulkan, "vulkan") == 0);
}

TEST_CASE(
    "filters of depthwise convolutions are stored taps first where images are channels last") {
  const auto transpose = [](const char* from, const char* to, const char* perm) {
    return std::string(R"({"op": "transpose", "inputs": [")") + from + R"("], "outputs": [")" + to +
           R"("], "attributes": {"perm": )" + perm + "}}";
  };
  const std::string depthwise =
      R"(, {"op": "conv", "inputs": ["a", "each"], "outputs": ["b"], "attributes": {"groups": 16}})";
  const auto module = [](const std::string& nodes) {
    return module_of(R"("inputs": [{"name": "x", "dtype": "f16", "shape": [1, 16, 6, 5]}],
        "params": [)" +
                     filters("each", "f16", "[16, 1, 3, 3]") + ", " +
                     filters("point", "f16", "[16, 16, 1, 1]") + R"(], "nodes": [)" + nodes +
                     R"(], "outputs": ["y"])");
  };
  // Between transposes on any target; behind tensor cores.
  const char* target = GENERATE("cuda", "vulkan");
  const std::string from = R"({"op": "exp", "inputs": ["x"], "outputs": ["a"]})";
  Module between = module(from + depthwise + ", " + transpose("b", "y", "[0, 2, 3, 1]"));
  CHECK(apply_for(lay_out_filters, between, target) == 1);
  CHECK(filter_shape(between) == Shape{3, 3, 1, 16});
  Module behind = module(conv("x", "point", "a") + depthwise + node("exp", R"("b")", "y"));
  CHECK(apply_for(lay_out_filters, behind, target) == (std::string(target) == "cuda" ? 1 : 0));
  // Near miss: another order of axes.
  Module other = module(from + depthwise + ", " + transpose("b", "y", "[0, 3, 2, 1]"));
  CHECK(apply_for(lay_out_filters, other, target) == 0);
}

TEST_CASE("an image that views copy is copied as the conv behind them reads it") {
  const auto shuffled = [](const std::string& outputs) {
    return module_of(
        R"("inputs": [{"name": "x", "dtype": "f16", "shape": [1, 64, 6, 5]}], "params": [)" +
        filters("w", "f16", "[16, 16, 3, 3]") + R"(], "nodes": [
          {"op": "reshape", "inputs": ["x"], "outputs": ["a"],
           "attributes": {"shape": [1, 16, 2, 2, 6, 5]}},
          {"op": "transpose", "inputs": ["a"], "outputs": ["b"],
           "attributes": {"perm": [0, 1, 4, 2, 5, 3]}},
          {"op": "reshape", "inputs": ["b"], "outputs": ["c"],
           "attributes": {"shape": [1, 16, 12, 10]}}, )" +
        conv("c", "w", "y") + R"(], "outputs": )" + outputs);
  };
  Module module = shuffled(R"(["y"])");
  CHECK(apply_for(lay_out_copies, module, "cuda", kHalfTolerance) == 1);
  const Graph& graph = module.entries.at(0);
  const Node& seen = *producer_of(graph, *only_node(module, "conv").inputs[0]);
  CHECK(std::get<Ints>(seen.attributes.at("perm")) == Ints{0, 3, 1, 2});
  CHECK(graph.value(*seen.inputs[0]).type.shape == Shape{1, 12, 10, 16});
  // Others read it as it stands; and what is no copy has its order.
  Module read = shuffled(R"(["y", "c"])");
  CHECK(apply_for(lay_out_copies, read, "cuda", kHalfTolerance) == 0);
  Module plain = image(R"({"op": "reshape", "inputs": ["r"], "outputs": ["c"],
                           "attributes": {"shape": [1, 16, 5, 6]}}, )" +
                       conv("c", "w", "y"));
  CHECK(apply_for(lay_out_copies, plain, "cuda", kHalfTolerance) == 0);
}

// x [1, 128, 100] or [1, 128, 12, 12], filters w of a transposed convolution, bias b [64].
Module transposed(const std::string& x, const std::string& w, const std::string& attributes,
                  const std::string& weights = "") {
  const std::string data =
      weights.empty()
          ? R"({"random": {"distribution": "uniform", "low": -0.5, "high": 0.5, "seed": 5}})"
          : weights;
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f16", "shape": )" + x +
                            R"(}], "params": [{"name": "w", "dtype": "f16", "shape": )" + w +
                            R"(, "data": )" + data + "}, " + filters("b", "f16", "[64]") +
                            R"(], "nodes": [{"op": "conv_transpose", "inputs": ["x", "w", "b"],
                                "outputs": ["y"], "attributes": )" +
                            attributes + R"(}], "outputs": ["y"])");
  apply(decompose, module);
  return module;
}

TEST_CASE("the phases of a transposed conv are filters of one conv on tensor cores") {
  Module rows = transposed("[1, 128, 100]", "[128, 64, 16]", R"({"stride": [8], "pads": [4]})");
  CHECK(apply_for(phases_of_transposes, rows, "cuda", kHalfTolerance) == 1);
  CHECK(only_node(rows, "conv").attributes.at("pads") == AttributeValue(Ints{1, 1}));
  Module images = transposed("[1, 128, 12, 12]", "[128, 64, 4, 6]",
                             R"({"stride": [2, 3], "pads": [1, 0, 2, 1]})");
  CHECK(apply_for(phases_of_transposes, images, "cuda", kHalfTolerance) == 1);
  CHECK(only_node(images, "conv").attributes.at("pads") == AttributeValue(Ints{1, 1, 1, 1}));
}

TEST_CASE("other transposed convs are gathered") {
  const char* other = GENERATE(R"({"stride": [2, 2], "dilation": [2, 1]})", R"({"stride": [3, 2]})",
                               R"({"stride": [2, 2], "output_padding": [1, 0]})");
  Module module = transposed("[1, 128, 12, 12]", "[128, 64, 4, 4]", other);
  CHECK(apply_for(phases_of_transposes, module, "cuda", kHalfTolerance) == 0);
  // Zeros that are multiplied beside x would make NaN of an infinite tap.
  Module infinite = transposed("[1, 128, 12, 12]", "[128, 64, 4, 4]", R"({"stride": [2, 2]})",
                               R"({"splat": "inf"})");
  CHECK(apply_for(phases_of_transposes, infinite, "cuda", kHalfTolerance) == 0);
}

}  // namespace rlx::test
