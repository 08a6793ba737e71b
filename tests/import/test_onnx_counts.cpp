// SPDX-License-Identifier: Apache-2.0
// Results as long as the data decide: padded, with a count, and kept apart by what reads them.
#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

// x f32[6]; "kept": the elements of relu(x) that are not zero.
onnx::ModelProto model_of_kept() {
  onnx::ModelProto model = model_with_input({"6"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "zero", {0});
  add_node(graph, "Relu", {"x"}, {"r"});
  add_node(graph, "NonZero", {"r"}, {"places"});
  add_node(graph, "Squeeze", {"places", "zero"}, {"flat"});
  add_node(graph, "Gather", {"r", "flat"}, {"kept"});
  return model;
}

onnx::ModelProto model_with(const std::string& op, const std::vector<std::string>& more = {}) {
  onnx::ModelProto model = model_of_kept();
  onnx::GraphProto& graph = *model.mutable_graph();
  std::vector<std::string> inputs = {"kept"};
  inputs.insert(inputs.end(), more.begin(), more.end());
  add_node(graph, op, inputs, {"y"});
  graph.add_output()->set_name("y");
  return model;
}

const std::vector<double> kInput = {1, -2, 3, -4, 0, 5};

}  // namespace

TEST_CASE("an output that ends early has its count beside it") {
  const SourceGraph graph = read_good(model_with("Neg"));
  CHECK(graph.entries[0].outputs == std::vector<std::string>{"y", "y.count"});
  const auto got = evaluated(graph, {reals(kInput)});
  CHECK(got[0].type.shape == Shape{6});
  CHECK(std::vector(got[0].floats.begin(), got[0].floats.begin() + 3) ==
        std::vector<double>{-1, -3, -5});
  CHECK(got[1].integers[0] == 3);
}

TEST_CASE("a bound below the definition's tells how many rows there were") {
  for (const char* name : {"", "places", "places_node"}) {
    const SourceGraph graph = read_good(model_with("Neg"), {.max_counts = {{name, 2}}});
    CHECK(graph.entries[0].outputs ==
          std::vector<std::string>{"y", "places_node.count", "y.count"});
    const auto got = evaluated(graph, {reals(kInput)});
    CHECK(got[0].floats == std::vector<double>{-1, -3});
    CHECK(got[1].integers[0] == 3);
    CHECK(got[2].integers[0] == 2);
  }
  check_error(read_bad(model_with("Neg"), {.max_counts = {{"r", 2}}}), DiagCode::BadBinding,
              "--max-count names \"r\"");
}

TEST_CASE("what reads along the axis is given rows that change nothing") {
  const auto value_of = [](const std::string& op) {
    onnx::ModelProto model = model_with(op);
    add_integer(*model.mutable_graph()->mutable_node()->rbegin(), "keepdims", 0);
    const SourceGraph graph = read_good(model);
    CHECK(graph.entries[0].outputs.size() == 1);
    return evaluated(graph, {reals(kInput)})[0];
  };
  CHECK(value_of("ReduceSum").floats == std::vector<double>{9});
  CHECK(value_of("ReduceMean").floats == std::vector<double>{3});
  CHECK(value_of("ReduceMax").floats == std::vector<double>{5});
  CHECK(value_of("ReduceMin").floats == std::vector<double>{1});
  CHECK(value_of("ReduceProd").floats == std::vector<double>{15});
  CHECK(value_of("ArgMax").integers == std::vector<int64_t>{2});
}

TEST_CASE("a mean of no rows that count is 0, one of some rows is not bent") {
  onnx::ModelProto model = model_with("ReduceMean");
  add_integer(*model.mutable_graph()->mutable_node()->rbegin(), "keepdims", 0);
  const SourceGraph graph = read_good(model);
  CHECK(evaluated(graph, {reals({-1, -2, 0, -3, -5, 0})})[0].floats == std::vector<double>{0});
  CHECK(evaluated(graph, {reals({-1, -2, 0, 7, -5, 0})})[0].floats == std::vector<double>{7});
}

TEST_CASE("a shape that depends on a count makes results that end early") {
  onnx::ModelProto model = model_of_kept();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "two", {2});
  add_node(graph, "Shape", {"kept"}, {"n"});
  add_node(graph, "Min", {"n", "two"}, {"k"});
  add_node(graph, "TopK", {"kept", "k"}, {"best", "at"});
  add_node(graph, "Slice", {"kept", "zero", "k"}, {"first"});
  add_node(graph, "ConstantOfShape", {"n"}, {"zeros"});
  add_node(graph, "Concat", {"kept", "best"}, {"both"});
  add_integer(*graph.mutable_node()->rbegin(), "axis", 0);
  for (const char* name : {"n", "best", "first", "zeros", "both"})
    graph.add_output()->set_name(name);
  const SourceGraph source = read_good(model);
  const auto got = evaluated(source, {reals(kInput)});
  const auto rows = [&](size_t output, size_t count) {
    const std::vector<double>& all = got[output].floats;
    return std::vector(all.begin(), all.begin() + static_cast<ptrdiff_t>(count));
  };
  CHECK(got[0].integers[0] == 3);
  CHECK(rows(1, 2) == std::vector<double>{5, 3});
  CHECK(rows(2, 2) == std::vector<double>{1, 3});
  CHECK(rows(3, 3) == std::vector<double>{0, 0, 0});
  CHECK(rows(4, 5) == std::vector<double>{1, 3, 5, 5, 3});
  // The counts of best, first, zeros and both.
  for (size_t i = 0; i < 4; ++i)
    CHECK(got[5 + i].integers[0] == std::vector<int64_t>{2, 2, 3, 5}[i]);
}

TEST_CASE("a scatter drops rows that do not count") {
  onnx::ModelProto model = model_of_kept();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_node(graph, "ScatterElements", {"x", "flat", "kept"}, {"y"});
  graph.add_output()->set_name("y");
  CHECK(evaluated(read_good(model), {reals({7, -1, 2, -3, 0, -9})})[0].floats ==
        std::vector<double>{7, -1, 2, -3, 0, -9});
}

TEST_CASE("a size that is cut out of a shape is the count, and other sizes of it are known") {
  // As masked_scatter is written: as many updates as there are places.
  onnx::ModelProto model = model_of_kept();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "one", {1});
  add_node(graph, "Transpose", {"places"}, {"index"});
  add_node(graph, "Shape", {"index"}, {"dims"});
  add_node(graph, "Gather", {"dims", "zero"}, {"found"});
  add_node(graph, "Slice", {"x", "zero", "found"}, {"updates"});
  add_node(graph, "ScatterND", {"r", "index", "updates"}, {"y"});
  // The other size of the shape is 1 whatever counts.
  add_node(graph, "Gather", {"dims", "one"}, {"width"});
  add_node(graph, "Expand", {"x", "width"}, {"z"});
  for (const char* name : {"y", "z"}) graph.add_output()->set_name(name);
  const SourceGraph source = read_good(model);
  CHECK(source.entries[0].outputs == std::vector<std::string>{"y", "z"});
  CHECK(evaluated(source, {reals(kInput)})[0].floats == std::vector<double>{1, 0, -2, 0, 0, 3});
}

TEST_CASE("rows that are known to follow each other are put in the place of others") {
  const auto with = [](const std::vector<int64_t>& places) {
    onnx::ModelProto model = model_with_input({"6"});
    onnx::GraphProto& graph = *model.mutable_graph();
    add_integers(graph, "places", places);
    auto& index = *graph.mutable_initializer()->rbegin();
    index.add_dims(1);
    add_integers(graph, "rows", std::vector<int64_t>(places.size(), 0));
    add_node(graph, "Gather", {"x", "rows"}, {"updates"});
    add_node(graph, "ScatterND", {"x", "places", "updates"}, {"y"});
    graph.add_output()->set_name("y");
    return model;
  };
  const SourceGraph inside = read_good(with({2, 3}));
  CHECK(ops_of(inside) == "gather narrow narrow concat");
  CHECK(evaluated(inside, {reals(kInput)})[0].floats == std::vector<double>{1, -2, 1, 1, 0, 5});
  CHECK(ops_of(read_good(with({0, 1, 2, 3, 4, 5}))) == "gather identity");
  for (const std::vector<int64_t>& places : {std::vector<int64_t>{3, 2}, {2, 4}, {-2, -1}})
    CHECK(ops_of(read_good(with(places))) == "gather scatter_nd");
}

TEST_CASE("rows that end early are scattered into") {
  onnx::ModelProto model = model_of_kept();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_node(graph, "Shape", {"kept"}, {"dims"});
  add_node(graph, "Squeeze", {"dims"}, {"count"});
  add_integers(graph, "step", {1});
  for (const char* name : {"zero", "step"})
    add_node(graph, "Squeeze", {name}, {std::string(name) + "_number"});
  add_node(graph, "Range", {"zero_number", "count", "step_number"}, {"index"});
  add_node(graph, "Neg", {"kept"}, {"negative"});
  add_node(graph, "Abs", {"kept"}, {"rows"});
  add_node(graph, "ScatterElements", {"rows", "index", "negative"}, {"y"});
  graph.add_output()->set_name("y");
  const auto got = evaluated(read_good(model), {reals(kInput)});
  CHECK(std::vector(got[0].floats.begin(), got[0].floats.begin() + 3) ==
        std::vector<double>{-1, -3, -5});
  CHECK(got[1].integers[0] == 3);
}

TEST_CASE("what would read rows that do not count is refused with its node") {
  onnx::ModelProto model = model_of_kept();
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "last", {-1});
  add_node(graph, "Gather", {"kept", "last"}, {"y"});
  graph.add_output()->set_name("y");
  check_error(read_bad(model), DiagCode::UnsupportedOp, "counts from the end");
  // Two lists of different lengths.
  onnx::ModelProto other = model_of_kept();
  onnx::GraphProto& nodes = *other.mutable_graph();
  add_node(nodes, "NonZero", {"x"}, {"places2"});
  add_node(nodes, "Squeeze", {"places2", "zero"}, {"flat2"});
  add_node(nodes, "Add", {"flat", "flat2"}, {"y"});
  nodes.add_output()->set_name("y");
  check_error(read_bad(other), DiagCode::UnsupportedOp, "apart for two of its inputs");
  // The same list, found twice.
  onnx::ModelProto twice = model_of_kept();
  onnx::GraphProto& again = *twice.mutable_graph();
  add_node(again, "NonZero", {"r"}, {"places2"});
  add_node(again, "Squeeze", {"places2", "zero"}, {"flat2"});
  add_node(again, "Add", {"flat", "flat2"}, {"y"});
  again.add_output()->set_name("y");
  CHECK(evaluated(read_good(twice), {reals(kInput)})[1].integers[0] == 3);
}

}  // namespace rlx::test
