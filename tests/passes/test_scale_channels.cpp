// SPDX-License-Identifier: Apache-2.0
// scale_channels: convolutions that multiply each channel by one number.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

Module image_with(const std::string& w, const std::string& attributes,
                  const std::string& inputs = R"("x", "w")",
                  const std::string& x = "[2, 3, 4, 5]") {
  return module_of(R"("inputs": [)" + input_text("x", x) + ", " + input_text("w", w) + ", " +
                   input_text("b", "[3]") + ", " + input_text("r", "[2, 3, 4, 5]") +
                   R"(], "nodes": [)" + op_text("conv", inputs, "y", attributes) +
                   R"(], "outputs": ["y"])");
}

}  // namespace

TEST_CASE("filters of one element over one channel multiply it") {
  Module plain = image_with("[3, 1, 1, 1]", R"("groups": 3)");
  CHECK(apply_keeping_values(scale_channels, plain) == 1);
  CHECK(node_lines(plain) == Lines{"reshape(w)", "mul(x, y.reshape)"});
  Module with_bias =
      image_with("[3, 1, 1, 1]", R"("groups": 3, "dilation": [2, 2])", R"("x", "w", "b")");
  CHECK(apply_keeping_values(scale_channels, with_bias) == 1);
  Module mixed = module_of(
      R"("inputs": [)" + input_text("x", "[2, 3, 4]", "f16") + ", " +
      input_text("w", "[3, 1, 1]", "f16") + ", " + input_text("b", "[3]") + R"(], "nodes": [)" +
      op_text("conv", R"("x", "w", "b")", "y", R"("groups": 3)") + R"(], "outputs": ["y"])");
  CHECK(apply_keeping_values(scale_channels, mixed) == 1);
  CHECK(node_lines(mixed).back() == "cast(y.fma)");
  Module wider = image_with("[3, 1, 1, 1]", "", R"("x", "w", "b")", "[2, 1, 4, 5]");
  CHECK(apply_keeping_values(scale_channels, wider) == 1);
}

TEST_CASE("convolutions stay that add neighbours, skip some, or add more") {
  const auto stays = [](const std::string& w, const std::string& attributes,
                        const std::string& inputs = R"("x", "w")",
                        const std::string& x = "[2, 3, 4, 5]") {
    Module module = image_with(w, attributes, inputs, x);
    CHECK(apply(scale_channels, module) == 0);
  };
  stays("[3, 3, 1, 1]", "");
  stays("[6, 1, 1, 1]", R"("groups": 3)");
  stays("[3, 1, 1, 2]", R"("groups": 3)");
  stays("[3, 1, 1, 1]", R"("groups": 3, "stride": [1, 2])");
  stays("[3, 1, 1, 1]", R"("groups": 3, "pads": [1, 0, 0, 0])");
  stays("[3, 1, 1, 1]", R"("groups": 3, "activation": "relu")");
  stays("[3, 1, 1, 1]", R"("groups": 3)", R"("x", "w", "b", "r")");
}

}  // namespace rlx::test
