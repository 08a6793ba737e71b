// SPDX-License-Identifier: Apache-2.0
// Laws of shapes, diagnostics and dispatch counts of the vision ops and the norms over channels.
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

OneNode node(std::string op, std::vector<std::optional<TensorType>> inputs,
             Attributes attributes = {}) {
  return {.op = std::move(op), .inputs = std::move(inputs), .attributes = std::move(attributes)};
}

Shape shape_of(const OneNode& spec) {
  const Inferred result = infer(spec);
  UNSCOPED_INFO(result.diagnostics);
  return result.good ? result.outputs[0].shape : Shape{-1};
}

}  // namespace

TEST_CASE("resize_takes_sizes_or_scales") {
  const TensorType x = f32({1, 2, 5, 7});
  CHECK(shape_of(node("resize", {x}, {{"sizes", Ints{3, 9}}})) == Shape{1, 2, 3, 9});
  CHECK(shape_of(node("resize", {x}, {{"scales", Floats{1.7, 0.5}}})) == Shape{1, 2, 8, 3});
  CHECK(shape_of(node("resize", {x}, {{"sizes", Ints{4}}, {"axes", Ints{-3}}})) ==
        Shape{1, 4, 5, 7});
  CHECK(refused(node("resize", {x}), "bad-attribute", "neither sizes nor scales"));
  CHECK(refused(node("resize", {x}, {{"sizes", Ints{3, 9}}, {"scales", Floats{1, 1}}}),
                "bad-attribute", "both sizes and scales"));
  CHECK(refused(node("resize", {x}, {{"sizes", Ints{3}}}), "bad-attribute", "wanted 2"));
  CHECK(refused(node("resize", {x}, {{"scales", Floats{1, 0}}}), "bad-attribute", "positive"));
  CHECK(refused(node("resize", {f32({1, 2, 0})}, {{"sizes", Ints{3}}}), "bad-shape", "is empty"));
}

TEST_CASE("resize_refuses_what_it_would_have_to_ignore") {
  const TensorType x = f32({1, 2, 5});
  const Attributes sizes = {{"sizes", Ints{4}}};
  Attributes crop = sizes;
  crop["coord"] = std::string("tf_crop_and_resize");
  CHECK(refused(node("resize", {x}, crop), "unsupported-op", "tf_crop_and_resize"));
  Attributes smooth = sizes;
  smooth["antialias"] = true;
  CHECK(refused(node("resize", {x}, smooth), "bad-attribute", "antialias"));
  Attributes linear = sizes;
  linear["mode"] = std::string("linear");
  CHECK(refused(node("resize", {TensorType{DType::u8, {1, 2, 5}}}, linear), "bad-dtype", "u8"));
  CHECK(infer(node("resize", {TensorType{DType::u8, {1, 2, 5}}}, sizes)).good);
}

TEST_CASE("conv_transpose_output_size") {
  const TensorType x = f32({1, 4, 5});
  const TensorType w = f32({4, 3, 3});
  CHECK(shape_of(node("conv_transpose", {x, w}, {{"stride", Ints{2}}})) == Shape{1, 3, 11});
  CHECK(shape_of(node("conv_transpose", {x, w},
                      {{"stride", Ints{2}}, {"pads", Ints{1}}, {"output_padding", Ints{1}}})) ==
        Shape{1, 3, 10});
  CHECK(shape_of(node("conv_transpose", {x, w},
                      {{"stride", Ints{2}}, {"output_shape", Ints{9}}})) == Shape{1, 3, 9});
  CHECK(refused(node("conv_transpose", {x, w}, {{"stride", Ints{2}}, {"output_padding", Ints{2}}}),
                "bad-attribute", "output_padding 2"));
  CHECK(refused(node("conv_transpose", {x, w}, {{"pads", Ints{4, 4}}}), "bad-shape",
                "wanted at least 1"));
  CHECK(refused(node("conv_transpose", {x, f32({6, 3, 3})}), "bad-shape", "takes 6 channels"));
  CHECK(refused(node("conv_transpose", {x, w}, {{"groups", int64_t{3}}}), "bad-shape", "3 groups"));
}

TEST_CASE("channel_norms_refuse_wrong_groups_and_parameters") {
  const TensorType x = f32({2, 6, 5, 5});
  CHECK(infer(node("group_norm", {x, f32({6})}, {{"num_groups", int64_t{3}}})).good);
  CHECK(
      refused(node("group_norm", {x}, {{"num_groups", int64_t{4}}}), "bad-shape", "num_groups=4"));
  CHECK(refused(node("group_norm", {x, f32({3})}, {{"num_groups", int64_t{3}}}), "bad-shape",
                "gamma has shape [3]"));
  CHECK(refused(node("layer_norm2d", {f32({2, 6, 5})}), "bad-rank", "H, W"));
  CHECK(refused(node("instance_norm", {f32({6})}), "bad-rank", "rank 1"));
}

TEST_CASE("columns_and_adaptive_windows") {
  const TensorType x = f32({2, 3, 6, 7});
  CHECK(shape_of(node("im2col", {x}, {{"kernel", Ints{3, 2}}})) == Shape{48, 18});
  CHECK(
      shape_of(node("im2col", {x}, {{"kernel", Ints{3, 2}}, {"layout", std::string("unfold")}})) ==
      Shape{2, 18, 24});
  CHECK(shape_of(node("col2im", {f32({48, 18})},
                      {{"out_hw", Ints{6, 7}}, {"kernel", Ints{3, 2}}})) == Shape{2, 3, 6, 7});
  CHECK(refused(node("col2im", {f32({47, 18})}, {{"out_hw", Ints{6, 7}}, {"kernel", Ints{3, 2}}}),
                "bad-shape", "wanted [N * 24, C * 6]"));
  CHECK(refused(node("adaptive_pool", {x}, {{"kind", std::string("max")}, {"out", Ints{2}}}),
                "bad-attribute", "wanted 2"));
  CHECK(refused(node("grid_sample", {x, f32({2, 4, 4, 3})}), "bad-shape", "wanted [N, C, H, W]"));
  CHECK(refused(node("grid_sample", {f32({2, 3, 4, 5, 6}), f32({2, 4, 4, 4, 2})}), "bad-shape",
                "or [N, C, D, H, W] and [N, Do, Ho, Wo, 3]"));
}

TEST_CASE("long_rows_of_moments_go_in_parts_that_fill_the_device") {
  const Program whole = lower({.op = "moments",
                               .inputs = {f32({600, 8000})},
                               .attributes = {{"axes", Ints{1}}},
                               .outputs = 3});
  CHECK(whole.steps.size() == 1);
  const Program parts = lower({.op = "moments",
                               .inputs = {f32({2, 320, 64, 64})},
                               .attributes = {{"groups", int64_t{32}}},
                               .outputs = 3});
  REQUIRE(parts.steps.size() == 2);
  CHECK(parts.steps[0].grid.x >= 128);
}

}  // namespace rlx::test
