// SPDX-License-Identifier: Apache-2.0
// AffineGrid, Col2Im, and zero points of 8-bit floats.
#ifdef RLX_HAS_ONNX
#include <cmath>

#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

constexpr int32_t kFloat8E4m3fn = 17;  // of ONNX 1.14 and newer

// Of numbers that the model has, so that the grid is one.
onnx::ModelProto grid_model(const Shape& theta_shape, const std::vector<float>& theta,
                            const std::vector<int64_t>& size, int64_t align_corners) {
  onnx::ModelProto model = model_with_input({"4"});
  model.mutable_opset_import(0)->set_version(20);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_tensor(graph, "theta", onnx::TensorProto::FLOAT, theta_shape, theta);
  add_integers(graph, "size", size);
  add_integer(add_node(graph, "AffineGrid", {"theta", "size"}, {"y"}), "align_corners",
              align_corners);
  graph.add_output()->set_name("y");
  return model;
}

std::vector<double> grid_of(const Shape& theta_shape, const std::vector<float>& theta,
                            const std::vector<int64_t>& size, int64_t align_corners) {
  const SourceGraph read = read_good(grid_model(theta_shape, theta, size, align_corners));
  REQUIRE(read.constants.size() == 1);
  CHECK(read.constants[0].dtype == DType::f32);
  const std::span<const std::byte> bytes = std::get<HostBytes>(*read.constants[0].data).bytes;
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

onnx::ModelProto quantize_model(uint8_t zero_point) {
  onnx::ModelProto model = model_with_input({"4"});
  model.mutable_opset_import(0)->set_version(19);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_tensor<float>(graph, "scale", onnx::TensorProto::FLOAT, {}, {2.0F});
  add_tensor<uint8_t>(graph, "zero", kFloat8E4m3fn, {1}, {zero_point});
  add_node(graph, "QuantizeLinear", {"x", "scale", "zero"}, {"codes"});
  add_node(graph, "DequantizeLinear", {"codes", "scale", "zero"}, {"y"});
  graph.add_output()->set_name("y");
  return model;
}

}  // namespace

TEST_CASE("an AffineGrid has the positions of PyTorch's affine_grid") {
  const std::vector<float> plane = {1, 2, 3, 4, 5, 6};
  check_near(grid_of({1, 2, 3}, plane, {1, 1, 2, 3}, 0),
             {4.0 / 3, 5.0 / 6, 2, 3.5, 8.0 / 3, 37.0 / 6, 10.0 / 3, 35.0 / 6, 4, 8.5, 14.0 / 3,
              67.0 / 6});
  check_near(grid_of({1, 2, 3}, plane, {1, 1, 2, 3}, 1), {0, -3, 1, 1, 2, 5, 4, 7, 5, 11, 6, 15});
  const std::vector<float> volume = {1, 0, 0, 0, 0, 1, 0, 10, 0, 0, 1, 100};
  check_near(grid_of({1, 3, 4}, volume, {1, 1, 2, 1, 2}, 0),
             {-0.5, 10, 99.5, 0.5, 10, 99.5, -0.5, 10, 100.5, 0.5, 10, 100.5});
  // One pixel lies in the middle.
  check_near(grid_of({1, 3, 4}, volume, {1, 1, 2, 1, 2}, 1),
             {-1, 10, 99, 1, 10, 99, -1, 10, 101, 1, 10, 101});
}

TEST_CASE("an AffineGrid whose matrices do not fit its size is refused") {
  const std::vector<float> plane = {1, 2, 3, 4, 5, 6};
  for (const std::vector<int64_t>& size :
       {std::vector<int64_t>{2, 1, 2, 3}, {1, 1, 2, 3, 4}, {1, 1}, {1, 1, 0, 3}})
    check_error(read_bad(grid_model({1, 2, 3}, plane, size, 0)), DiagCode::BadShape, "AffineGrid");
}

TEST_CASE("a Col2Im over three axes is the op's") {
  onnx::ModelProto model = model_with_input({"1", "10", "12"});
  model.mutable_opset_import(0)->set_version(18);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "image", {3, 4, 5});
  add_integers(graph, "block", {1, 1, 5});
  add_node(graph, "Col2Im", {"x", "image", "block"}, {"y"});
  graph.add_output()->set_name("y");
  const SourceGraph read = read_good(model);
  CHECK(ops_of(read) == "col2im");
  CHECK(std::get<Ints>(read.entries[0].nodes[0].attributes.at("stride")) == Ints{1, 1, 1});
}

TEST_CASE("zero points of 8-bit floats say the type alone, and are 0") {
  for (const uint8_t zero : {uint8_t{0}, uint8_t{0x80}}) {
    const SourceGraph read = read_good(quantize_model(zero));
    CHECK(ops_of(read) == "quantize dequantize");
    const SourceNode& node = read.entries[0].nodes[0];
    CHECK(node.inputs.size() == 2);
    CHECK(std::get<std::string>(node.attributes.at("to")) == "f8e4m3");
  }
  check_error(read_bad(quantize_model(0x38)), DiagCode::UnsupportedOp,
              "its zero points are of f8e4m3 and not 0");
}

TEST_CASE("a model of another domain's operators needs no opset of the default one") {
  onnx::ModelProto model = model_with_input({"2", "8"});
  model.mutable_opset_import(0)->set_domain("com.microsoft");
  model.mutable_opset_import(0)->set_version(1);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_node(graph, "QuickGelu", {"x"}, {"y"}).set_domain("com.microsoft");
  graph.add_output()->set_name("y");
  CHECK(ops_of(read_good(model)) == "swish");
  add_node(graph, "Relu", {"y"}, {"z"});
  check_error(read_bad(model), DiagCode::UnsupportedVersion,
              "imports no opset of the default domain");
}

}  // namespace rlx::test
#endif
