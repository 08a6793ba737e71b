// SPDX-License-Identifier: Apache-2.0
// Norms over channels and the vision ops read views: transposed, reversed and broadcast images; and
// they stand between convolutions.
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

std::string image_input(const std::string& name, const std::string& shape) {
  return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": )" + shape + "}";
}

std::string image_graph(const std::string& inputs, const std::string& nodes) {
  return R"({"rlx_graph": 1, "inputs": [)" + inputs + R"(], "nodes": [)" + nodes +
         R"(], "outputs": ["y"]})";
}

// One op over an image "v" [2, 4, 6, 8].
struct ImageOp {
  std::string op;
  std::string attributes = "{}";
  std::string more = {};         // inputs behind v
  std::string more_inputs = {};  // their declarations
};

std::vector<ImageOp> image_ops() {
  return {
      {"group_norm", R"({"num_groups": 2})", R"(, "g", "b")",
       ", " + image_input("g", "[4]") + ", " + image_input("b", "[4]")},
      {"layer_norm2d"},
      {"instance_norm"},
      {"l2_norm", R"({"axis": 1})"},
      {"lrn", R"({"size": 3, "alpha": 1.0})"},
      {"resize", R"({"mode": "linear", "sizes": [9, 16]})"},
      {"resize", R"({"sizes": [9, 16]})"},
      {"adaptive_pool", R"({"kind": "mean", "out": [4, 3]})"},
      {"im2col", R"({"kernel": [3, 3], "pads": [1, 1]})"},
      {"im2col", R"({"kernel": [3, 3], "pads": [1, 1], "layout": "pixels"})"},
      {"max_pool_backward", R"({"kernel": [3, 2], "stride": [2, 1], "pads": [1, 0, 1, 0]})",
       R"(, "d")", ", " + image_input("d", "[2, 4, 3, 7]")},
      {"conv_transpose", R"({"stride": [2, 2]})", R"(, "w")",
       ", " + image_input("w", "[4, 3, 3, 3]")},
      {"conv_transpose", R"({"stride": [2, 2]})", R"(, "w")",
       ", " + image_input("w", "[4, 3, 2, 2]")},
      {"grid_sample", R"({"padding_mode": "border"})", R"(, "p")",
       ", " + image_input("p", "[2, 5, 7, 2]")},
  };
}

void check_view(const std::string& shape, const std::string& view) {
  for (const ImageOp& image : image_ops()) {
    check_on_devices(
        image_graph(image_input("x", shape) + image.more_inputs,
                    view + ", " + node(image.op, R"("v")" + image.more, "y", image.attributes)));
  }
}

}  // namespace

TEST_CASE("image_ops_read_images_whose_channels_are_last") {
  check_view("[2, 6, 8, 4]", node("transpose", R"("x")", "v", R"({"perm": [0, 3, 1, 2]})"));
}

TEST_CASE("image_ops_read_reversed_images") {
  check_view("[2, 4, 6, 8]",
             node("slice", R"("x")", "v",
                  R"({"starts": [-1], "ends": [-100], "axes": [3], "steps": [-1]})"));
}

TEST_CASE("image_ops_read_broadcast_images") {
  check_view("[2, 1, 6, 1]", node("expand", R"("x")", "v", R"({"shape": [2, 4, 6, 8]})"));
}

TEST_CASE("norms_between_convolutions") {
  const std::string inputs = image_input("x", "[1, 8, 10, 12]") + ", " +
                             image_input("k", "[16, 8, 3, 3]") + ", " +
                             image_input("l", "[8, 16, 3, 3]") + ", " + image_input("g", "[16]") +
                             ", " + image_input("b", "[16]");
  for (const char* norm : {"group_norm", "layer_norm2d", "instance_norm"}) {
    const bool groups = std::string(norm) == "group_norm";
    check_on_devices(image_graph(
        inputs, node("conv", R"("x", "k")", "c", R"({"pads": [1, 1]})") + ", " +
                    node(norm, R"("c", "g", "b")", "n", groups ? R"({"num_groups": 4})" : "{}") +
                    ", " + node("silu", R"("n")", "s") + ", " + node("conv", R"("s", "l")", "y")));
  }
}

TEST_CASE("the gradient of a maximum between convolutions") {
  const std::string inputs =
      image_input("x", "[1, 8, 10, 12]") + ", " + image_input("z", "[1, 8, 5, 6]") + ", " +
      image_input("k", "[16, 8, 3, 3]") + ", " + image_input("l", "[8, 16, 3, 3]");
  check_on_devices(
      image_graph(inputs, node("conv", R"("x", "k")", "c", R"({"pads": [1, 1]})") + ", " +
                              node("conv", R"("z", "k")", "d", R"({"pads": [1, 1]})") + ", " +
                              node("max_pool_backward", R"("c", "d")", "g",
                                   R"({"kernel": [3, 3], "stride": [2, 2], "pads": [1, 1]})") +
                              ", " + node("conv", R"("g", "l")", "y")));
}

}  // namespace rlx::test
