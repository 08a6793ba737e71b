// SPDX-License-Identifier: Apache-2.0
// fold_pads: zeros around what convolutions and means of windows read.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

Module padded_image(const std::string& nodes, const std::string& outputs = R"(["y"])") {
  return module_of(R"("inputs": [)" + input_text("x", "[1, 2, 6, 5]") + ", " +
                   input_text("w", "[3, 2, 3, 2]") + ", " + input_text("s", "[1, 2, 9]") + ", " +
                   input_text("u", "[4, 1, 2]") + R"(], "nodes": [)" + nodes + R"(], "outputs": )" +
                   outputs);
}

std::string pad_text(const std::string& x, const std::string& attributes) {
  return op_text("pad", '"' + x + '"', "p", attributes) + ", ";
}
std::string conv_text(const std::string& attributes = "", const std::string& y = "y") {
  return op_text("conv", R"("p", "w")", y, attributes);
}
std::string pool_text(const std::string& attributes) {
  return op_text("pool", R"("p")", "y", R"("kernel": [3, 3], "stride": [2, 2], )" + attributes);
}
const std::string kEnds = R"("pads": [0, 0, 1, 0, 0, 0, 2, 1])";

}  // namespace

TEST_CASE("zeros at either end become pads of a conv, beside its own") {
  Module module = padded_image(pad_text("x", kEnds) + conv_text(R"("pads": [1, 0, 0, 1])"));
  CHECK(apply_keeping_values(fold_pads, module) == 1);
  CHECK(attribute_of<Ints>(only_node(module, "conv"), "pads") == Ints{2, 0, 2, 2});
  Module causal =
      padded_image(pad_text("s", R"("pads": [4, 0], "axes": [-1])") +
                   op_text("conv", R"("p", "u")", "y", R"("dilation": [4], "groups": 2)"));
  CHECK(apply_keeping_values(fold_pads, causal) == 1);
  CHECK(node_lines(causal) == Lines{"conv(s, u)"});
}

TEST_CASE("pads of pads, and those of several readers, fold") {
  Module module =
      padded_image(op_text("pad", R"("x")", "q", kEnds) + ", " +
                       op_text("pad", R"("q")", "p", R"("pads": [1, 1, 1, 1], "axes": [2, 3])") +
                       ", " + conv_text("", "y") + ", " + conv_text(R"("stride": [2, 1])", "z"),
                   R"(["y", "z"])");
  CHECK(apply_keeping_values(fold_pads, module) == 2);
  CHECK(node_lines(module) == Lines{"conv(x, w)", "conv(x, w)"});
}

TEST_CASE("a mean of windows counts the zeros as before") {
  for (const char* own : {R"("kind": "mean")", R"("kind": "sum")",
                          R"("kind": "mean", "pads": [1, 0, 0, 1], "count_include_pad": true)"}) {
    INFO(own);
    Module module = padded_image(pad_text("x", R"("pads": [1, 1], "axes": [3])") + pool_text(own));
    CHECK(apply_keeping_values(fold_pads, module) == 1);
    CHECK(node_lines(module) == Lines{"pool(x)"});
  }
}

TEST_CASE("pads stay that are no zeros around a window, or that others read") {
  const auto stays = [](const std::string& nodes, const std::string& outputs = R"(["y"])") {
    check_stays(fold_pads, padded_image(nodes, outputs));
  };
  stays(pad_text("x", kEnds + R"(, "value": 1)") + conv_text());
  stays(pad_text("x", kEnds + R"(, "mode": "edge")") + conv_text());
  stays(pad_text("x", R"("pads": [1, -1], "axes": [2])") + conv_text());  // cuts at one end
  stays(pad_text("x", R"("pads": [1, 0], "axes": [0])") + conv_text());   // an image of zeros
  stays(pad_text("x", kEnds) + conv_text(), R"(["y", "p"])");
  stays(pad_text("x", kEnds) + conv_text() + ", " + op_text("exp", R"("p")", "z"), R"(["y", "z"])");
  // The largest of zeros; a mean that leaves its own pads out; windows of zeros alone.
  stays(pad_text("x", kEnds) + pool_text(R"("kind": "max")"));
  stays(pad_text("x", kEnds) + pool_text(R"("kind": "mean", "pads": [1, 1, 1, 1])"));
  stays(pad_text("x", R"("pads": [0, 3], "axes": [2])") + pool_text(R"("kind": "mean")"));
}

}  // namespace rlx::test
