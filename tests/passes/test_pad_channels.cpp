// SPDX-License-Identifier: Apache-2.0
// Channels that make no whole pieces are filled up where matrix units are worth it, and only there.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

Module volumes(const std::string& channels, const std::string& side,
               const std::string& filters = "64") {
  const std::string window = "[" + filters + ", " + channels + ", 3, 7, 7]";
  return module_of(
      R"("params": [{"name": "w", "dtype": "f16", "shape": )" + window +
      R"(, "data": {"random": {"distribution": "uniform", "low": -0.1, "high": 0.1, "seed": 7}}}], "inputs": [)" +
      input_text("x", "[1, " + channels + ", 4, " + side + ", " + side + "]", "f16") +
      R"(], "nodes": [)" +
      op_text("conv", R"("x", "w")", "y", R"("stride": [1, 2, 2], "pads": [1, 3, 3])") +
      R"(], "outputs": ["y"])");
}

size_t padded(Module module, const char* target) {
  return apply(pad_channels, module, {.target = find_target(target)});
}

}  // namespace

TEST_CASE("volumes of three channels get eight where matrix units take them") {
  Module module = volumes("3", "56", "32");
  CHECK(apply_for(pad_channels, module, "cuda", 2e-3) == 1);
  CHECK(node_lines(module) == Lines{"pad(x)", "pad(w)", "conv(y.pad, y.pad.1)"});
  CHECK(padded(volumes("8", "112"), "cuda") == 0);
  CHECK(padded(volumes("3", "112"), "vulkan") == 0);
}

}  // namespace rlx::test
