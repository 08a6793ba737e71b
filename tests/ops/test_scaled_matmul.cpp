// SPDX-License-Identifier: Apache-2.0
// What scaled_matmul refuses, and by which names.
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

// a and b of 32 rows and columns, with formats and scales that fit unless changed.
OneNode scaled_product() {
  const TensorType codes{DType::f8e4m3, {32, 64}};
  const TensorType one{DType::f32, {}};
  return {.op = "scaled_matmul",
          .inputs = {codes, codes, one, one},
          .attributes = {{"a_format", std::string("f8e4m3")}, {"b_format", std::string("f8e4m3")}}};
}

void check_product_refused(const OneNode& node, const std::string& because) {
  const Inferred inferred = OneNodeGraph(node).infer();
  INFO(inferred.diagnostics);
  CHECK_FALSE(inferred.good);
  CHECK(inferred.diagnostics.find("scaled_matmul \"n\"") != std::string::npos);
  CHECK(inferred.diagnostics.find(because) != std::string::npos);
}

}  // namespace

TEST_CASE("scaled_matmul refuses codes of another format") {
  OneNode node = scaled_product();
  node.attributes["a_format"] = std::string("f8e5m2");
  check_product_refused(node, "a is f8e4m3, wanted f8e5m2 or u8");
  node.attributes["a_format"] = std::string("e2m1");
  check_product_refused(node, "wanted u8 that holds two codes");
  node.inputs[0] = TensorType{DType::u8, {32, 64}};
  check_product_refused(node, "a has K = 128, b has 64");
  node = scaled_product();
  node.inputs[1] = TensorType{DType::f8e4m3, {2, 32, 64}};
  check_product_refused(node, "wanted rank 2");
}

TEST_CASE("scaled_matmul refuses scales of other shapes and dtypes") {
  OneNode node = scaled_product();
  node.inputs[3] = TensorType{DType::f32, {31}};
  check_product_refused(node, "b_scale is f32[31]");
  node.inputs[3] = TensorType{DType::f32, {32, 4}};
  check_product_refused(node, "the attribute block");
  node.attributes["block"] = int64_t{16};
  check_product_refused(node, "b_scale is f32, wanted f8e4m3 or u8");
  node.inputs[3] = TensorType{DType::f8e4m3, {32, 4}};
  CHECK(OneNodeGraph(node).infer().good);
  node.attributes["block"] = int64_t{32};
  check_product_refused(node, "or [32, 2]");
  node.attributes["block"] = int64_t{64};
  check_product_refused(node, "block is 64, wanted 16, 32 or 128");
  node = scaled_product();
  node.attributes["block"] = int64_t{128};
  check_product_refused(node, "neither a_scale nor b_scale is per block");
  node = scaled_product();
  node.inputs[2] = TensorType{DType::f16, {}};
  check_product_refused(node, "a_scale is f16, wanted f32");
  node = scaled_product();
  node.inputs.emplace_back(TensorType{DType::f32, {64}});
  check_product_refused(node, "bias is f32[64], wanted [32]");
}

}  // namespace rlx::test
