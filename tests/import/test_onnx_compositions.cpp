// SPDX-License-Identifier: Apache-2.0
// Operators of ONNX and com.microsoft for which rlx has no op of its own, by the values of what
// stands in their place.
#ifdef RLX_HAS_ONNX
#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

constexpr int32_t kFloat = onnx::TensorProto::FLOAT;
constexpr int32_t kBytes = onnx::TensorProto::UINT8;
constexpr int32_t kSigned = onnx::TensorProto::INT8;

Tensor shaped(Shape shape, std::vector<double> values) {
  Tensor tensor = reals(std::move(values));
  tensor.type.shape = std::move(shape);
  return tensor;
}

// 0, 1 .. in a shape.
Tensor counted(const Shape& shape) {
  std::vector<double> values(static_cast<size_t>(int64_t{element_count(shape)}));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return shaped(shape, std::move(values));
}

std::vector<std::string> texts(const Shape& shape) {
  std::vector<std::string> dims;
  for (const Dim& dim : shape) dims.push_back(to_string(dim));
  return dims;
}

// One node of com.microsoft, y = op(inputs), with an f32 input x.
struct FusedCase {
  onnx::ModelProto model;
  onnx::NodeProto* node;

  FusedCase(const std::string& op, const Shape& x, const std::vector<std::string>& inputs)
      : model(model_with_input(texts(x))),
        node(&add_node(*model.mutable_graph(), op, inputs, {"y"})) {
    node->set_domain("com.microsoft");
    model.add_opset_import()->set_domain("com.microsoft");
    model.mutable_graph()->add_output()->set_name("y");
  }
  template <typename T>
  void tensor(const std::string& name, int32_t type, const Shape& shape,
              const std::vector<T>& values) {
    add_tensor(*model.mutable_graph(), name, type, shape, values);
  }
  [[nodiscard]] Tensor of(const Tensor& x) const { return evaluated(read_good(model), {x}).at(0); }
};

void add_list(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const int64_t value : values) attribute.add_ints(value);
}

}  // namespace

TEST_CASE("Det is the product of pivots by the sign of their order") {
  onnx::ModelProto model = model_with_input({"5", "3", "3"});
  add_node(*model.mutable_graph(), "Det", {"x"}, {"y"});
  model.mutable_graph()->add_output()->set_name("y");
  const Tensor x = shaped({5, 3, 3}, {0, 1, 0, 0, 0, 1, 1, 0, 0,  // a cycle
                                      0, 1, 0, 1, 0, 0, 0, 0, 1,  // a swap
                                      1, 2, 3, 2, 4, 6, 5, 1, 2,  // rows that depend
                                      4, 3, 2, 1, 3, 1, 2, 1, 5,  //
                                      0, 0, 0, 0, 0, 0, 0, 0, 0});
  check_near(evaluated(read_good(model), {x}).at(0).floats, {1, -1, 0, 37, 0});
  onnx::ModelProto wide = model_with_input({"33", "33"});
  add_node(*wide.mutable_graph(), "Det", {"x"}, {"y"});
  wide.mutable_graph()->add_output()->set_name("y");
  check_error(read_bad(wide), DiagCode::BadShape, "wanted 1 to 32");
}

TEST_CASE("MaxRoiPool takes the largest element of each bin, and 0 of one without any") {
  onnx::ModelProto model = model_with_input({"1", "1", "4", "4"});
  add_tensor<float>(*model.mutable_graph(), "boxes", kFloat, {4, 5},
                    {0, 0, 0, 3,  3,        // all of it
                     0, 1, 1, 1,  1,        // one element, which each bin has
                     0, 8, 8, 9,  9,        // outside
                     0, 2, 0, -3, -0.5F});  // turned round: one column, rows 0 to -1
  onnx::NodeProto& node = add_node(*model.mutable_graph(), "MaxRoiPool", {"x", "boxes"}, {"y"});
  add_list(node, "pooled_shape", {2, 2});
  model.mutable_graph()->add_output()->set_name("y");
  const Tensor y = evaluated(read_good(model), {counted({1, 1, 4, 4})}).at(0);
  CHECK(y.type.shape == Shape{4, 1, 2, 2});
  check_near(y.floats, {5, 7, 13, 15, 5, 5, 5, 5, 0, 0, 0, 0, 2, 2, 2, 2});
  // Lines are counted by a node, so that how many there are may be the run's.
  model.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(2)
      ->set_dim_param("height");
  read_good(model, {.keep_symbols = true});
  node.mutable_attribute(0)->add_ints(2);
  check_error(read_bad(model, {.dims = {{"height", 4}}}), DiagCode::UnsupportedOp,
              "wanted two numbers");
}

TEST_CASE("an Einsum of integers is exact") {
  constexpr int64_t kLarge = int64_t{1} << 53;
  onnx::ModelProto model = model_with_input({"1"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_tensor<int64_t>(graph, "a", onnx::TensorProto::INT64, {2, 2, 2},
                      {kLarge, 1, 2, 3, 4, 5, 6, 7});
  add_tensor<int64_t>(graph, "b", onnx::TensorProto::INT64, {2, 1, 2}, {1, 1, 10, 100});
  onnx::AttributeProto& equation = *add_node(graph, "Einsum", {"a", "b"}, {"y"}).add_attribute();
  equation.set_name("equation");
  equation.set_type(onnx::AttributeProto::STRING);
  equation.set_s("bij,bkj->kbi");
  graph.add_output()->set_name("y");
  const Tensor y = evaluated(read_good(model), {reals({0})}).at(0);
  CHECK(y.type.shape == Shape{1, 2, 2});
  CHECK(y.integers == std::vector<int64_t>{kLarge + 1, 5, 540, 760});
}

TEST_CASE("reductions of integers are exact, and those of truths are Max and Min alone") {
  const auto reduced = [](const std::string& op, int32_t type) {
    onnx::ModelProto model = model_with_input({"1"});
    onnx::GraphProto& graph = *model.mutable_graph();
    add_tensor<int32_t>(graph, "a", onnx::TensorProto::INT32, {4}, {-3, 0, 4, 46340});
    add_integer(add_node(graph, "Cast", {"a"}, {"b"}), "to", type);
    add_integer(add_node(graph, op, {"b"}, {"y"}), "keepdims", 0);
    graph.add_output()->set_name("y");
    return model;
  };
  for (const auto& [op, wanted] : {std::pair<std::string, int64_t>("ReduceL1", 46347),
                                   {"ReduceSumSquare", 2147395625},
                                   {"ReduceL2", 46340},
                                   {"ReduceLogSum", 10}}) {
    const Tensor y = evaluated(read_good(reduced(op, onnx::TensorProto::INT32)), {reals({0})})[0];
    CHECK(y.type.dtype == DType::i32);
    CHECK(y.integers == std::vector<int64_t>{wanted});
  }
  read_good(reduced("ReduceMin", onnx::TensorProto::BOOL));
  check_error(read_bad(reduced("ReduceSum", onnx::TensorProto::BOOL)), DiagCode::UnsupportedOp,
              "x is of bool, wanted numbers");
}

TEST_CASE("a Pad's value may be the run's") {
  onnx::ModelProto model = model_with_input({"3"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "pads", {2, -1});
  add_tensor<int64_t>(graph, "second", onnx::TensorProto::INT64, {}, {1});
  add_node(graph, "Gather", {"x", "second"}, {"value"});
  add_node(graph, "Pad", {"x", "pads", "value"}, {"y"});
  graph.add_output()->set_name("y");
  CHECK(evaluated(read_good(model), {reals({1, 7, 3})}).at(0).floats ==
        std::vector<double>{7, 7, 1, 7});
}

TEST_CASE("operands whose batch stands behind their first axis are turned") {
  // a [M, batch, K] = [2, 2, 1], b [K, batch, N] = [1, 2, 1]
  FusedCase fused("FusedMatMul", {2, 2, 1}, {"x", "b"});
  fused.tensor<float>("b", kFloat, {1, 2, 1}, {1, 10});
  for (const char* name : {"transBatchA", "transBatchB"}) add_integer(*fused.node, name, 1);
  const Tensor y = fused.of(shaped({2, 2, 1}, {1, 2, 3, 4}));
  CHECK(y.type.shape == Shape{2, 2, 1});
  check_near(y.floats, {1, 3, 20, 40});
}

TEST_CASE("columns of a quantised product have scales and zero points of their own") {
  // Rows of B are its columns where it is turned.
  FusedCase fused("QGemm", {1}, {"a", "sa", "", "b", "sb", "zb", "bias"});
  fused.tensor<int8_t>("a", kSigned, {1, 2}, {1, 2});
  fused.tensor<float>("sa", kFloat, {}, {2});
  fused.tensor<int8_t>("b", kSigned, {2, 2}, {1, 2, 3, 4});
  fused.tensor<float>("sb", kFloat, {2}, {1, 10});
  fused.tensor<int8_t>("zb", kSigned, {2}, {0, 1});
  fused.tensor<int32_t>("bias", onnx::TensorProto::INT32, {2}, {1, 1});
  add_integer(*fused.node, "transB", 1);
  check_near(fused.of(reals({0})).floats, {2 * (1 * 1 + 2 * 2 + 1), 20 * (1 * 2 + 2 * 3 + 1)});
}

TEST_CASE("the last block of a row may be shorter, and its zero point the first of a byte") {
  FusedCase fused("GatherBlockQuantized", {1}, {"codes", "rows", "scales", "zeros"});
  fused.tensor<uint8_t>("codes", kBytes, {2, 2}, {0x21, 0x43, 0x65, 0x87});
  fused.tensor<int64_t>("rows", onnx::TensorProto::INT64, {1}, {1});
  fused.tensor<float>("scales", kFloat, {2, 1}, {1, 10});
  fused.tensor<uint8_t>("zeros", kBytes, {2, 1}, {0xf0, 0xf2});
  add_integer(*fused.node, "block_size", 16);
  const Tensor y = fused.of(reals({0}));
  CHECK(y.type.shape == Shape{1, 4});
  check_near(y.floats, {30, 40, 50, 60});
}

TEST_CASE("columns of packed weights may be of blocks in another order") {
  FusedCase fused("MatMulNBits", {1, 8}, {"x", "codes", "scales", "", "order"});
  // 0, 1, 2, 3, 3, 2, 1, 0, counted from 2
  fused.tensor<uint8_t>("codes", kBytes, {1, 2, 1}, {0xe4, 0x1b});
  fused.tensor<float>("scales", kFloat, {1, 2}, {1, 10});
  fused.tensor<int32_t>("order", onnx::TensorProto::INT32, {8}, {0, 1, 0, 1, 0, 1, 0, 1});
  for (const auto& [name, value] :
       {std::pair("K", 8), std::pair("N", 1), std::pair("bits", 2), std::pair("block_size", 4)})
    add_integer(*fused.node, name, value);
  check_near(fused.of(counted({1, 8})).floats, {-10 + 30 + 4 - 6 - 140});
}

TEST_CASE("a quantised LSTM is one of the weights that its codes mean") {
  const auto result = [](bool is_quantized) {
    FusedCase fused(is_quantized ? "DynamicQuantizeLSTM" : "LSTM", {2, 1, 1}, {"x", "w", "r"});
    add_integer(*fused.node, "hidden_size", 1);
    if (!is_quantized) {
      fused.node->set_domain("");
      fused.tensor<float>("w", kFloat, {1, 4, 1}, {0.5, -1, 1.5, 2});
      fused.tensor<float>("r", kFloat, {1, 4, 1}, {1, 0, -1, 0.5});
    } else {
      for (const char* name : {"", "", "", "", "", "sw", "zw", "sr", "zr"})
        fused.node->add_input(name);
      fused.tensor<int8_t>("w", kSigned, {1, 1, 4}, {2, -1, 3, 4});
      fused.tensor<float>("sw", kFloat, {1, 4}, {0.25, 1, 0.5, 0.5});
      fused.tensor<int8_t>("zw", kSigned, {1, 4}, {0, 0, 0, 0});
      fused.tensor<uint8_t>("r", kBytes, {1, 1, 4}, {12, 10, 8, 11});
      fused.tensor<float>("sr", kFloat, {1}, {0.5});
      fused.tensor<uint8_t>("zr", kBytes, {1}, {10});
    }
    return fused.of(shaped({2, 1, 1}, {0.5, -1})).floats;
  };
  check_near(result(true), result(false));
}

TEST_CASE("pools and convolutions of com.microsoft with channels last are those with them first") {
  FusedCase pool("NhwcMaxPool", {1, 2, 2, 3}, {"x"});
  add_list(*pool.node, "kernel_shape", {2, 2});
  const Tensor largest = pool.of(counted({1, 2, 2, 3}));
  CHECK(largest.type.shape == Shape{1, 1, 1, 3});
  check_near(largest.floats, {9, 10, 11});

  FusedCase conv("NhwcFusedConv", {1, 1, 3, 2}, {"x", "w", "", "z"});
  conv.tensor<float>("w", kFloat, {1, 1, 2, 2}, {1, 10, 100, 1000});
  conv.tensor<float>("z", kFloat, {1, 1, 3, 1}, {0.5, 0.5, 0.5});
  onnx::AttributeProto& pads = *conv.node->add_attribute();
  pads.set_name("auto_pad");
  pads.set_type(onnx::AttributeProto::STRING);
  pads.set_s("SAME_UPPER");
  check_near(conv.of(counted({1, 1, 3, 2})).floats, {3210.5, 5432.5, 54.5});

  FusedCase codes("QLinearConv", {1}, {"a", "one", "zero", "w", "one", "zero", "one", "zero"});
  codes.tensor<int8_t>("a", kSigned, {1, 1, 2, 2}, {1, 2, 3, 4});
  codes.tensor<int8_t>("w", kSigned, {1, 2, 1, 1}, {1, 10});
  codes.tensor<float>("one", kFloat, {}, {1});
  codes.tensor<int8_t>("zero", kSigned, {}, {0});
  add_integer(*codes.node, "channels_last", 1);
  const Tensor y = codes.of(reals({0}));
  CHECK(y.type.shape == Shape{1, 1, 2, 1});
  CHECK(y.integers == std::vector<int64_t>{21, 43});
}

TEST_CASE("operators of com.microsoft that are ones of ONNX are those") {
  FusedCase triangle("Trilu", {2, 2}, {"x", "k"});
  triangle.tensor<int64_t>("k", onnx::TensorProto::INT64, {}, {1});
  check_near(triangle.of(counted({2, 2})).floats, {0, 1, 0, 0});

  FusedCase padded("Pad", {2, 2}, {"x", "pads", "value"});
  padded.tensor<int64_t>("pads", onnx::TensorProto::INT64, {1, 4}, {0, 1, 0, 2});
  padded.tensor<float>("value", kFloat, {1}, {7});
  check_near(padded.of(counted({2, 2})).floats, {7, 0, 1, 7, 7, 7, 2, 3, 7, 7});

  FusedCase range("Range", {1}, {"first", "limit"});
  range.tensor<int64_t>("first", onnx::TensorProto::INT64, {1}, {1});
  range.tensor<int64_t>("limit", onnx::TensorProto::INT64, {1}, {4});
  CHECK(range.of(reals({0})).integers == std::vector<int64_t>{1, 2, 3});
  // A step of nothing has no end.
  range.node->add_input("step");
  range.tensor<int64_t>("step", onnx::TensorProto::INT64, {}, {0});
  CHECK(read_bad(range.model).text().find("has no end") != std::string::npos);

  FusedCase sampled("GridSample", {1, 1, 2, 2}, {"x", "grid"});
  sampled.tensor<float>("grid", kFloat, {1, 1, 3, 2}, {-1, -1, 0, 0, 1, 1});
  add_integer(*sampled.node, "align_corners", 1);
  check_near(sampled.of(counted({1, 1, 2, 2})).floats, {0, 1.5, 3});
}

TEST_CASE("an Inverse of com.microsoft finds a pivot for each column") {
  FusedCase inverse("Inverse", {3, 3, 3}, {"x"});
  const Tensor x = shaped({3, 3, 3}, {0,    1, 0, 0, 0, 1, 1, 0, 0,    // a cycle
                                      4,    3, 2, 1, 3, 1, 2, 1, 5,    //
                                      1e-9, 1, 0, 1, 1, 0, 0, 0, 2});  // a first pivot too small
  const double det = 37;
  check_near(
      inverse.of(x).floats,
      {0,        0,         1,        1,        0,        0,        0,        1,       0,
       14 / det, -13 / det, -3 / det, -3 / det, 16 / det, -2 / det, -5 / det, 2 / det, 9 / det,
       -1,       1,         0,        1,        0,        0,        0,        0,       0.5});
  // Of rows that depend there is none.
  const Tensor y = inverse.of(shaped({3, 3, 3}, std::vector<double>(27, 1)));
  CHECK_FALSE(std::isfinite(y.floats[0] + y.floats[1] + y.floats[2]));
  CHECK(read_bad(FusedCase("Inverse", {2, 3}, {"x"}).model).text().find("wanted square") !=
        std::string::npos);
}

TEST_CASE("operators in the layout of one kind of processor say how to get others") {
  onnx::ModelProto model = model_with_input({"1", "8", "4", "4"});
  add_node(*model.mutable_graph(), "ReorderInput", {"x"}, {"y"}).set_domain("com.microsoft.nchwc");
  model.mutable_graph()->add_output()->set_name("y");
  CHECK(read_bad(model).text().find("ORT_ENABLE_EXTENDED") != std::string::npos);
}

}  // namespace rlx::test
#endif
