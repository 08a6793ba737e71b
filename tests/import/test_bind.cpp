// SPDX-License-Identifier: Apache-2.0
// Binding a graph file to a module: symbols, names, order, attributes, inference.
#include "compiler/import/node_order.h"
#include "tests/import/import_support.h"

namespace rlx::test {
namespace {

// A graph with input "x" (f32[2, 3]) and the given nodes and output.
std::string graph_of(const std::string& nodes, const std::string& outputs = R"(["y"])",
                     const std::string& extra = {}) {
  return R"({"rlx_graph": 1, )" + extra +
         R"("inputs": [{"name": "x", "dtype": "f32", "shape": [2, 3]}], "nodes": [)" + nodes +
         R"(], "outputs": )" + outputs + "}";
}

std::string node(const std::string& op, const std::string& input, const std::string& output,
                 const std::string& attributes = "{}") {
  return R"({"op": ")" + op + R"(", "inputs": [")" + input + R"("], "outputs": [")" + output +
         R"("], "attributes": )" + attributes + "}";
}

const std::string kSymbolic =
    R"({"rlx_graph": 1, "symbols": [{"name": "batch", "max": 64}, {"name": "seq", "min": 8, "max": 512, "multiple_of": 8},
    {"name": "fixed", "min": 3, "max": 3}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", "seq", "fixed"]}],
    "nodes": [{"op": "relu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]})";

TEST_CASE("symbols are bound by name, and by themselves where the range is one number") {
  const Module module = bind_good(kSymbolic, {{"batch", 4}, {"seq", 16}});
  const Graph& graph = module.entries.at(0);
  CHECK(graph.value(graph.outputs().at(0)).type.shape == Shape{4, 16, 3});
  REQUIRE(module.symbols.size() == 3);
  CHECK(module.symbols[1].bound == 16);
  CHECK(module.symbols[1].maximum == 512);
  CHECK(module.symbols[2].bound == 3);
}

// The type of the only node's first output.
TensorType type_of(const std::string& json, const DimBindings& dims = {}) {
  const Module module = bind_good(json, dims);
  const Graph& graph = module.entries.at(0);
  return graph.value(graph.outputs().at(0)).type;
}

TEST_CASE("one number stands for a list of one, and for every axis of a window") {
  CHECK(type_of(graph_of(node("reduce_sum", "x", "y", R"({"axes": 1})"))).shape == Shape{2});
  CHECK(type_of(graph_of(node("slice", "x", "y",
                              R"({"axes": [0, 1], "starts": [0, 0], "ends": [2, 3], "steps": 2})")))
            .shape == Shape{1, 2});
  const std::string image = R"({"rlx_graph": 1, "symbols": [{"name": "s", "min": 2, "max": 2}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 2, 8, 8]}, {"name": "w", "dtype": "f32", "shape": [2, 2, 3, 3]}],
    "nodes": [{"op": "OP", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"stride": "s", "pads": 1, MORE"dilation": 1}}],
    "outputs": ["y"]})";
  const auto with = [&](const std::string& op, const std::string& more) {
    std::string json = image;
    json.replace(json.find("OP"), 2, op);
    return json.replace(json.find("MORE"), 4, more);
  };
  CHECK(type_of(with("conv", "")).shape == Shape{1, 2, 4, 4});
  CHECK(type_of(with("conv_transpose", R"("output_padding": 1, )")).shape == Shape{1, 2, 16, 16});
  CHECK(
      type_of(
          R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "u8", "shape": [4, 8]}, {"name": "w", "dtype": "i8", "shape": [8, 3]}],
    "nodes": [{"op": "qmatmul", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"w_zp": 3, "mult": 0.5}}], "outputs": ["y"]})")
          .shape == Shape{4, 3});
}

TEST_CASE("T99 k of a topk may be a symbol beyond the row, or a constant input") {
  const std::string symbolic = R"({"rlx_graph": 1, "symbols": [{"name": "k", "max": 64}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [5, 7]}],
    "nodes": [{"op": "topk", "inputs": ["x"], "outputs": ["y"], "attributes": {"k": "k", "axis": -2}}], "outputs": ["y"]})";
  CHECK(type_of(symbolic, {{"k", 3}}).shape == Shape{3, 7});
  CHECK(type_of(symbolic, {{"k", 64}}).shape == Shape{5, 7});
  const auto input = [](const std::string& leaf, const std::string& attributes) {
    return R"({"rlx_graph": 1, )" + leaf +
           R"(, "inputs": [{"name": "x", "dtype": "f32", "shape": [5, 7]}, {"name": "r", "dtype": "i32", "shape": []}],
      "nodes": [{"op": "topk", "inputs": ["x", "k"], "outputs": ["y"], "attributes": )" +
           attributes + R"(}], "outputs": ["y"]})";
  };
  const std::string constant =
      R"("constants": [{"name": "k", "dtype": "i64", "shape": [1], "data": {"values": [4]}}])";
  CHECK(type_of(input(constant, "{}")).shape == Shape{5, 4});
  CHECK(type_of(input(constant, R"({"k": 2})")).shape == Shape{5, 2});
  const std::string run_time = R"("states": [{"name": "k", "dtype": "i64", "shape": []}])";
  CHECK(type_of(input(run_time, R"({"k": 6})")).shape == Shape{5, 6});
  check_only_error(bind_bad(input(run_time, "{}")), DiagCode::BadAttribute,
                   "topk \"y\": k is known only at run time");
  check_only_error(
      bind_bad(input(R"("states": [{"name": "k", "dtype": "f32", "shape": []}])", R"({"k": 6})")),
      DiagCode::BadDtype, "wanted an integer of rank 0");
  check_only_error(bind_bad(graph_of(node("topk", "x", "y"))), DiagCode::MissingAttribute,
                   "neither as attribute nor as input");
}

TEST_CASE("an unbound symbol is told with the option that binds it") {
  const Diagnostics diagnostics = bind_bad(kSymbolic, {{"seq", 8}});
  check_only_error(diagnostics, DiagCode::UnboundSymbol,
                   "model.json:/symbols/0: error: symbol \"batch\" has no value");
  CHECK(diagnostics.all()[0].hint ==
        "give it with --dim batch=N, N from 1 to 64, or leave it to the run with --dim "
        "batch=MIN:MAX");
}

TEST_CASE("a binding out of range, of no multiple or of no symbol is refused") {
  check_only_error(bind_bad(kSymbolic, {{"batch", 65}, {"seq", 8}}), DiagCode::BadBinding,
                   "symbol \"batch\" is bound to 65, wanted a value from 1 to 64");
  check_only_error(bind_bad(kSymbolic, {{"batch", 1}, {"seq", 9}}), DiagCode::BadBinding,
                   "bound to 9, wanted a value from 8 to 512, a multiple of 8");
  check_only_error(bind_bad(kSymbolic, {{"batch", 1}, {"seq", 8}, {"bacth", 2}}),
                   DiagCode::BadBinding,
                   "--dim bacth=2 names no symbol of the graph [bad-binding]\n  hint: its symbols "
                   "are \"batch\", \"seq\", \"fixed\"");
}

TEST_CASE("a symbol that is not declared is told with the nearest one") {
  check_only_error(bind_bad(R"({"rlx_graph": 1, "symbols": [{"name": "batch", "min": 2, "max": 2}],
      "inputs": [{"name": "x", "dtype": "f32", "shape": ["bacth"]}], "nodes": [], "outputs": ["x"]})"),
                   DiagCode::UnboundSymbol,
                   "shape of input \"x\" uses symbol \"bacth\", which the graph does not declare "
                   "[unbound-symbol]\n  hint: did you mean \"batch\"?");
}

TEST_CASE("attributes hold symbols where integers are expected") {
  const std::string json =
      R"({"rlx_graph": 1, "symbols": [{"name": "b", "max": 9}, {"name": "n", "max": 9}],
      "inputs": [{"name": "x", "dtype": "f32", "shape": ["b", "n"]}],
      "nodes": [{"op": "reshape", "inputs": ["x"], "outputs": ["y"], "attributes": {"shape": ["n", "b", 1]}},
                {"op": "reshape", "inputs": ["x"], "outputs": ["z"], "attributes": {"shape": ["n", "b"]}}], "outputs": ["y", "z"]})";
  const Module module = bind_good(json, {{"b", 2}, {"n", 3}});
  const Graph& graph = module.entries.at(0);
  CHECK(graph.value(graph.outputs().at(0)).type.shape == Shape{3, 2, 1});
  CHECK(graph.value(graph.outputs().at(1)).type.shape == Shape{3, 2});
}

TEST_CASE(
    "sizes behind long chains and ladders of constants are known, each value worked out once") {
  // y[i + 1] = max(y[i], y[i]): the ways from the last to the first are 2^5000.
  std::string nodes;
  constexpr int kLength = 5000;
  for (int i = 0; i < kLength; ++i) {
    const std::string value = i == 0 ? "five" : "v" + std::to_string(i);
    nodes += R"({"op": "max", "inputs": [")" + value + R"(", ")" + value + R"("], "outputs": ["v)" +
             std::to_string(i + 1) + R"("]}, )";
  }
  const std::string json = R"({"rlx_graph": 1,
    "constants": [{"name": "zero", "dtype": "i64", "shape": [], "data": {"values": [0]}},
                  {"name": "one", "dtype": "i64", "shape": [], "data": {"values": [1]}},
                  {"name": "five", "dtype": "i64", "shape": [], "data": {"values": [5]}}],
    "nodes": [)" + nodes + R"({"op": "range", "inputs": ["zero", "v)" +
                           std::to_string(kLength) +
                           R"(", "one"], "outputs": ["y"]}], "outputs": ["y"]})";
  CHECK(type_of(json).shape == Shape{5});
}

TEST_CASE("attributes take the type of their spec") {
  const Module module = bind_good(graph_of(node("leaky_relu", "x", "y", R"({"alpha": 1})")));
  const Graph& graph = module.entries.at(0);
  CHECK(std::get<double>(graph.node(graph.order().at(0)).attributes.at("alpha")) == 1.0);
}

TEST_CASE("nodes may stand in any order") {
  const Module module = bind_good(
      graph_of(node("relu", "b", "y") + "," + node("neg", "x", "a") + "," + node("abs", "a", "b")));
  const Graph& graph = module.entries.at(0);
  REQUIRE(graph.order().size() == 3);
  CHECK(graph.node(graph.order()[0]).op == "neg");
  CHECK(graph.node(graph.order()[1]).op == "abs");
  CHECK(graph.node(graph.order()[2]).op == "relu");
}

TEST_CASE("file order is kept where it is a good one") {
  const NodeOrder sorted = order_nodes({{}, {0}, {}, {1, 2}, {0}});
  CHECK(sorted.order == std::vector<size_t>{0, 1, 2, 3, 4});
  CHECK(sorted.cycles.empty());
}

TEST_CASE("a chain of a million nodes in reverse order is sorted without recursion") {
  std::vector<std::vector<size_t>> producers(1'000'000);
  for (size_t i = 0; i + 1 < producers.size(); ++i) producers[i] = {i + 1};
  CHECK(order_nodes(producers).order.front() == 999'999);
}

TEST_CASE("a cycle is told with the nodes on it") {
  const Diagnostics diagnostics =
      bind_bad(graph_of(node("relu", "c", "a") + "," + node("neg", "a", "b") + "," +
                        node("abs", "b", "c") + "," + node("exp", "x", "y")));
  check_only_error(diagnostics, DiagCode::Cycle,
                   "model.json:/nodes/0: error: these nodes read each other's outputs in a circle: "
                   "\"a\", \"c\", \"b\"");
  check_only_error(bind_bad(graph_of(node("relu", "y", "y"))), DiagCode::Cycle,
                   "in a circle: \"y\"");
}

TEST_CASE("an unknown value is told with the nearest name") {
  const Diagnostics diagnostics =
      bind_bad(graph_of(node("relu", "x", "hidden") + "," + node("relu", "hiden", "y")));
  check_only_error(
      diagnostics, DiagCode::UnknownValue,
      "model.json:/nodes/1: error: relu \"y\": input 0 reads \"hiden\", which nothing defines");
  CHECK(diagnostics.all()[0].hint == "did you mean \"hidden\"?");
  check_only_error(bind_bad(graph_of(node("relu", "x", "y"), R"(["z", "y"])")),
                   DiagCode::UnknownValue, "output \"z\" of entry \"main\" is defined by nothing");
}

TEST_CASE("all unknown ops are told in one pass") {
  const Diagnostics diagnostics =
      bind_bad(graph_of(node("sofmax", "x", "a") + "," + node("relu", "a", "b") + "," +
                        node("flurb_xyzzy", "b", "y")));
  CHECK(diagnostics.error_count() == 2);
  check_error(diagnostics, DiagCode::UnknownOp,
              "model.json:/nodes/0: error: sofmax \"a\": there is no op \"sofmax\" [unknown-op]\n  "
              "hint: did you mean \"softmax\"?");
  check_error(diagnostics, DiagCode::UnknownOp,
              "model.json:/nodes/2: error: flurb_xyzzy \"y\": there is no op \"flurb_xyzzy\"");
}

TEST_CASE("an unknown, missing, mistyped or misplaced attribute is told") {
  check_error(bind_bad(graph_of(node("softmax", "x", "y", R"({"axes": 1})"))),
              DiagCode::UnknownAttribute, "softmax \"y\": attribute \"axes\" is unknown");
  check_error(bind_bad(graph_of(node("softmax", "x", "y", R"({"axis": "last"})"))),
              DiagCode::BadAttribute, "softmax \"y\": attribute \"axis\" is");
  check_error(bind_bad(graph_of(node("softmax", "x", "y", R"({"axis": 4})"))), DiagCode::BadAxis,
              "axis 4 is out of range for rank 2");
  check_error(bind_bad(graph_of(node("reshape", "x", "y"))), DiagCode::MissingAttribute,
              "attribute \"shape\" is required and missing");
  check_error(bind_bad(graph_of(node("cast", "x", "y", R"({"to": "f33"})"))),
              DiagCode::BadAttribute, "attribute \"to\" is");
}

TEST_CASE("wrong arity, rank, dtype and shape are told by the op") {
  check_error(bind_bad(graph_of(R"({"op": "relu", "inputs": ["x", "x"], "outputs": ["y"]})")),
              DiagCode::BadArity, "got 2 inputs, wanted 1 inputs");
  check_error(bind_bad(graph_of(R"({"op": "add", "inputs": ["x", null], "outputs": ["y"]})")),
              DiagCode::BadArity, "input 1 is null");
  check_error(
      bind_bad(graph_of(
          R"({"op": "add", "inputs": ["x", "w"], "outputs": ["y"]})", R"(["y"])",
          R"("params": [{"name": "w", "dtype": "f32", "shape": [4], "data": {"splat": 0}}], )")),
      DiagCode::BadShape, "add \"y\"");
}

TEST_CASE("what depends on a faulty node is skipped in silence, its own faults are told") {
  const Diagnostics diagnostics = bind_bad(graph_of(node("nope_nope", "x", "a") + "," +
                                                    node("softmax", "a", "b", R"({"axis": 9})") +
                                                    "," + node("relu", "b", "y", R"({"k": 1})")));
  CHECK(diagnostics.error_count() == 2);
  check_error(diagnostics, DiagCode::UnknownOp, "nope_nope");
  check_error(diagnostics, DiagCode::UnknownAttribute, "relu \"y\": attribute \"k\" is unknown");
}

TEST_CASE("a name defined twice is refused") {
  check_only_error(bind_bad(graph_of(node("relu", "x", "x"), R"(["x"])")), DiagCode::DuplicateName,
                   "value \"x\" is defined twice: as input and as output of node \"x\"");
  check_error(bind_bad(graph_of(node("relu", "x", "y") + "," + node("neg", "x", "y"))),
              DiagCode::DuplicateName, "as output of node \"y\" and as output of node \"y\"");
  const std::string weight = R"({"name": "w", "dtype": "f32", "shape": [1], "data": {"splat": 0}})";
  check_only_error(
      bind_bad(graph_of(node("relu", "x", "y"), R"(["y"])",
                        R"("params": [)" + weight + R"(], "constants": [)" + weight + "], ")),
      DiagCode::DuplicateName,
      "model.json:/constants/0: error: value \"w\" is defined twice: as param and as constant");
  check_error(
      bind_bad(graph_of(node("relu", "x", "w"), R"(["w"])", R"("params": [)" + weight + "], ")),
      DiagCode::DuplicateName, "as param and as output of node \"w\"");
  check_only_error(
      bind_bad(graph_of(
          R"({"name": "n", "op": "relu", "inputs": ["x"], "outputs": ["a"]}, {"name": "n", "op": "relu", "inputs": ["a"], "outputs": ["y"]})")),
      DiagCode::DuplicateName, "node name \"n\" is used twice");
  check_error(
      bind_bad(
          R"({"rlx_graph": 1, "entries": [{"name": "e", "nodes": [], "outputs": []}, {"name": "e", "nodes": [], "outputs": []}]})"),
      DiagCode::DuplicateName, "entry \"e\" is defined twice");
}

TEST_CASE("outputs may repeat, be inputs or be weights") {
  const Module module = bind_good(graph_of(
      node("relu", "x", "y"), R"(["y", "y", "x", "w"])",
      R"("params": [{"name": "w", "dtype": "f32", "shape": [4], "data": {"splat": 0}}], )"));
  const Graph& graph = module.entries.at(0);
  REQUIRE(graph.outputs().size() == 4);
  CHECK(graph.outputs()[0] == graph.outputs()[1]);
  CHECK(graph.outputs()[2] == graph.inputs[0]);
  CHECK(graph.value(graph.outputs()[3]).origin == ValueOrigin::Weight);
}

TEST_CASE("an entry without outputs or effect is refused") {
  check_only_error(bind_bad(graph_of(node("relu", "x", "y"), "[]")), DiagCode::BadField,
                   "entry \"main\" has no outputs and writes no state");
}

TEST_CASE("states keep their first value and are shared by entries") {
  const Module module = bind_good(R"({"rlx_graph": 1,
      "constants": [{"name": "s.init", "dtype": "f32", "shape": [1], "data": {"splat": 0}}],
      "states": [{"name": "z", "dtype": "f32", "shape": [2]}, {"name": "o", "dtype": "f32", "shape": [2], "init": "ones"},
                 {"name": "s", "dtype": "i32", "shape": [2], "init": {"values": [5, 6]}}],
      "entries": [{"name": "a", "nodes": [{"op": "relu", "inputs": ["z"], "outputs": ["y"]}], "outputs": ["y"]},
                  {"name": "b", "nodes": [{"op": "relu", "inputs": ["z"], "outputs": ["y"]}], "outputs": ["y", "s", "o"]}]})");
  REQUIRE(module.states.size() == 3);
  CHECK_FALSE(module.states[0].init.has_value());
  CHECK(std::get<SplatData>(module.weight(*module.states[1].init).data).value == 1.0);
  CHECK(module.weight(*module.states[2].init).name == "s.init_");
  CHECK(module.entries.at(1).value(module.entries.at(1).outputs().at(1)).state == StateId{2});
}

TEST_CASE("load_module finds weights beside the graph file") {
  const TemporaryFolder folder;
  folder.write("w.bin", raw_bytes<float>({1, 2}));
  const std::string path = folder.write(
      "m.json",
      relu_graph(
          R"("params": [{"name": "w", "dtype": "f32", "shape": [2], "data": {"raw": "w.bin"}}], )"));
  Diagnostics diagnostics;
  std::optional<Module> module = load_module(path, {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  CHECK(values_of<float>(*module, "w") == std::vector<float>{1, 2});
  CHECK(convert_to(folder, path, "m.rlxg", diagnostics));
  module = load_module(folder.path("m.rlxg"), {}, diagnostics);
  REQUIRE(module.has_value());
  CHECK(values_of<float>(*module, "w") == std::vector<float>{1, 2});
}

}  // namespace
}  // namespace rlx::test
