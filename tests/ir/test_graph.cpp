// SPDX-License-Identifier: Apache-2.0
// Editing graphs, finding faults, and the text form.
#include <algorithm>
#include <random>

#include "compiler/ir/graph.h"
#include "compiler/support/check.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

const TensorType kType{.dtype = DType::f32, .shape = {}};

TensorType vector_type(int64_t size) {
  return {.dtype = DType::f32, .shape = {size}};
}

ValueId value(Graph& graph, const std::string& name, ValueOrigin origin = ValueOrigin::Node) {
  return graph.add_value({.name = name,
                          .type = vector_type(2),
                          .origin = origin,
                          .weight = {},
                          .state = {},
                          .producer = {}});
}

Node node(const std::string& name, std::vector<std::optional<ValueId>> inputs,
          std::vector<ValueId> outputs) {
  return {.name = name,
          .op = "neg",
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .attributes = {},
          .region = {},
          .place = {},
          .source = {}};
}

// x -> first -> a -> second -> y
struct Chain {
  Module module;
  ValueId x, a, y;
  NodeId first, second;
  Graph& graph() { return module.entries[0]; }
};

Chain chain() {
  Chain result{.module = {.name = "m",
                          .producer = "",
                          .symbols = {},
                          .weights = {},
                          .states = {},
                          .entries = std::vector<Graph>(1)},
               .x = {},
               .a = {},
               .y = {},
               .first = {},
               .second = {}};
  Graph& graph = result.graph();
  graph.name = "main";
  result.x = value(graph, "x", ValueOrigin::Input);
  result.a = value(graph, "a");
  result.y = value(graph, "y");
  graph.inputs = {result.x};
  result.first = graph.add_node(node("first", {result.x}, {result.a}));
  result.second = graph.add_node(node("second", {result.a}, {result.y}));
  graph.set_outputs({result.y});
  graph.output_names = {"y"};
  return result;
}

void check_fault(const Module& module, const std::string& part) {
  const std::optional<std::string> fault = find_fault(module);
  INFO("wanted: " << part);
  REQUIRE(fault.has_value());
  INFO("got: " << *fault);
  CHECK(fault->find(part) != std::string::npos);
  CHECK(fault->find("main") != std::string::npos);
}

}  // namespace

TEST_CASE("a valid graph has no fault") {
  CHECK_FALSE(find_fault(chain().module).has_value());
}

TEST_CASE("reads before the write are a fault") {
  Chain c = chain();
  c.graph().set_order({c.second, c.first});
  check_fault(c.module, "node \"second\" reads \"a\" before it is made");
}

TEST_CASE("reads of a removed node's result are a fault, as are outputs that are never made") {
  Chain c = chain();
  c.graph().remove_node(c.first);
  check_fault(c.module, "reads \"a\" before it is made");
  Chain d = chain();
  d.graph().remove_node(d.second);
  check_fault(d.module, "output \"y\" is never made");
}

TEST_CASE("ids out of range are a fault wherever they stand") {
  Chain c = chain();
  c.graph().set_input(c.second, 0, ValueId{99});
  check_fault(c.module, "node \"second\" reads a value that does not exist");
  Chain d = chain();
  d.graph().add_output(ValueId{99});
  check_fault(d.module, "an output does not exist");
  Chain e = chain();
  e.graph().change_node(e.second, [](Node& node) { node.outputs.push_back(ValueId{99}); });
  check_fault(e.module, "node \"second\" makes a value that does not exist");
}

TEST_CASE("node names are unique and not empty, values are named") {
  Chain c = chain();
  c.graph().change_node(c.second, [](Node& node) { node.name = "first"; });
  check_fault(c.module, "\"first\" is empty or used twice");
  Chain d = chain();
  d.graph().change_node(d.first, [](Node& node) { node.name.clear(); });
  check_fault(d.module, "\"\" is empty or used twice");
  Chain e = chain();
  e.graph().value(e.a).name.clear();
  check_fault(e.module, "a value has no name");
}

TEST_CASE("an output that names another producer, or two producers of one value, are a fault") {
  Chain c = chain();
  c.graph().value(c.a).producer = c.second;
  check_fault(c.module, "output \"a\" does not name its producer \"first\"");
  Chain d = chain();
  d.graph().change_node(d.second, [&d](Node& node) { node.outputs = {d.a}; });
  check_fault(d.module, "output \"a\" does not name its producer \"second\"");
}

TEST_CASE("types must be possible") {
  Chain c = chain();
  c.graph().value(c.a).type.shape = {-1};
  check_fault(c.module, "value \"a\" has a negative dim");
  Chain d = chain();
  d.graph().value(d.x).type.shape = Shape(9, 1);
  check_fault(d.module, "value \"x\" has rank above 8");
}

TEST_CASE("leaves must name a weight or state of their type") {
  Chain c = chain();
  const ValueId w = value(c.graph(), "w", ValueOrigin::Weight);
  check_fault(c.module, "value \"w\" names no weight");
  c.graph().value(w).weight =
      c.module.add_weight({.name = "w", .type = vector_type(3), .data = SplatData{1}});
  check_fault(c.module, "value \"w\" and its weight differ in type");
  c.module.weights[0].type = vector_type(2);
  CHECK_FALSE(find_fault(c.module).has_value());
  const ValueId s = value(c.graph(), "s", ValueOrigin::State);
  check_fault(c.module, "value \"s\" names no state");
  c.graph().value(s).state = StateId{0};
  c.module.states.push_back({.name = "s", .type = kType, .init = {}});
  check_fault(c.module, "value \"s\" and its state differ in type");
}

TEST_CASE("a node can be put before another and removed") {
  Chain c = chain();
  Graph& graph = c.graph();
  const ValueId b = value(graph, "b");
  const NodeId middle = graph.insert_node_before(c.second, node("middle", {c.a}, {b}));
  graph.set_input(c.second, 0, b);
  CHECK(graph.order() == std::vector<NodeId>{c.first, middle, c.second});
  CHECK_FALSE(find_fault(c.module).has_value());
  graph.replace_uses(b, c.a);
  graph.remove_node(middle);
  CHECK(graph.node(c.second).inputs[0] == c.a);
  CHECK_FALSE(find_fault(c.module).has_value());
  CHECK_THROWS_AS(graph.insert_node_before(middle, node("late", {c.a}, {})), InternalError);
}

TEST_CASE("replace_uses reaches every reader and every output") {
  Chain c = chain();
  Graph& graph = c.graph();
  graph.change_node(c.second, [&c](Node& node) { node.inputs = {c.a, std::nullopt, c.a}; });
  graph.set_outputs({c.a, c.y, c.a});
  CHECK(graph.readers(c.a) == std::vector<NodeId>{c.second, c.second});
  graph.replace_uses(c.a, c.x);
  CHECK(graph.readers(c.a).empty());
  CHECK(graph.readers(c.x) == std::vector<NodeId>{c.first, c.second, c.second});
  CHECK(graph.outputs() == std::vector<ValueId>{c.x, c.y, c.x});
  CHECK(graph.is_output(c.x));
  CHECK_FALSE(graph.is_output(c.a));
}

TEST_CASE("fresh names differ from all values and nodes; a weight has one value per entry") {
  Chain c = chain();
  Graph& graph = c.graph();
  CHECK(graph.fresh_name("new") == "new");
  CHECK(graph.fresh_name("a") == "a.1");
  CHECK(graph.fresh_name("first") == "first.1");
  const WeightId weight =
      c.module.add_weight({.name = "w", .type = vector_type(2), .data = SplatData{1}});
  const ValueId stands = graph.weight_value(weight, c.module.weight(weight));
  CHECK(graph.weight_value(weight, c.module.weight(weight)) == stands);
}

TEST_CASE("many fresh names of one stem are numbered on") {
  Chain c = chain();
  Graph& graph = c.graph();
  for (int i = 0; i < 1000; ++i) value(graph, graph.fresh_name("s"));
  CHECK(graph.fresh_name("s") == "s.1000");
  value(graph, "s.1000");
  CHECK(graph.fresh_name("s") == "s.1001");
  CHECK(graph.fresh_name("s.1000") == "s.1000.1");
}

TEST_CASE("readers and order follow any edits") {
  std::mt19937 random(5);  // NOLINT: the same edits in every run
  Module module{
      .name = "m", .producer = "", .symbols = {}, .weights = {}, .states = {}, .entries = {}};
  Graph& graph = module.entries.emplace_back();
  std::vector<ValueId> values = {value(graph, "x", ValueOrigin::Input)};
  std::vector<NodeId> live;  // in order
  const auto any = [&](size_t count) { return random() % count; };
  for (int edit = 0; edit < 3000; ++edit) {
    const uint32_t what = live.size() < 3 ? 0 : random() % 8;
    if (what < 3) {
      const ValueId result = value(graph, graph.fresh_name("v"));
      Node added = node(graph.value(result).name,
                        {values[any(values.size())], values[any(values.size())]}, {result});
      if (what == 0 || live.empty()) {
        live.push_back(graph.add_node(std::move(added)));
      } else {
        // Often before the same node, so that labels run out between two neighbours.
        const size_t place = what == 1 ? any(live.size()) : live.size() / 2;
        const NodeId id = graph.insert_node_before(live[place], std::move(added));
        live.insert(live.begin() + static_cast<std::ptrdiff_t>(place), id);
      }
      values.push_back(result);
    } else if (what == 3) {
      const size_t place = any(live.size());
      graph.remove_node(live[place]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(place));
    } else if (what == 4) {
      graph.replace_uses(values[any(values.size())], values[any(values.size())]);
    } else if (what == 5) {
      graph.set_input(live[any(live.size())], 1, values[any(values.size())]);
    } else if (what == 6) {
      graph.add_output(values[any(values.size())]);
    } else {
      const NodeId moved = live[0];
      const size_t place = 1 + any(live.size() - 1);
      graph.move_behind(live[place], moved);
      live.insert(live.begin() + static_cast<std::ptrdiff_t>(place) + 1, moved);
      live.erase(live.begin());
    }
  }
  CHECK(graph.order() == live);
  CHECK_FALSE(graph.find_index_fault().has_value());
  for (const ValueId id : values) {
    std::vector<NodeId> readers;
    for (const NodeId reader : live) {
      for (const auto& input : graph.node(reader).inputs) {
        if (input == id) readers.push_back(reader);
      }
    }
    REQUIRE(graph.readers(id) == readers);
    REQUIRE(graph.reader_count(id) == readers.size());
    const auto& outputs = graph.outputs();
    REQUIRE(graph.is_output(id) ==
            (std::find(outputs.begin(), outputs.end(), id) != outputs.end()));
  }
  for (size_t i = 1; i < live.size(); ++i) REQUIRE(graph.runs_before(live[i - 1], live[i]));
}

TEST_CASE("the text says every node, and equal modules have equal texts") {
  Chain c = chain();
  c.graph().change_node(c.first, [](Node& node) {
    node.attributes = {{"alpha", 0.5}, {"mode", std::string("a\"b")}};
  });
  c.module.add_weight({.name = "w", .type = vector_type(2), .data = SplatData{1}});
  const std::string text = R"(module m
param w : f32[2] = splat 1.0
entry main(x : f32[2])
  a : f32[2] = neg(x) {alpha=0.5, mode="a\"b"} "first"
  y : f32[2] = neg(a) "second"
  return (y)
)";
  CHECK(print(c.module) == text);
  const Module copy = c.module;
  CHECK(print(copy) == text);
}

TEST_CASE("region steps are printed with their operands and dtypes") {
  Chain c = chain();
  c.graph().change_node(c.second, [](Node& node) {
    node.op = "ew_region";
    node.region = {{.op = "exp", .attributes = {}, .operands = {0}, .dtype = DType::f32},
                   {.op = "mul", .attributes = {}, .operands = {1, 0}, .dtype = DType::f16}};
  });
  const std::string text = print(c.module);
  CHECK(text.find("    step 1 = exp(0) : f32\n    step 2 = mul(1, 0) : f16\n") !=
        std::string::npos);
}

TEST_CASE("attribute values read as in JSON, reals recognisable and exact") {
  CHECK(to_string(AttributeValue(int64_t{-3})) == "-3");
  CHECK(to_string(AttributeValue(3.0)) == "3.0");
  CHECK(to_string(AttributeValue(-0.0)) == "-0.0");
  CHECK(to_string(AttributeValue(0.1)) == "0.1");
  CHECK(to_string(AttributeValue(1e-5)) == "1e-05");
  CHECK(to_string(AttributeValue(std::numeric_limits<double>::infinity())) == "\"inf\"");
  CHECK(to_string(AttributeValue(-std::numeric_limits<double>::infinity())) == "\"-inf\"");
  CHECK(to_string(AttributeValue(std::numeric_limits<double>::quiet_NaN())) == "\"nan\"");
  CHECK(to_string(AttributeValue(true)) == "true");
  CHECK(to_string(AttributeValue(std::string("a\\b"))) == "\"a\\\\b\"");
  CHECK(to_string(AttributeValue(Ints{})) == "[]");
  CHECK(to_string(AttributeValue(Ints{1, -2})) == "[1, -2]");
  CHECK(to_string(AttributeValue(Floats{1, 0.5})) == "[1.0, 0.5]");
  CHECK(to_string(AttributeValue(Strings{"a", "b"})) == "[\"a\", \"b\"]");
}

}  // namespace rlx::test
