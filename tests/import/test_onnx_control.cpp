// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan of ONNX: what is known is put in place, the rest are nodes with bodies, which
// mean what ONNX means.
#include <functional>

#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

void add_input(onnx::GraphProto& graph, const std::string& name, int32_t type,
               const std::vector<int64_t>& dims) {
  onnx::ValueInfoProto& input = *graph.add_input();
  input.set_name(name);
  auto& tensor = *input.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape();
  for (const int64_t dim : dims) tensor.mutable_shape()->add_dim()->set_dim_value(dim);
}

void add_scalar(onnx::GraphProto& graph, const std::string& name, int64_t value) {
  add_integers(graph, name, {value});
  graph.mutable_initializer()->rbegin()->clear_dims();
}

Tensor integer(DType dtype, int64_t value) {
  Tensor result = Tensor::zeros({dtype, {}});
  result.integers = {value};
  return result;
}

// x f32[2], sr i64[]: sr == 16000 ? x + x : -x.
onnx::ModelProto model_with_if() {
  onnx::ModelProto model = model_with_input({"2"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_input(graph, "sr", onnx::TensorProto::INT64, {});
  add_scalar(graph, "rate", 16000);
  add_node(graph, "Equal", {"sr", "rate"}, {"is"});
  onnx::NodeProto& node = add_node(graph, "If", {"is"}, {"y"});
  onnx::GraphProto& taken = add_graph(node, "then_branch");
  add_node(taken, "Add", {"x", "x"}, {"a"});
  taken.add_output()->set_name("a");
  onnx::GraphProto& other = add_graph(node, "else_branch");
  add_node(other, "Neg", {"x"}, {"a"});
  other.add_output()->set_name("a");
  graph.add_output()->set_name("y");
  return model;
}

// Carries v f32[2], begins with x: v + v, row v; for "m" trips and while v[0] < "limit", as asked.
onnx::ModelProto model_with_loop(const std::string& trips) {
  onnx::ModelProto model = model_with_input({"2"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_input(graph, "m", onnx::TensorProto::INT64, {});
  add_scalar(graph, "three", 3);
  onnx::NodeProto& node = add_node(graph, "Loop", {trips, "", "x"}, {"v", "rows"});
  onnx::GraphProto& body = add_graph(node, "body");
  add_input(body, "i", onnx::TensorProto::INT64, {});
  add_input(body, "go", onnx::TensorProto::BOOL, {});
  add_input(body, "v0", onnx::TensorProto::FLOAT, {2});
  add_node(body, "Identity", {"go"}, {"on"});
  add_node(body, "Add", {"v0", "v0"}, {"v1"});
  for (const char* name : {"on", "v1", "v0"}) body.add_output()->set_name(name);
  for (const char* name : {"v", "rows"}) graph.add_output()->set_name(name);
  return model;
}

}  // namespace

TEST_CASE("an If whose condition the run knows is a node, one that is known its branch") {
  CHECK(ops_of(read_good(model_with_if(), {.fixed_inputs = {{"sr", "16000"}}})) == "add");
  const SourceGraph graph = read_good(model_with_if());
  CHECK(ops_of(graph) == "eq if");
  CHECK(evaluated(graph, {reals({1, 2}), integer(DType::i64, 16000)})[0].floats ==
        std::vector<double>{2, 4});
  CHECK(evaluated(graph, {reals({1, 2}), integer(DType::i64, 8000)})[0].floats ==
        std::vector<double>{-1, -2});
}

TEST_CASE("an If one of whose branches cannot be at these sizes is a node that asserts so") {
  onnx::ModelProto model = model_with_if();
  onnx::GraphProto& taken =
      *model.mutable_graph()->mutable_node(1)->mutable_attribute(0)->mutable_g();
  taken.clear_node();
  SECTION("as the op that it becomes") {
    add_integers(taken, "five", {5});
    add_node(taken, "Reshape", {"x", "five"}, {"a"});
  }
  SECTION("as its own operator") {
    add_node(taken, "LSTM", {"x", "x", "x"}, {"a"});
  }
  Diagnostics diagnostics;
  const auto graph = read(model, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(graph.has_value());
  CHECK(diagnostics.text().find("branch \"then\" cannot be at these sizes and is left out") !=
        std::string::npos);
  CHECK(ops_of(*graph) == "eq if");
  CHECK(graph->entries[0].nodes[1].bodies[0].nodes[0].op == "assert");
  CHECK(evaluated(*graph, {reals({1, 2}), integer(DType::i64, 8000)})[0].floats ==
        std::vector<double>{-1, -2});
}

TEST_CASE("of branches that cannot be the shapes of one alone are excused") {
  onnx::ModelProto model = model_with_if();
  onnx::NodeProto& node = *model.mutable_graph()->mutable_node(1);
  onnx::GraphProto& taken = *node.mutable_attribute(0)->mutable_g();
  taken.clear_node();
  SECTION("an operator that there is not") {
    add_node(taken, "Nagate", {"x"}, {"a"});
    CHECK(read_bad(model).text().find("[unsupported-op]") != std::string::npos);
  }
  SECTION("an attribute that it does not have") {
    add_integer(add_node(taken, "Neg", {"x"}, {"a"}), "axis", 1);
    CHECK(read_bad(model).text().find("attribute \"axis\"") != std::string::npos);
  }
  SECTION("both branches") {
    onnx::GraphProto& other = *node.mutable_attribute(1)->mutable_g();
    other.clear_node();
    for (onnx::GraphProto* graph : {&taken, &other}) {
      add_integers(*graph, "five", {5});
      add_node(*graph, "Reshape", {"x", "five"}, {"a"});
    }
    // And the condition, which would leave one out.
    CHECK(read_bad(model).error_count() == 3);
  }
}

TEST_CASE("a Loop whose count is known is put in place") {
  const SourceGraph graph = read_good(model_with_loop("three"));
  CHECK(ops_of(graph).find("loop") == std::string::npos);
  const auto got = evaluated(graph, {reals({1, 2}), integer(DType::i64, 0)});
  CHECK(got[0].floats == std::vector<double>{8, 16});
  CHECK(got[1].type.shape == Shape{3, 2});
  CHECK(got[1].floats == std::vector<double>{1, 2, 2, 4, 4, 8});
}

TEST_CASE("a Loop whose count the run knows is padded, and says how many rows count") {
  const SourceGraph graph = read_good(model_with_loop("m"), {.max_iterations = 4});
  CHECK(ops_of(graph) == "loop");
  CHECK(graph.entries[0].outputs == std::vector<std::string>{"v", "rows", "v_node.count"});
  const auto got = evaluated(graph, {reals({1, 2}), integer(DType::i64, 2)});
  CHECK(got[0].floats == std::vector<double>{4, 8});
  CHECK(got[1].floats == std::vector<double>{1, 2, 2, 4, 0, 0, 0, 0});
  CHECK(got[2].integers[0] == 2);
  check_error(read_bad(model_with_loop("m")), DiagCode::UnsupportedOp, "--max-iterations N");
}

TEST_CASE(
    "sequences are names of tensors while a model is read, in loops that are put in place too") {
  // Rows of x, each doubled, joined: in two trips of a loop that carries the sequence.
  onnx::ModelProto model = model_with_input({"2", "3"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_scalar(graph, "two", 2);
  add_node(graph, "SequenceEmpty", {}, {"none"});
  add_node(graph, "SplitToSequence", {"x"}, {"parts"});
  onnx::NodeProto& node = add_node(graph, "Loop", {"two", "", "none"}, {"all"});
  onnx::GraphProto& body = add_graph(node, "body");
  add_input(body, "i", onnx::TensorProto::INT64, {});
  add_input(body, "go", onnx::TensorProto::BOOL, {});
  body.add_input()->set_name("so_far");
  body.mutable_input(2)->mutable_type()->mutable_sequence_type();
  add_node(body, "SequenceAt", {"parts", "i"}, {"part"});
  add_node(body, "Add", {"part", "part"}, {"twice"});
  add_node(body, "SequenceInsert", {"so_far", "twice"}, {"more"});
  for (const char* name : {"go", "more"}) body.add_output()->set_name(name);
  add_scalar(graph, "first", 0);
  add_node(graph, "SequenceErase", {"all", "first"}, {"rest"});
  add_node(graph, "SequenceConstruct", {"x", "x"}, {"pair"});
  add_node(graph, "Identity", {"pair"}, {"same"});
  add_integer(add_node(graph, "ConcatFromSequence", {"all"}, {"y"}), "axis", 0);
  add_integer(add_node(graph, "ConcatFromSequence", {"rest"}, {"z"}), "axis", 0);
  onnx::NodeProto& stacked = add_node(graph, "ConcatFromSequence", {"same"}, {"s"});
  add_integer(stacked, "axis", 0);
  add_integer(stacked, "new_axis", 1);
  add_node(graph, "SequenceLength", {"all"}, {"n"});
  for (const char* name : {"y", "z", "s", "n"}) graph.add_output()->set_name(name);
  Tensor x = reals({1, 2, 3, 4, 5, 6});
  x.type.shape = {2, 3};
  const auto got = evaluated(read_good(model), {x});
  CHECK(got[0].floats == std::vector<double>{2, 4, 6, 8, 10, 12});
  CHECK(got[1].floats == std::vector<double>{8, 10, 12});
  CHECK(got[2].type.shape == Shape{2, 2, 3});
  CHECK(got[3].integers == std::vector<int64_t>{2});
}

TEST_CASE("a SequenceMap puts its graph for each element") {
  onnx::ModelProto model = model_with_input({"2", "3"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_node(graph, "SplitToSequence", {"x"}, {"rows"});
  add_node(graph, "SequenceConstruct", {"x", "x", "x"}, {"three"});
  onnx::NodeProto& node = add_node(graph, "SequenceMap", {"rows", "x"}, {"sums"});
  node.add_output("turned");
  onnx::GraphProto& body = add_graph(node, "body");
  for (const char* name : {"row", "all"}) body.add_input()->set_name(name);
  add_node(body, "Add", {"row", "all"}, {"sum"});
  add_node(body, "Neg", {"row"}, {"negative"});
  for (const char* name : {"sum", "negative"}) body.add_output()->set_name(name);
  for (const auto& [list, y] : {std::pair("sums", "y"), std::pair("turned", "z")}) {
    add_integer(add_node(graph, "ConcatFromSequence", {list}, {y}), "axis", 0);
    graph.add_output()->set_name(y);
  }
  Tensor x = reals({1, 2, 3, 4, 5, 6});
  x.type.shape = {2, 3};
  const auto got = evaluated(read_good(model), {x});
  CHECK(got[0].floats == std::vector<double>{2, 4, 6, 5, 7, 9, 5, 7, 9, 8, 10, 12});
  CHECK(got[1].floats == std::vector<double>{-1, -2, -3, -4, -5, -6});
  node.set_input(1, "three");
  check_error(read_bad(model), DiagCode::UnsupportedOp, "input 1 has 3 elements, the first 2");
}

TEST_CASE("a sequence where a tensor is wanted, and a place outside it, are refused") {
  const auto with = [](const std::string& op, const std::vector<std::string>& inputs) {
    onnx::ModelProto model = model_with_input({"2"});
    onnx::GraphProto& graph = *model.mutable_graph();
    add_scalar(graph, "two", 2);
    add_node(graph, "SequenceConstruct", {"x", "x"}, {"pair"});
    add_node(graph, op, inputs, {"y"});
    graph.add_output()->set_name("y");
    return model;
  };
  check_error(read_bad(with("Relu", {"pair"})), DiagCode::UnsupportedOp,
              "input 0 is a sequence, wanted a tensor");
  check_error(read_bad(with("Identity", {"pair"})), DiagCode::UnsupportedOp,
              "output \"y\" is a sequence");
  check_error(read_bad(with("SequenceLength", {"x"})), DiagCode::UnsupportedOp,
              "input 0 is a tensor, wanted a sequence");
  check_error(read_bad(with("SequenceAt", {"pair", "two"})), DiagCode::UnsupportedOp,
              "place 2 lies outside a sequence of 2 elements");
}

TEST_CASE("a Slice whose bounds the run gives is as long as it may be, with a count") {
  const auto with = [](bool is_window) {
    onnx::ModelProto model = model_with_input({"5"});
    onnx::GraphProto& graph = *model.mutable_graph();
    add_input(graph, "from", onnx::TensorProto::INT64, {1});
    add_integers(graph, "two", {2});
    if (is_window) add_node(graph, "Add", {"from", "two"}, {"to"});
    if (!is_window) add_input(graph, "to", onnx::TensorProto::INT64, {1});
    add_node(graph, "Slice", {"x", "from", "to"}, {"y"});
    add_node(graph, "ReduceSum", {"y"}, {"sum"});
    for (const char* name : {"y", "sum"}) graph.add_output()->set_name(name);
    return model;
  };
  const Tensor x = reals({1, 2, 4, 8, 16});
  const auto number = [](int64_t value) {
    Tensor result = integer(DType::i64, value);
    result.type.shape = {1};
    return result;
  };
  const SourceGraph graph = read_good(with(false));
  CHECK(graph.entries[0].outputs == std::vector<std::string>{"y", "sum", "y.count"});
  struct Row {
    int64_t from, to, count;
    double sum;
  };
  for (const Row& row : {Row{1, 3, 2, 6}, Row{-2, 100, 2, 24}, Row{3, 3, 0, 0}, Row{4, 1, 0, 0},
                         Row{0, -1, 4, 15}, Row{-100, 100, 5, 31}}) {
    const auto got = evaluated(graph, {x, number(row.from), number(row.to)});
    CHECK(got[0].type.shape == Shape{5});
    CHECK(got[1].floats[0] == row.sum);
    CHECK(got[2].integers[0] == row.count);
  }
  // An end that is so far behind its start leaves no more rows.
  const auto got = evaluated(read_good(with(true)), {x, number(4)});
  CHECK(got[0].type.shape == Shape{2});
  CHECK(got[1].floats[0] == 16);
}

TEST_CASE("a Scan walks its inputs in the directions and along the axes that it is given") {
  onnx::ModelProto model = model_with_input({"2", "3"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_input(graph, "c", onnx::TensorProto::FLOAT, {2});
  onnx::NodeProto& node = add_node(graph, "Scan", {"c", "x"}, {"last", "y"});
  add_integer(node, "num_scan_inputs", 1);
  for (const char* name :
       {"scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions"}) {
    onnx::AttributeProto& list = *node.add_attribute();
    list.set_name(name);
    list.set_type(onnx::AttributeProto::INTS);
    list.add_ints(1);
  }
  onnx::GraphProto& body = add_graph(node, "body");
  add_input(body, "c0", onnx::TensorProto::FLOAT, {2});
  add_input(body, "xt", onnx::TensorProto::FLOAT, {2});
  add_node(body, "Add", {"c0", "c0"}, {"twice"});
  add_node(body, "Add", {"twice", "xt"}, {"c1"});
  for (const char* name : {"c1", "c1"}) body.add_output()->set_name(name);
  for (const char* name : {"last", "y"}) graph.add_output()->set_name(name);
  const SourceGraph source = read_good(model);
  CHECK(ops_of(source) == "reverse scan reverse");
  Tensor x = Tensor::zeros({DType::f32, {2, 3}});
  x.floats = {1, 2, 3, 4, 5, 6};
  const auto got = evaluated(source, {x, reals({1, 0})});
  // From the last column to the first; what comes out first stands last.
  CHECK(got[0].floats == std::vector<double>{25, 38});
  CHECK(got[1].floats == std::vector<double>{25, 12, 5, 38, 17, 6});
}

TEST_CASE("an input that becomes a state takes the output of the run before") {
  onnx::ModelProto model = model_with_loop("three");
  ImportOptions options{.states = {{"x", "v"}}};
  Diagnostics diagnostics;
  const auto graph =
      read_graph(bytes_of(model.SerializeAsString()), "m.onnx", diagnostics, options);
  INFO(diagnostics.text());
  REQUIRE(graph.has_value());
  REQUIRE(graph->states.size() == 1);
  CHECK(graph->states[0].name == "x");
  CHECK(graph->entries[0].outputs == std::vector<std::string>{"rows"});
  options.states = {{"x", "nothing"}};
  CHECK_FALSE(read_graph(bytes_of(model.SerializeAsString()), "m.onnx", diagnostics, options));
  check_error(diagnostics, DiagCode::BadBinding, "--state names \"nothing\"");
}

namespace {

// "none", an optional value that holds none, behind an Identity.
onnx::ModelProto model_with_none() {
  onnx::ModelProto model = model_with_input({"2"});
  model.mutable_opset_import(0)->set_version(18);
  onnx::NodeProto& optional = add_node(*model.mutable_graph(), "Optional", {}, {"made"});
  onnx::AttributeProto& type = *optional.add_attribute();
  type.set_name("type");
  type.set_type(onnx::AttributeProto::TYPE_PROTO);
  type.mutable_tp()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  add_node(*model.mutable_graph(), "Identity", {"made"}, {"none"});
  return model;
}

}  // namespace

TEST_CASE("an optional value that holds none decides branches") {
  onnx::ModelProto model = model_with_none();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_node(graph, "OptionalHasElement", {"none"}, {"has_one"});
  onnx::NodeProto& either = add_node(graph, "If", {"has_one"}, {"y"});
  onnx::GraphProto& taken = add_graph(either, "then_branch");
  add_node(taken, "OptionalGetElement", {"none"}, {"element"});
  taken.add_output()->set_name("element");
  onnx::GraphProto& other = add_graph(either, "else_branch");
  add_node(other, "Neg", {"x"}, {"negative"});
  other.add_output()->set_name("negative");
  graph.add_output()->set_name("y");
  CHECK(ops_of(read_good(model)) == "neg");
  // One of an empty list holds one.
  add_node(graph, "SequenceEmpty", {}, {"list"});
  add_node(graph, "Optional", {"list"}, {"some"});
  add_node(graph, "OptionalHasElement", {"some"}, {"has_list"});
  graph.add_output()->set_name("has_list");
  CHECK(evaluated(read_good(model), {reals({1, 2})}).at(1).integers == std::vector<int64_t>{1});
}

TEST_CASE("what an optional value holds that holds none is nothing to read") {
  for (const std::string op : {"OptionalGetElement", "Relu", "SequenceLength"}) {
    INFO(op);
    onnx::ModelProto model = model_with_none();
    add_node(*model.mutable_graph(), op, {"none"}, {"y"});
    model.mutable_graph()->add_output()->set_name("y");
    CHECK(read_bad(model).text().find("input 0 is an optional value that holds none") !=
          std::string::npos);
  }
  onnx::ModelProto given = model_with_none();
  given.mutable_graph()->add_output()->set_name("none");
  CHECK(read_bad(given).text().find("\"none\" is an optional value") != std::string::npos);
  // Branches of which the run decides.
  onnx::ModelProto late = model_with_none();
  onnx::GraphProto& graph = *late.mutable_graph();
  add_tensor<float>(graph, "zero", onnx::TensorProto::FLOAT, {}, {0});
  add_integer(add_node(graph, "ReduceMax", {"x"}, {"most"}), "keepdims", 0);
  add_node(graph, "Greater", {"most", "zero"}, {"chooses"});
  onnx::NodeProto& either = add_node(graph, "If", {"chooses"}, {"chosen"});
  for (const std::string branch : {"then_branch", "else_branch"}) {
    onnx::GraphProto& body = add_graph(either, branch);
    add_node(body, "Identity", {branch == "then_branch" ? "none" : "chooses"}, {branch});
    body.add_output()->set_name(branch);
  }
  add_node(graph, "OptionalHasElement", {"chosen"}, {"y"});
  graph.add_output()->set_name("y");
  CHECK(read_bad(late).text().find("where only the run knows") != std::string::npos);
}

}  // namespace rlx::test
