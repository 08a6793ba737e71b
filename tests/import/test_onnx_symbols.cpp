// SPDX-License-Identifier: Apache-2.0
// ONNX models whose symbols stay open: bound afterwards, they are what binding before makes of
// them.
#ifdef RLX_HAS_ONNX
#include <random>

#include "compiler/reference/evaluate.h"
#include "tests/import/onnx_support.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const OnnxOptions kOpen = {.keep_symbols = true};

onnx::AttributeProto& add_list(onnx::NodeProto& node, const std::string& name,
                               const std::vector<int64_t>& values) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
  return attribute;
}

void add_floats(onnx::GraphProto& graph, const std::string& name, const Shape& shape) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : shape) tensor.add_dims(dim);
  for (int64_t i = 0; i < element_count(shape); ++i)
    tensor.add_float_data(static_cast<float>(i % 7) * 0.25f - 0.75f);
}

// What exporters write for heads of attention over [batch, sequence, 6]: shapes taken apart and put
// together, a table of positions cut to the sequence, a ramp of its length.
onnx::ModelProto encoder() {
  onnx::ModelProto model = model_with_input({"batch", "sequence", "6"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "heads", {2, 3});
  add_integers(graph, "axis", {0});
  add_integers(graph, "one", {1});
  add_floats(graph, "positions", {1, 40, 6});
  graph.add_initializer()->CopyFrom([] {
    onnx::TensorProto scalar;
    scalar.set_name("zero");
    scalar.set_data_type(onnx::TensorProto::INT64);
    scalar.add_int64_data(0);
    return scalar;
  }());
  *graph.add_initializer() = graph.initializer(graph.initializer_size() - 1);
  graph.mutable_initializer(graph.initializer_size() - 1)->set_name("unit");
  graph.mutable_initializer(graph.initializer_size() - 1)->set_int64_data(0, 1);
  add_node(graph, "Shape", {"x"}, {"shape"});
  add_node(graph, "Gather", {"shape", "zero"}, {"b"});
  add_node(graph, "Gather", {"shape", "unit"}, {"s"});
  add_node(graph, "Unsqueeze", {"b", "axis"}, {"b1"});
  add_node(graph, "Unsqueeze", {"s", "axis"}, {"s1"});
  add_node(graph, "Slice", {"positions", "axis", "s1", "one"}, {"p"});
  add_node(graph, "Add", {"x", "p"}, {"h"});
  add_integer(add_node(graph, "Concat", {"b1", "s1", "heads"}, {"split"}), "axis", 0);
  add_node(graph, "Reshape", {"h", "split"}, {"h4"});
  add_list(add_node(graph, "Transpose", {"h4"}, {"q"}), "perm", {0, 2, 1, 3});
  add_list(add_node(graph, "Transpose", {"h4"}, {"k"}), "perm", {0, 2, 3, 1});
  add_node(graph, "MatMul", {"q", "k"}, {"scores"});
  add_node(graph, "Range", {"zero", "s", "unit"}, {"ramp"});
  add_integer(add_node(graph, "Cast", {"ramp"}, {"bias"}), "to", onnx::TensorProto::FLOAT);
  add_node(graph, "Add", {"scores", "bias"}, {"biased"});
  add_node(graph, "Mul", {"b1", "s1"}, {"rows"});
  add_integer(add_node(graph, "Concat", {"rows", "one", "s1"}, {"pieces"}), "axis", 0);
  graph.mutable_node(graph.node_size() - 1)->set_input(1, "heads_1");
  add_integers(graph, "heads_1", {2});
  add_node(graph, "Reshape", {"biased", "pieces"}, {"y"});
  graph.add_output()->set_name("y");
  return model;
}

// A strided convolution and a pool over [n, 2, height, width], resized back to the size of x, and
// all columns of one row in line.
onnx::ModelProto image_network() {
  onnx::ModelProto model = model_with_input({"n", "2", "height", "16"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_floats(graph, "w", {4, 2, 3, 3});
  add_integers(graph, "two", {2});
  add_integers(graph, "zero", {0});
  add_integers(graph, "four", {4});
  onnx::NodeProto& conv = add_node(graph, "Conv", {"x", "w"}, {"c"});
  add_list(conv, "strides", {2, 2});
  add_list(conv, "pads", {1, 1, 1, 1});
  onnx::NodeProto& pool = add_node(graph, "AveragePool", {"c"}, {"p"});
  add_list(pool, "kernel_shape", {2, 2});
  add_list(pool, "strides", {2, 2});
  add_node(graph, "Shape", {"x"}, {"whole"});
  add_node(graph, "Shape", {"p"}, {"part"});
  add_node(graph, "Slice", {"whole", "two", "four"}, {"size"});
  add_node(graph, "Slice", {"part", "zero", "two"}, {"rest"});
  add_integer(add_node(graph, "Concat", {"rest", "size"}, {"sizes"}), "axis", 0);
  add_node(graph, "Resize", {"p", "", "", "sizes"}, {"r"});
  add_integer(add_node(graph, "Flatten", {"p"}, {"f"}), "axis", 3);
  graph.add_output()->set_name("r");
  graph.add_output()->set_name("f");
  return model;
}

std::vector<Tensor> outputs_of(const SourceGraph& graph, const DimBindings& dims) {
  Diagnostics diagnostics;
  const auto module = bind_module(graph, dims, ".", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  const Graph& entry = module->entries.front();
  Tensor x = Tensor::zeros(entry.value(entry.inputs.front()).type);
  std::mt19937 random(3);  // NOLINT: the same numbers in every run
  for (double& value : x.floats) value = static_cast<double>(random() % 64) / 16 - 2;
  StateValues states;
  auto outputs = evaluate_entry(*module, entry, {x}, states, {}, diagnostics);
  REQUIRE(outputs.has_value());
  return *outputs;
}

void check_bindings(const onnx::ModelProto& model, const std::vector<DimBindings>& bindings) {
  const SourceGraph open = read_good(model, kOpen);
  for (const DimBindings& dims : bindings) {
    const std::vector<Tensor> late = outputs_of(open, dims);
    const std::vector<Tensor> early = outputs_of(read_good(model, {.dims = dims}), {});
    REQUIRE(late.size() == early.size());
    for (size_t i = 0; i < late.size(); ++i) {
      CHECK(late[i].type == early[i].type);
      CHECK(late[i].floats == early[i].floats);
    }
  }
}

const SourceAttribute& attribute_of(const SourceGraph& graph, const std::string& output,
                                    const std::string& name) {
  for (const SourceNode& node : graph.entries.front().nodes) {
    if (node.outputs.front() == output) return node.attributes.at(name);
  }
  FAIL("no node makes " << output);
  std::abort();
}

}  // namespace

TEST_CASE("symbols that stay open give what bound ones give") {
  check_bindings(encoder(), {{{"batch", 1}, {"sequence", 1}},
                             {{"batch", 3}, {"sequence", 8}},
                             {{"batch", 2}, {"sequence", 40}}});
  check_bindings(image_network(), {{{"n", 1}, {"height", 12}}, {{"n", 3}, {"height", 21}}});
}

TEST_CASE("attributes follow from symbols by expressions") {
  const SourceGraph graph = read_good(encoder(), kOpen);
  CHECK(graph.entries.front().inputs.front().shape == SourceDims{"batch", "sequence", 6});
  CHECK(std::get<SourceDims>(attribute_of(graph, "h4", "shape")) ==
        SourceDims{"batch", "sequence", 2, 3});
  CHECK(std::get<SourceDims>(attribute_of(graph, "y", "shape")) ==
        SourceDims{"batch * sequence", 2, "sequence"});
}

TEST_CASE("what fills the last block of a size follows from it") {
  onnx::ModelProto model = model_with_input({"n", "m"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "four", {4});
  add_node(graph, "Shape", {"x"}, {"shape"});
  add_node(graph, "Mod", {"shape", "four"}, {"rest"});
  add_node(graph, "Sub", {"four", "rest"}, {"missing"});
  add_node(graph, "Mod", {"missing", "four"}, {"ends"});
  add_integers(graph, "zeros", {0, 0});
  add_integer(add_node(graph, "Concat", {"zeros", "ends"}, {"pads"}), "axis", 0);
  add_node(graph, "Pad", {"x", "pads"}, {"padded"});
  add_node(graph, "Shape", {"padded"}, {"whole"});
  add_node(graph, "ReduceProd", {"whole"}, {"count"});
  add_node(graph, "Div", {"count", "four"}, {"lines"});
  graph.mutable_node(graph.node_size() - 2)->add_attribute()->set_name("keepdims");
  graph.mutable_node(graph.node_size() - 2)
      ->mutable_attribute(0)
      ->set_type(onnx::AttributeProto::INT);
  graph.mutable_node(graph.node_size() - 2)->mutable_attribute(0)->set_i(1);
  add_integer(add_node(graph, "Concat", {"lines", "four"}, {"lines4"}), "axis", 0);
  add_node(graph, "Reshape", {"padded", "lines4"}, {"y"});
  graph.add_output()->set_name("y");
  check_bindings(model, {{{"n", 3}, {"m", 8}}, {{"n", 12}, {"m", 5}}, {{"n", 7}, {"m", 6}}});
}

TEST_CASE("the range of a symbol is where the model was seen to import") {
  const SourceGraph graph = read_good(encoder(), kOpen);
  REQUIRE(graph.symbols.size() == 2);
  CHECK(graph.symbols[0].name == "batch");
  CHECK(graph.symbols[0].minimum == 0);
  CHECK(graph.symbols[0].maximum == 1 << 20);
  CHECK(graph.symbols[1].maximum == 40);  // the length of the table of positions
}

TEST_CASE("what is bound is no symbol any more") {
  const SourceGraph graph = read_good(encoder(), {.dims = {{"batch", 4}}, .keep_symbols = true});
  REQUIRE(graph.symbols.size() == 1);
  CHECK(graph.entries.front().inputs.front().shape == SourceDims{4, "sequence", 6});
}

TEST_CASE("what follows from symbols by no expression is refused with its node") {
  onnx::ModelProto model = model_with_input({"n"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "zero", {0});
  add_integers(graph, "many", {67});
  add_node(graph, "Shape", {"x"}, {"shape"});
  add_node(graph, "Mod", {"shape", "many"}, {"rest"});
  add_node(graph, "Slice", {"x", "zero", "rest"}, {"y"});
  graph.add_output()->set_name("y");
  const Diagnostics refused = read_bad(model, kOpen);
  check_error(refused, DiagCode::UnboundSymbol, "attribute \"ends\" is");
  CHECK(refused.text().find("y_node") != std::string::npos);
}

TEST_CASE("a model that other dims would break is refused with the reason") {
  // Two symbols that must be equal.
  onnx::ModelProto model = model_with_input({"n", "m"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_node(graph, "MatMul", {"x", "x"}, {"y"});
  graph.add_output()->set_name("y");
  check_error(read_bad(model, kOpen), DiagCode::UnboundSymbol,
              "the model does not import with \"n\" = 5, \"m\" = 7");
}

TEST_CASE("what is wrong at every value of a symbol is no fault of the symbol") {
  onnx::ModelProto model = model_with_input({"n"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_node(graph, "NoSuchOperator", {"x"}, {"y"});
  graph.add_output()->set_name("y");
  const Diagnostics refused = read_bad(model, kOpen);
  CHECK(refused.all().size() == 1);
  CHECK(refused.text().find("NoSuchOperator") != std::string::npos);
}
#endif
