// SPDX-License-Identifier: Apache-2.0
// Element types of ONNX that rlx does not have: in constants, and between quantising and back.
#ifdef RLX_HAS_ONNX
#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

// Of versions of ONNX that the build may not have.
enum : int32_t { kUint4 = 21, kInt4, kFloat4, kFloat8E8m0, kUint2, kInt2 };

// y = DequantizeLinear of constant codes by the scale 2.
std::vector<double> numbers_of(int32_t type, int64_t count, const std::vector<uint8_t>& bytes) {
  onnx::ModelProto model = model_with_input({"1"});
  model.mutable_opset_import(0)->set_version(25);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_tensor<uint8_t>(graph, "codes", type, {count}, bytes);
  add_tensor<float>(graph, "scale", onnx::TensorProto::FLOAT, {}, {2});
  add_node(graph, "DequantizeLinear", {"codes", "scale"}, {"y"});
  graph.add_output()->set_name("y");
  return evaluated(read_good(model), {reals({0})}).at(0).floats;
}

// y: x quantised by the scale 1 to the zero point's type, and back.
onnx::ModelProto there_and_back(int32_t type, const std::vector<uint8_t>& zero) {
  onnx::ModelProto model = model_with_input({"4"});
  model.mutable_opset_import(0)->set_version(25);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_tensor<uint8_t>(graph, "zero", type, {}, zero);
  add_tensor<float>(graph, "scale", onnx::TensorProto::FLOAT, {}, {1});
  add_node(graph, "QuantizeLinear", {"x", "scale", "zero"}, {"codes"});
  add_node(graph, "DequantizeLinear", {"codes", "scale", "zero"}, {"y"});
  graph.add_output()->set_name("y");
  return model;
}

}  // namespace

TEST_CASE("constants of packed types are read, the first element in the low bits") {
  using Values = std::vector<double>;
  CHECK(numbers_of(kUint4, 3, {0xF1, 0x07}) == Values{2, 30, 14});
  CHECK(numbers_of(kInt4, 3, {0xF1, 0x08}) == Values{2, -2, -16});
  CHECK(numbers_of(kUint2, 5, {0b11100100, 0b10}) == Values{0, 2, 4, 6, 4});
  CHECK(numbers_of(kInt2, 5, {0b11100100, 0b01}) == Values{0, 2, -4, -2, 2});
  CHECK(numbers_of(kFloat4, 16, {0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE}) ==
        Values{0, 1, 2, 3, 4, 6, 8, 12, -0.0, -1, -2, -3, -4, -6, -8, -12});
  CHECK(numbers_of(onnx::TensorProto::UINT16, 2, {0x34, 0x12, 0xFF, 0xFF}) ==
        Values{2.0 * 0x1234, 2.0 * 0xFFFF});
}

TEST_CASE("scales that are powers of two alone are exact") {
  onnx::ModelProto model = model_with_input({"1"});
  model.mutable_opset_import(0)->set_version(25);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_tensor<uint8_t>(graph, "e", kFloat8E8m0, {5}, {0, 1, 127, 254, 255});
  add_integer(add_node(graph, "Cast", {"e"}, {"y"}), "to", onnx::TensorProto::FLOAT);
  graph.add_output()->set_name("y");
  const std::vector<double> got = evaluated(read_good(model), {reals({0})}).at(0).floats;
  REQUIRE(got.size() == 5);
  CHECK(std::vector(got.begin(), got.begin() + 4) ==
        std::vector<double>{0x1p-127, 0x1p-126, 1, 0x1p127});
  CHECK(std::isnan(got[4]));
}

TEST_CASE("what is quantised to such a type stays within its range") {
  const auto kept = [](int32_t type, const std::vector<uint8_t>& zero) {
    return evaluated(read_good(there_and_back(type, zero)), {reals({-9e4, -3, 2, 9e4})})
        .at(0)
        .floats;
  };
  using Values = std::vector<double>;
  CHECK(kept(kInt4, {1}) == Values{-9, -3, 2, 6});
  CHECK(kept(kUint4, {3}) == Values{-3, -3, 2, 12});
  CHECK(kept(kInt2, {0}) == Values{-2, -2, 1, 1});
  CHECK(kept(kUint2, {1}) == Values{-1, -1, 2, 2});
  CHECK(kept(onnx::TensorProto::UINT16, {0x00, 0x80}) == Values{-32768, -3, 2, 32767});
}

TEST_CASE("beyond that they are refused by name") {
  check_error(read_bad(there_and_back(kFloat4, {0})), DiagCode::UnsupportedOp, "float4e2m1");
  onnx::ModelProto like = model_with_input({"4"});
  like.mutable_opset_import(0)->set_version(25);
  add_tensor<uint8_t>(*like.mutable_graph(), "like", kInt2, {1}, {0});
  add_node(*like.mutable_graph(), "CastLike", {"x", "like"}, {"y"});
  like.mutable_graph()->add_output()->set_name("y");
  check_error(read_bad(like), DiagCode::UnsupportedOp, "int2");
  onnx::ModelProto cut = there_and_back(kUint2, {1});
  cut.mutable_graph()->mutable_initializer(0)->set_raw_data("");
  check_error(read_bad(cut), DiagCode::FileSize, "needs 1 bytes and has 0");
}

}  // namespace rlx::test
#endif
