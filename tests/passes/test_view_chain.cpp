// SPDX-License-Identifier: Apache-2.0
// Chains of views as few views, and products of turned lines as products of lines as they stand.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

// x of a shape, through views, each of the one before it, to y.
struct ViewText {
  std::string op;
  std::string attributes;
};
ViewText to_shape(const std::string& shape) {
  return {.op = "reshape", .attributes = R"("shape": )" + shape};
}
ViewText turned(const std::string& perm) {
  return {.op = "transpose", .attributes = R"("perm": )" + perm};
}
ViewText part_of_axis(int axis, int start, int count) {
  return {.op = "narrow",
          .attributes = R"("axis": )" + std::to_string(axis) + R"(, "start": )" +
                        std::to_string(start) + R"(, "len": )" + std::to_string(count)};
}

std::string views_text(const std::string& x, const std::string& y,
                       const std::vector<ViewText>& views) {
  std::string text;
  for (size_t i = 0; i < views.size(); ++i) {
    const auto name = [&](size_t at) { return at == 0 ? x : y + "_" + std::to_string(at); };
    if (i > 0) text += ", ";
    text += op_text(views[i].op, '"' + name(i) + '"', i + 1 == views.size() ? y : name(i + 1),
                    views[i].attributes);
  }
  return text;
}

Module views_module(const std::string& inputs, const std::string& nodes,
                    const std::string& outputs = R"(["y"])") {
  Diagnostics diagnostics;
  const auto source = read_json_graph(
      R"({"rlx_graph": 1, "symbols": [{"name": "seq", "min": 1, "max": 8}], "inputs": [)" + inputs +
          R"(], "nodes": [)" + nodes + R"(], "outputs": )" + outputs + "}",
      "test.json", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(source.has_value());
  auto module = bind_module(*source, {}, ".", diagnostics, {{"seq", {.minimum = 1, .maximum = 8}}});
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  return std::move(*module);
}

Module chain_module(const std::string& shape, const std::vector<ViewText>& views) {
  return views_module(input_text("x", shape), views_text("x", "y", views));
}

// "op attribute" of the nodes, after canonicalise, which keeps the values.
Lines merged(Module module) {
  apply_keeping_values(canonicalise, module);
  apply(remove_dead, module);
  Lines lines;
  const Graph& graph = module.entries.at(0);
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::string line = node.op;
    for (const auto& [name, value] : node.attributes) line += " " + to_string(value);
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("heads that were merged with the batch are split from the source's dims") {
  CHECK(merged(chain_module("[5, 2, 12]", {to_shape("[5, 6, 4]"), turned("[1, 0, 2]"),
                                           to_shape("[2, 3, 5, 4]")})) ==
        Lines{"reshape [5, 2, 3, 4]", "transpose [1, 2, 0, 3]"});
}

TEST_CASE("a part of an axis in the middle of a chain is a part of the source") {
  CHECK(merged(chain_module(
            "[5, 2, 36]", {to_shape("[1, 5, 2, 3, 12]"), turned("[3, 1, 2, 0, 4]"),
                           to_shape("[3, 5, 2, 12]"), part_of_axis(0, 1, 1), to_shape("[5, 6, 4]"),
                           turned("[1, 0, 2]"), to_shape("[2, 3, 5, 4]")})) ==
        Lines{"narrow 2 12 12", "reshape [5, 2, 3, 4]", "transpose [1, 2, 0, 3]"});
}

TEST_CASE("a chain that comes back to its source goes") {
  CHECK(merged(chain_module("[2, 12, 5]", {to_shape("[2, 3, 4, 5]"), turned("[0, 3, 1, 2]"),
                                           to_shape("[2, 5, 12]"), turned("[0, 2, 1]")}))
            .empty());
}

TEST_CASE("sizes of 1 stand where they save a reshape") {
  CHECK(merged(chain_module("[5, 1, 12]", {to_shape("[5, 3, 4]"), turned("[1, 0, 2]"),
                                           to_shape("[1, 3, 5, 4]")})) ==
        Lines{"reshape [1, 5, 3, 4]", "transpose [0, 2, 1, 3]"});
  CHECK(merged(chain_module("[5, 1, 12]", {turned("[0, 2, 1]"), to_shape("[5, 12]"),
                                           turned("[1, 0]"), to_shape("[12, 5, 1]")})) ==
        Lines{"transpose [2, 0, 1]"});
}

TEST_CASE("free sizes are factors as others are") {
  Module module = chain_module(
      R"(["seq", 2, 12])",
      {to_shape(R"(["seq", 6, 4])"), turned("[1, 0, 2]"), to_shape(R"([2, 3, "seq", 4])")});
  apply(canonicalise, module);
  apply(remove_dead, module);
  CHECK(node_lines(module).size() == 2);
  CHECK(attribute_of<Ints>(only_node(module, "transpose"), "perm") == Ints{1, 2, 0, 3});
}

TEST_CASE("views that take no whole factors, or that others read as a copy, stay") {
  const auto stays = [](Module module) { check_stays(canonicalise, std::move(module)); };
  // 3 x 4 as 4 x 3 has no factors of both.
  stays(
      chain_module("[3, 4, 5]", {turned("[1, 0, 2]"), to_shape("[3, 4, 5]"), turned("[1, 0, 2]")}));
  // A part of merged dims.
  stays(chain_module("[3, 4, 5]", {turned("[1, 0, 2]"), to_shape("[12, 5]"), part_of_axis(0, 1, 4),
                                   turned("[1, 0]")}));
  // Two readers of one copy would make two of it.
  stays(views_module(input_text("x", "[5, 2, 12]"),
                     views_text("x", "m", {turned("[1, 0, 2]"), to_shape("[10, 12]")}) + ", " +
                         views_text("m", "y", {turned("[1, 0]")}) + ", " +
                         op_text("exp", R"("m")", "z"),
                     R"(["y", "z"])"));
}

// ---- products ----

namespace {

const std::string kProductInputs = input_text("x", "[2, 5, 6]") + ", " + input_text("w", "[6, 4]") +
                                   ", " + input_text("v", "[4, 6]") + ", " +
                                   input_text("b", "[4]") + ", " + input_text("m", "[2, 4]") +
                                   ", " + input_text("z", "[2, 5, 4]");

std::string product_text(const std::string& x, const std::string& y, const char* w = "w") {
  return ", " + op_text("matmul", '"' + x + R"(", ")" + w + '"', y);
}

Module product_module(const std::string& nodes, const std::string& outputs = R"(["y"])") {
  return views_module(kProductInputs, nodes, outputs);
}

}  // namespace

TEST_CASE("a turn before a product vanishes with its inverse behind bias, curve and product") {
  Module module = product_module(
      views_text("x", "t", {turned("[1, 0, 2]")}) + product_text("t", "p") + ", " +
      op_text("add", R"("b", "p")", "q") + ", " + op_text("gelu", R"("q")", "g") + ", " +
      views_text("g", "r", {to_shape("[10, 4]")}) + product_text("r", "s", "v") + ", " +
      views_text("s", "y", {to_shape("[5, 2, 6]"), turned("[1, 0, 2]")}));
  CHECK(apply_keeping_values(straighten_products, module) == 1);
  CHECK(std::count_if(module.entries.at(0).order().begin(), module.entries.at(0).order().end(),
                      [&](NodeId id) { return module.entries.at(0).node(id).op == "transpose"; }) ==
        0);
}

TEST_CASE("a turn behind which views stand meets them, at free sizes too") {
  for (const std::string x : {"x", "f"}) {
    const std::string rows = x == "x" ? "2" : R"("seq")";
    Module module = views_module(
        kProductInputs + ", " + input_text("f", R"(["seq", 5, 6])"),
        views_text(x, "t", {turned("[1, 0, 2]")}) + product_text("t", "p") + ", " +
            views_text("p", "y", {to_shape("[5, " + rows + ", 2, 2]"), turned("[2, 1, 0, 3]")}));
    CHECK(apply(straighten_products, module) == 1);
    const Node& product = only_node(module, "matmul");
    CHECK(module.entries.at(0).value(*product.inputs[0]).name == x);
    CHECK(attribute_of<Ints>(only_node(module, "transpose"), "perm") == Ints{2, 0, 1, 3});
  }
}

TEST_CASE("lines stay turned where their reader would pay for it") {
  const std::string before =
      views_text("x", "t", {turned("[1, 0, 2]")}) + product_text("t", "p") + ", ";
  const auto stays = [](const std::string& nodes, const std::string& outputs = R"(["y"])") {
    check_stays(straighten_products, product_module(nodes, outputs));
  };
  stays(before + op_text("softmax", R"("p")", "y"));
  stays(before + views_text("p", "y", {turned("[1, 0, 2]")}), R"(["y", "p"])");
  // A copy of what needs none.
  stays(before + views_text("p", "q", {to_shape("[10, 4]")}) + ", " +
        op_text("softmax", R"("q")", "y"));
  // Not by line: a matrix is added, or the columns are what is turned.
  stays(before + op_text("add", R"("p", "m")", "q") + ", " + op_text("softmax", R"("q")", "y"));
  stays(views_text("x", "c",
                   {to_shape("[2, 5, 2, 3]"), turned("[0, 1, 3, 2]"), to_shape("[2, 5, 6]")}) +
        product_text("c", "y"));
}

TEST_CASE("activations and residuals behind views of a product stand before them") {
  Module curve =
      product_module(op_text("matmul", R"("x", "w")", "p") + ", " +
                     views_text("p", "u", {turned("[0, 2, 1]"), to_shape("[2, 20]")}) + ", " +
                     op_text("gelu", R"("u")", "g") + ", " + op_text("softmax", R"("g")", "y"));
  CHECK(apply_keeping_values(straighten_products, curve) == 1);
  CHECK(node_lines(curve).at(1).rfind("gelu(p", 0) == 0);
  Module sum = product_module(
      views_text("x", "r", {to_shape("[10, 6]")}) + product_text("r", "p") + ", " +
      op_text("add", R"("p", "b")", "q") + ", " + views_text("q", "u", {to_shape("[2, 5, 4]")}) +
      ", " + op_text("exp", R"("z")", "e") + ", " + op_text("add", R"("e", "u")", "y"));
  CHECK(apply_keeping_values(straighten_products, sum) == 1);
  CHECK(only_node(sum, "exp").op == "exp");
  CHECK(node_lines(sum).back().rfind("reshape(", 0) == 0);
}

TEST_CASE("what others read between, or is no whole view, is not lifted over") {
  const std::string product = op_text("matmul", R"("x", "w")", "p") + ", ";
  const auto stays = [](const std::string& nodes, const std::string& outputs = R"(["y"])") {
    check_stays(straighten_products, product_module(nodes, outputs));
  };
  const std::string view = views_text("p", "u", {to_shape("[10, 4]")}) + ", ";
  stays(product + view + op_text("gelu", R"("u")", "y"), R"(["y", "u"])");
  stays(product + view + op_text("gelu", R"("u")", "y") + ", " + op_text("exp", R"("p")", "e"),
        R"(["y", "e"])");
  stays(product + views_text("p", "u", {part_of_axis(1, 0, 2)}) + ", " +
        op_text("gelu", R"("u")", "y"));
  stays(product + view + op_text("add", R"("u", "b")", "y"));  // a bias is none of the whole
}

}  // namespace rlx::test
