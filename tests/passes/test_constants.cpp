// SPDX-License-Identifier: Apache-2.0
// fold_constants, fold_pads and fold_batch_norm.
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

// A conv of constants with a batch_norm after it; `entry` holds the nodes and outputs.
Module conv_module(const std::string& entry) {
  return module_of(R"("constants": [
    {"name": "w", "dtype": "f32", "shape": [2, 1, 2], "data": {"values": [1, -2, 0.5, 3]}},
    {"name": "c", "dtype": "f32", "shape": [2], "data": {"values": [0.25, -1]}},
    {"name": "g", "dtype": "f32", "shape": [2], "data": {"values": [2, 0.5]}},
    {"name": "b", "dtype": "f32", "shape": [2], "data": {"values": [1, -1]}},
    {"name": "m", "dtype": "f32", "shape": [2], "data": {"values": [0.5, 3]}},
    {"name": "v", "dtype": "f32", "shape": [2], "data": {"values": [4, 0.25]}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 2, 6]}], )" +
                   entry);
}

using Inputs = std::vector<std::optional<WeightId>>;

constexpr const char* kRandomWeights = R"("params": [
    {"name": "w", "dtype": "f32", "shape": [5], "data": {"random": {"distribution": "normal", "mean": 1, "std": 2, "seed": 3}}},
    {"name": "v", "dtype": "f32", "shape": [3], "data": {"random": {"distribution": "uniform", "low": 1, "high": 2, "seed": 4}}}],
    "constants": [{"name": "c", "dtype": "f32", "shape": [1], "data": {"values": [1.5]}}],)";

}  // namespace

TEST_CASE("nodes of constants are evaluated, through chains, up to the first input") {
  Module module = module_of(
      R"("constants": [{"name": "a", "dtype": "f32", "shape": [3], "data": {"values": [1, 2, 3]}},
                                             {"name": "b", "dtype": "f32", "shape": [1], "data": {"splat": 2}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [3]}],
    "nodes": [{"op": "mul", "inputs": ["a", "b"], "outputs": ["p"]}, {"op": "neg", "inputs": ["p"], "outputs": ["q"]},
              {"op": "add", "inputs": ["x", "q"], "outputs": ["y"]}],
    "outputs": ["y", "q"])");
  CHECK(apply_keeping_values(fold_constants, module) == 2);
  CHECK(node_lines(module) == Lines{"add(x, q.const)"});
  CHECK(outputs_of(module)[1].floats == std::vector<double>{-2, -4, -6});
}

TEST_CASE("nodes of constants with an index outside are left to the run, which tells of it") {
  const auto reads = [](const std::string& node) {
    return module_of(
        R"("constants": [{"name": "a", "dtype": "f32", "shape": [3], "data": {"values": [1, 2, 3]}},
                         {"name": "in", "dtype": "i32", "shape": [2], "data": {"values": [2, -3]}},
                         {"name": "out", "dtype": "i32", "shape": [2], "data": {"values": [0, 3]}},
                         {"name": "below", "dtype": "i32", "shape": [2, 1], "data": {"values": [0, -4]}},
                         {"name": "b", "dtype": "f32", "shape": [2], "data": {"values": [5, 6]}}],
      "nodes": [{"op": )" +
        node + R"(, "outputs": ["y"]}], "outputs": ["y"])");
  };
  for (const char* node : {R"("gather", "inputs": ["a", "in"])",
                           R"("gather", "inputs": ["a", "out"], "attributes": {"checked": false})",
                           R"("scatter_elements", "inputs": ["a", "in", "b"])"}) {
    Module module = reads(node);
    CAPTURE(node);
    CHECK(apply(fold_constants, module) == 1);
  }
  for (const char* node :
       {R"("gather", "inputs": ["a", "out"])",
        R"("gather", "inputs": ["a", "out"], "attributes": {"oob": "zero"})",
        R"("embedding", "inputs": ["a", "out"])", R"("gather_elements", "inputs": ["a", "out"])",
        R"("gather_nd", "inputs": ["a", "below"])",
        R"("scatter_elements", "inputs": ["a", "out", "b"])",
        R"("scatter_nd", "inputs": ["a", "below", "b"])",
        R"("index_add", "inputs": ["a", "out", "b"], "attributes": {"axis": 0})"}) {
    Module module = reads(node);
    CAPTURE(node);
    CHECK(apply(fold_constants, module) == 0);
  }
}

TEST_CASE("entries that do the same to a weight hold one result") {
  const std::string nodes = R"("nodes": [
      {"op": "transpose", "inputs": ["a"], "outputs": ["t"], "attributes": {"perm": [1, 0]}},
      {"op": "mul", "inputs": ["t", "t"], "outputs": ["q"]},
      {"op": "reshape", "inputs": ["a"], "outputs": ["r"], "attributes": {"shape": [)";
  const std::string inputs = R"(, "inputs": [{"name": "x", "dtype": "f32", "shape": [1]}], )";
  const std::string outputs = R"(]}}], "outputs": ["q", "r"]})";
  Module module = module_of(
      R"("constants": [{"name": "a", "dtype": "f32", "shape": [2, 3], "data": {"values": [1, 2, 3, 4, 5, 6]}}],
         "entries": [{"name": "one")" +
      inputs + nodes + "3, 2" + outputs + R"(, {"name": "two")" + inputs + nodes + "6" + outputs +
      "]");
  CHECK(apply(fold_constants, module) == 6);
  REQUIRE(module.weights.size() == 5);  // a, its transpose, the square, and two reshapes
  const auto weight = [&](size_t entry, size_t output) {
    const Graph& graph = module.entries.at(entry);
    return graph.value(graph.outputs().at(output)).weight;
  };
  CHECK(weight(0, 0) == weight(1, 0));
  CHECK(weight(0, 1) != weight(1, 1));
  CHECK(outputs_of(module)[0].floats == std::vector<double>{1, 16, 4, 25, 9, 36});
}

TEST_CASE("folding that would swell the plan is left to the device, what was expanded is folded") {
  const auto expanded = [](const std::string& rows) {
    return module_of(
        R"("constants": [{"name": "a", "dtype": "f32", "shape": [64], "data": {"splat": 1}}],
      "nodes": [{"op": "expand", "inputs": ["a"], "outputs": ["e"], "attributes": {"shape": [)" +
        rows + R"(, 64]}},
                {"op": "exp", "inputs": ["e"], "outputs": ["y"]}], "outputs": ["y"])");
  };
  Module small = expanded("256");  // 64 KiB
  CHECK(apply(fold_constants, small) == 2);
  Module big = expanded("257");
  CHECK(apply_keeping_values(fold_constants, big) == 1);
  apply(remove_dead, big);
  CHECK(node_lines(big) == Lines{"expand(y.unexpanded.const)"});
}

TEST_CASE("no node over constants is left to every run but what costs less there than to load it") {
  const auto folded = [](const std::string& nodes) {
    Module module = module_of(
        R"("constants": [{"name": "a", "dtype": "f32", "shape": [64], "data": {"splat": 0.5}}, {"name": "b", "dtype": "f32", "shape": [512, 1], "data": {"splat": 2}}],
      "params": [{"name": "r", "dtype": "f32", "shape": [64], "data": {"random": {"distribution": "normal", "mean": 1, "std": 2, "seed": 3}}}],
      "inputs": [{"name": "x", "dtype": "f32", "shape": [512, 64]}],
      "nodes": [{"op": "expand", "inputs": ["a"], "outputs": ["e"], "attributes": {"shape": [512, 64]}},
                {"op": "expand", "inputs": ["r"], "outputs": ["g"], "attributes": {"shape": [512, 64]}},
                )" +
        nodes + R"(], "outputs": ["y"])");
    apply_keeping_values(fold_constants, module);
    apply(remove_dead, module);
    return node_lines(module);
  };
  // A chain of nodes over expanded constants is one small weight, known or made on the device.
  CHECK(
      folded(
          R"({"op": "exp", "inputs": ["e"], "outputs": ["p"]}, {"op": "mul", "inputs": ["p", "e"], "outputs": ["q"]},
                  {"op": "add", "inputs": ["q", "x"], "outputs": ["y"]})") ==
      Lines{"expand(q.unexpanded.const)", "add(q.expanded, x)"});
  CHECK(
      folded(
          R"({"op": "exp", "inputs": ["g"], "outputs": ["p"]}, {"op": "add", "inputs": ["p", "x"], "outputs": ["y"]})") ==
      Lines{"expand(p.unexpanded.made)", "add(p.expanded, x)"});
  // A triangle goes by places: it is none of what was expanded.
  const Lines triangle = folded(
      R"({"op": "trilu", "inputs": ["e"], "outputs": ["p"]}, {"op": "add", "inputs": ["p", "x"], "outputs": ["y"]})");
  for (const std::string& line : triangle) CHECK(line.find("unexpanded") == std::string::npos);
  // A scan over a view is made once; only the init entry reads the view.
  CHECK(folded(
            R"({"op": "reduce_sum", "inputs": ["e"], "outputs": ["p"], "attributes": {"axes": [0]}},
                  {"op": "add", "inputs": ["p", "x"], "outputs": ["y"]})") ==
        Lines{"add(p.made, x)"});
  // What a chain computes of two small constants it computes in registers, at every run; what a
  // scan reads of it is made once.
  CHECK(
      folded(
          R"({"op": "add", "inputs": ["a", "b"], "outputs": ["p"]}, {"op": "mul", "inputs": ["p", "x"], "outputs": ["y"]})") ==
      Lines{"add(a, b)", "mul(p, x)"});
  CHECK(
      folded(
          R"({"op": "add", "inputs": ["a", "b"], "outputs": ["p"]}, {"op": "exp", "inputs": ["p"], "outputs": ["q"]},
                  {"op": "cumsum", "inputs": ["q"], "outputs": ["s"], "attributes": {"axis": 1}},
                  {"op": "mul", "inputs": ["s", "x"], "outputs": ["y"]})") ==
      Lines{"mul(s.made, x)"});
}

TEST_CASE("random weights stay random, and their casts move into the generator") {
  Module module = module_of(R"("params": [{"name": "w", "dtype": "f32", "shape": [8],
      "data": {"random": {"distribution": "normal", "mean": 0, "std": 1, "seed": 3}}}],
    "nodes": [{"op": "cast", "inputs": ["w"], "outputs": ["a"], "attributes": {"to": "f16"}},
              {"op": "cast", "inputs": ["w"], "outputs": ["b"], "attributes": {"to": "f16"}},
              {"op": "cast", "inputs": ["w"], "outputs": ["i"], "attributes": {"to": "i32"}},
              {"op": "exp", "inputs": ["a"], "outputs": ["y"]}],
    "outputs": ["y", "a", "b", "i"])");
  CHECK(apply_keeping_values(fold_constants, module, 2e-3) == 4);
  CHECK(node_lines(module).empty());
  REQUIRE(module.weights.size() == 4);
  CHECK(std::holds_alternative<RandomData>(module.weights[1].data));
  CHECK(module.entries[0].outputs()[1] == module.entries[0].outputs()[2]);
  CHECK(std::get<ComputedData>(module.weights[2].data) ==
        ComputedData{.op = "cast", .attributes = {{"to", "i32"}}, .inputs = {WeightId{0}}});
  CHECK(std::get<ComputedData>(module.weights[3].data).inputs == Inputs{WeightId{1}});
}

TEST_CASE("nodes over random weights become weights that are computed once, equal ones once") {
  Module module = module_of(std::string(kRandomWeights) + R"(
    "inputs": [{"name": "x", "dtype": "f32", "shape": [8]}],
    "nodes": [{"op": "concat", "inputs": ["w", "v"], "outputs": ["j"], "attributes": {"axis": 0}},
              {"op": "concat", "inputs": ["w", "v"], "outputs": ["k"], "attributes": {"axis": 0}},
              {"op": "mul", "inputs": ["j", "c"], "outputs": ["p"]},
              {"op": "add", "inputs": ["p", "x"], "outputs": ["y"]}],
    "outputs": ["y", "k"])");
  CHECK(apply_keeping_values(fold_constants, module) == 3);
  CHECK(node_lines(module) == Lines{"add(p.made, x)"});
  REQUIRE(module.weights.size() == 5);
  CHECK(std::get<ComputedData>(module.weights[3].data).inputs == Inputs{WeightId{0}, WeightId{1}});
  CHECK(std::get<ComputedData>(module.weights[4].data).inputs == Inputs{WeightId{3}, WeightId{2}});
}

TEST_CASE("a view of a random weight that others read too stays a view") {
  const auto folds = [](const std::string& rows, bool shared) {
    Module module = module_of(R"("params": [{"name": "w", "dtype": "f32", "shape": [)" + rows +
                              R"(, 64],
        "data": {"random": {"distribution": "uniform", "low": 0, "high": 1, "seed": 3}}}],
      "inputs": [{"name": "x", "dtype": "f32", "shape": [64]}],
      "nodes": [{"op": "transpose", "inputs": ["w"], "outputs": ["t"]}, {"op": "add", "inputs": [")" +
                              std::string(shared ? "w" : "x") + R"(", "x"], "outputs": ["y"]}],
      "outputs": ["t", "y"])");
    return apply_keeping_values(fold_constants, module);
  };
  CHECK(folds("257", true) == 0);
  CHECK(folds("257", false) == 1);
  CHECK(folds("256", true) == 1);  // 64 KiB
}

TEST_CASE(
    "casts and shapes of large constants are folded by bytes, other nodes are computed once") {
  constexpr int64_t kCount = (int64_t{1} << 26) + 8;  // more than is evaluated at once
  const std::string count = std::to_string(kCount);
  Module module = module_of(
      R"("constants": [{"name": "a", "dtype": "u8", "shape": [8], "data": {"splat": 0}}],
    "nodes": [{"op": "cast", "inputs": ["a"], "outputs": ["c"], "attributes": {"to": "i8"}},
              {"op": "reshape", "inputs": ["c"], "outputs": ["r"], "attributes": {"shape": [-1, 8]}},
              {"op": "abs", "inputs": ["r"], "outputs": ["y"]}],
    "outputs": ["c", "r", "y"])");
  const auto bytes = std::make_shared<std::vector<std::byte>>(kCount);
  for (size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = static_cast<std::byte>(i % 251);
  const std::vector<Shape> shapes = {{kCount}, {kCount / 8, 8}, {kCount / 8, 8}};
  module.weights[0].type.shape = shapes[0];
  module.weights[0].data = HostBytes{.owner = bytes, .bytes = *bytes};
  Graph& graph = module.entries[0];
  graph.value(graph.weight_value(WeightId{0}, module.weights[0])).type.shape = shapes[0];
  for (size_t i = 0; i < 3; ++i) graph.value(graph.outputs()[i]).type.shape = shapes[i];
  CHECK(apply(fold_constants, module) == 3);
  REQUIRE(module.weights.size() == 4);
  const auto cast = std::get<HostBytes>(module.weights[1].data).bytes;
  const auto shaped = std::get<HostBytes>(module.weights[2].data).bytes;
  REQUIRE(cast.size() == bytes->size());
  bool right = true;
  for (size_t i = 0; i < cast.size(); ++i)
    right = right && cast[i] == std::byte{static_cast<uint8_t>(std::min<size_t>(i % 251, 127))};
  CHECK(right);
  CHECK(shaped.data() == cast.data());
  CHECK(std::get<ComputedData>(module.weights[3].data) ==
        ComputedData{.op = "abs", .attributes = {}, .inputs = {WeightId{2}}});
}

TEST_CASE("a large view of a constant is made once where a reader would copy it at every run") {
  const auto folds = [](const std::string& reader) {
    Module module = module_of(
        R"("constants": [{"name": "a", "dtype": "f32", "shape": [64], "data": {"splat": 1}}],
      "inputs": [{"name": "x", "dtype": "f32", "shape": [64]}],
      "nodes": [{"op": "expand", "inputs": ["a"], "outputs": ["e"], "attributes": {"shape": [257, 64]}},
                )" +
        reader + R"(], "outputs": ["y"])");
    return apply_keeping_values(fold_constants, module);
  };
  CHECK(folds(R"({"op": "add", "inputs": ["e", "x"], "outputs": ["y"]})") == 0);
  CHECK(folds(R"({"op": "flatten", "inputs": ["e"], "outputs": ["f"]},
                 {"op": "cumsum", "inputs": ["f"], "outputs": ["s"], "attributes": {"axis": 1}},
                 {"op": "add", "inputs": ["s", "x"], "outputs": ["y"]})") == 3);
}

TEST_CASE("a weight computed from one that stands after it is a fault") {
  Module module;
  module.add_weight({.name = "late",
                     .type = {DType::f32, {2}},
                     .data = ComputedData{.op = "neg", .attributes = {}, .inputs = {WeightId{1}}}});
  module.add_weight({.name = "early", .type = {DType::f32, {2}}, .data = RandomData{}});
  CHECK(find_fault(module).value_or("").find("weight \"late\"") != std::string::npos);
  std::swap(module.weights[0], module.weights[1]);
  std::get<ComputedData>(module.weights[1].data).inputs = {WeightId{0}};
  CHECK_FALSE(find_fault(module).has_value());
}

TEST_CASE("a weight of the model with the name of a cast is not taken for the cast") {
  Module module = module_of(R"("params": [{"name": "w", "dtype": "f32", "shape": [4],
      "data": {"random": {"distribution": "uniform", "low": 2, "high": 3, "seed": 3}}},
     {"name": "w.f16", "dtype": "f16", "shape": [4], "data": {"splat": -7}}],
    "inputs": [{"name": "x", "dtype": "f16", "shape": [4]}],
    "nodes": [{"op": "cast", "inputs": ["w"], "outputs": ["a"], "attributes": {"to": "f16"}},
              {"op": "add", "inputs": ["a", "w.f16"], "outputs": ["b"]}, {"op": "add", "inputs": ["b", "x"], "outputs": ["y"]}],
    "outputs": ["y"])");
  apply_keeping_values(fold_constants, module, 2e-3);
  CHECK(module.weights.size() == 4);  // and their sum
}

TEST_CASE("state writes of constants and reads of states are not folded") {
  Module module = module_of(
      R"("constants": [{"name": "a", "dtype": "f32", "shape": [2], "data": {"values": [1, 2]}}],
    "states": [{"name": "s", "dtype": "f32", "shape": [2]}],
    "nodes": [{"op": "add", "inputs": ["s", "a"], "outputs": ["y"]}, {"op": "state_write", "inputs": ["s", "a"], "outputs": ["n"]}],
    "outputs": ["y"])");
  CHECK(apply(fold_constants, module) == 0);
}

TEST_CASE("zeros around the images of a conv become its pads") {
  Module module = conv_module(R"("nodes": [
    {"op": "pad", "inputs": ["x"], "outputs": ["p"], "attributes": {"pads": [2, 1], "axes": [-1]}},
    {"op": "pad", "inputs": ["p"], "outputs": ["q"], "attributes": {"pads": [0, 0, 1, 0, 0, 0]}},
    {"op": "conv", "inputs": ["q", "w"], "outputs": ["y"], "attributes": {"groups": 2, "pads": [1]}}],
    "outputs": ["y"])");
  const std::vector<Tensor> wanted = outputs_of(module);
  CHECK(apply(fold_pads, module) == 2);
  CHECK(std::get<Ints>(only_node(module, "conv").attributes.at("pads")) == Ints{4, 2});
  apply(remove_dead, module);
  CHECK(node_lines(module) == Lines{"conv(x, w)"});
  check_close(outputs_of(module), wanted);
}

TEST_CASE("other pads stay in front of a conv") {
  const std::string attributes =
      GENERATE(R"("pads": [1, 1], "axes": [2], "value": 1)", R"("pads": [1, -1], "axes": [2])",
               R"("pads": [1, 1], "axes": [2], "mode": "edge")", R"("pads": [1, 1], "axes": [0])");
  Module module = conv_module(R"("nodes": [
    {"op": "pad", "inputs": ["x"], "outputs": ["p"], "attributes": {)" +
                              attributes + R"(}},
    {"op": "conv", "inputs": ["p", "w"], "outputs": ["y"], "attributes": {"groups": 2}}],
    "outputs": ["y"])");
  CHECK(apply(fold_pads, module) == 0);
}

TEST_CASE("a batch_norm after a conv of constants goes into its weights") {
  const bool biased = GENERATE(false, true);
  Module module = conv_module(std::string(R"("nodes": [{"op": "conv", "inputs": ["x", "w")") +
                              (biased ? R"(, "c")" : "") +
                              R"(], "outputs": ["k"], "attributes": {"groups": 2}},
    {"op": "batch_norm", "inputs": ["k", "g", "b", "m", "v"], "outputs": ["y"], "attributes": {"eps": 0.125}}],
    "outputs": ["y"])");
  const std::vector<Tensor> wanted = outputs_of(module);
  CHECK(apply(fold_batch_norm, module) == 1);
  check_close(outputs_of(module), wanted);
  CHECK(only_node(module, "conv").inputs.size() == 3);
  apply(fold_constants, module);
  CHECK(node_lines(module).size() == 1);
  check_close(outputs_of(module), wanted);
}

TEST_CASE("a batch_norm of random statistics goes into random weights, which are computed once") {
  const auto random = [](const std::string& name, const std::string& shape,
                         const std::string& seed) {
    return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": [)" + shape +
           R"(], "data": {"random": {"distribution": "uniform", "low": 0.5, "high": 1.5, "seed": )" +
           seed + "}}}";
  };
  Module module = module_of(R"("params": [)" + random("w", "4, 3, 2", "1") + "," +
                            random("g", "4", "2") + "," + random("b", "4", "3") + "," +
                            random("m", "4", "4") + "," + random("v", "4", "5") + R"(],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 3, 6]}],
    "nodes": [{"op": "conv", "inputs": ["x", "w"], "outputs": ["k"]},
              {"op": "batch_norm", "inputs": ["k", "g", "b", "m", "v"], "outputs": ["y"]}],
    "outputs": ["y"])");
  const std::vector<Tensor> wanted = outputs_of(module);
  CHECK(apply(fold_batch_norm, module) == 1);
  apply(fold_constants, module);
  CHECK(node_lines(module) == Lines{"conv(x, y.mul.1.made, y.fma.made)"});
  check_close(outputs_of(module), wanted);
}

TEST_CASE("a batch_norm of f16 folds in f32, and the weights are rounded once") {
  const std::string statistic = R"(", "dtype": "f16", "shape": [2], "data": {"values": )";
  Module module = module_of(R"("constants": [
    {"name": "w", "dtype": "f16", "shape": [2, 1, 1], "data": {"values": [1.0009765625, 3]}},
    {"name": "g)" + statistic +
                            R"([1.0009765625, 0.5]}}, {"name": "b)" + statistic +
                            R"([1, -1]}}, {"name": "m)" + statistic + R"([0.5, 3]}}, {"name": "v)" +
                            statistic + R"([1, 0.25]}}],
    "inputs": [{"name": "x", "dtype": "f16", "shape": [1, 1, 4]}],
    "nodes": [{"op": "conv", "inputs": ["x", "w"], "outputs": ["k"]},
              {"op": "batch_norm", "inputs": ["k", "g", "b", "m", "v"], "outputs": ["y"], "attributes": {"eps": 0}}],
    "outputs": ["y"])");
  const std::vector<Tensor> wanted = outputs_of(module);
  CHECK(apply(fold_batch_norm, module) == 1);
  apply(fold_constants, module);
  REQUIRE(node_lines(module).size() == 1);
  check_close(outputs_of(module), wanted, 2e-3);
  const Graph& graph = module.entries[0];
  const Node& conv = only_node(module, "conv");
  CHECK(graph.value(*conv.inputs[1]).type.dtype == DType::f16);
  CHECK(graph.value(*conv.inputs[2]).type.dtype == DType::f32);
  // 1.0009765625^2 = 1.00195407..., between 1.001953125 and 1.0029296875.
  const Weight& folded = module.weight(*graph.value(*conv.inputs[1]).weight);
  CHECK(weight_tensor(module, folded).floats[0] == 1.001953125);
}

TEST_CASE(
    "a batch_norm stays where the conv is an output, has another reader, or has an activation") {
  const auto stays = [](const std::string& entry) {
    Module module = conv_module(entry);
    CHECK(apply(fold_batch_norm, module) == 0);
  };
  const std::string conv =
      R"("nodes": [{"op": "conv", "inputs": ["x", "w"], "outputs": ["k"], "attributes": {"groups": 2}}, )";
  const std::string norm =
      R"({"op": "batch_norm", "inputs": ["k", "g", "b", "m", "v"], "outputs": ["y"]})";
  stays(conv + norm + R"(], "outputs": ["y", "k"])");
  stays(conv + norm +
        R"(, {"op": "exp", "inputs": ["k"], "outputs": ["z"]}], "outputs": ["y", "z"])");
  stays(
      R"("nodes": [{"op": "conv", "inputs": ["x", "w"], "outputs": ["k"], "attributes": {"groups": 2, "activation": "relu"}}, )" +
      norm + R"(], "outputs": ["y"])");
}

TEST_CASE("a batch_norm over another axis than the channels stays") {
  Module module = module_of(R"("constants": [
    {"name": "w", "dtype": "f32", "shape": [2, 2, 1], "data": {"values": [1, -2, 0.5, 3]}},
    {"name": "g", "dtype": "f32", "shape": [2], "data": {"splat": 1}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 2, 2]}],
    "nodes": [{"op": "conv", "inputs": ["x", "w"], "outputs": ["k"]},
              {"op": "batch_norm", "inputs": ["k", "g", "g", "g", "g"], "outputs": ["y"], "attributes": {"axis": 2}}],
    "outputs": ["y"])");
  CHECK(apply(fold_batch_norm, module) == 0);
}

}  // namespace rlx::test
