// SPDX-License-Identifier: Apache-2.0
// Laws of conv's shapes, diagnostics and choice of kernel.
#include "compiler/ops/vision/conv_mma_tiles.h"
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

OneNode conv(Shape x, Shape w, Attributes attributes = {}) {
  return {.op = "conv",
          .inputs = {TensorType{DType::f32, std::move(x)}, TensorType{DType::f32, std::move(w)}},
          .attributes = std::move(attributes)};
}

ConvTiling tiling_of(const ConvProduct& product, const DeviceModel& device) {
  return choose_conv_tiling({&product, 1}, device);
}

}  // namespace

TEST_CASE("conv_output_size_follows_window_pads_and_dilation") {
  CHECK(infer(conv({1, 3, 9, 9}, {4, 3, 3, 3})).outputs[0].shape == Shape{1, 4, 7, 7});
  CHECK(
      infer(conv({1, 3, 9, 9}, {4, 3, 3, 3}, {{"stride", Ints{2, 3}}, {"pads", Ints{0, 1, 2, 0}}}))
          .outputs[0]
          .shape == Shape{1, 4, 5, 3});
  CHECK(infer(conv({1, 3, 9}, {4, 3, 3}, {{"dilation", Ints{4}}})).outputs[0].shape ==
        Shape{1, 4, 1});
  CHECK(infer(conv({1, 1, 5, 5, 5}, {2, 1, 2, 2, 2})).outputs[0].shape == Shape{1, 2, 4, 4, 4});
}

TEST_CASE("conv_refuses_what_does_not_fit") {
  CHECK(refused(conv({1, 3, 2, 9}, {4, 3, 3, 3}), "bad-shape",
                "reaches over 3 elements of spatial dim 0"));
  CHECK(refused(conv({1, 3, 9, 9}, {4, 2, 3, 3}), "bad-shape", "reads 2 channels"));
  CHECK(
      refused(conv({1, 3, 9, 9}, {4, 1, 3, 3}, {{"groups", int64_t{3}}}), "bad-shape", "groups=3"));
  CHECK(refused(conv({1, 3, 9, 9}, {4, 3, 3}), "bad-rank", "w has rank 3"));
  CHECK(refused(conv({3, 9}, {4, 3}), "bad-rank", "x has rank 2"));
  CHECK(refused(conv({1, 3, 9, 9}, {4, 3, 3, 3}, {{"stride", Ints{2, 2, 2}}}), "bad-rank",
                "stride has 3 values"));
  CHECK(refused(conv({1, 3, 9, 9}, {4, 3, 3, 3}, {{"pads", Ints{1, 1, 1}}}), "bad-rank",
                "pads has 3 values"));
  CHECK(refused(conv({1, 3, 9, 9}, {4, 3, 3, 3}, {{"kernel", Ints{5, 5}}}), "bad-attribute",
                "kernel [5, 5]"));
  OneNode bias = conv({1, 3, 9, 9}, {4, 3, 3, 3});
  bias.inputs.push_back(TensorType{DType::f32, {3}});
  CHECK(refused(bias, "bad-shape", "bias has shape [3]"));
}

TEST_CASE("conv_chooses_product_depthwise_or_implicit_product") {
  CHECK(
      contains(lower(conv({2, 16, 8, 8}, {32, 16, 1, 1})).steps.at(0).reason, "1x1 conv: matmul"));
  CHECK(contains(
      lower(conv({2, 16, 8, 8}, {16, 1, 3, 3}, {{"groups", int64_t{16}}})).steps.at(0).reason,
      "depthwise conv"));
  CHECK(
      contains(lower(conv({2, 16, 8, 8}, {32, 16, 3, 3})).steps.at(0).reason, "implicit product"));
}

TEST_CASE("conv_tiles_follow_the_size_of_the_product") {
  const DeviceModel& device = find_target("cuda")->device;
  // ResNet-50 with one image: small tiles whose warps share k; clusters where pixels are few.
  const ConvTiling one = tiling_of({.m = 3136, .n = 64, .k = 576}, device);
  CHECK_FALSE(one.tile.by_groups);
  CHECK(one.tile.warps_k == 4);
  CHECK(tiling_of({.m = 49, .n = 512, .k = 4608}, device).split > 1);
  // With 32 images: warpgroups, smaller tiles for the residual's sake.
  const ConvTiling many = tiling_of({.m = 25088, .n = 256, .k = 512}, device);
  CHECK(many.tile.by_groups);
  CHECK(many.tile.tile_m * many.tile.tile_n == 128 * 128);
  const ConvTiling residual =
      tiling_of({.m = 100352, .n = 256, .k = 64, .has_residual = true}, device);
  CHECK(residual.tile.by_groups);
  CHECK(residual.tile.tile_m * residual.tile.tile_n == 64 * 64);
  CHECK(residual.stages == 1);
  // Warpgroups multiply 16-bit types and f32 in parts, not tf32.
  CHECK_FALSE(
      tiling_of({.m = 25088, .n = 256, .k = 512, .element_bytes = 4}, device).tile.by_groups);
  const auto parts = [&](int64_t m, int64_t n, int64_t k) {
    return tiling_of({.m = m, .n = n, .k = k, .element_bytes = 4, .in_parts = true}, device);
  };
  CHECK(parts(25088, 256, 512).tile.by_groups);
  CHECK(parts(49, 512, 4608).split > 1);
  // What warpgroups leave out shows in sums of few products.
  CHECK_FALSE(parts(25088, 256, 188).tile.by_groups);
}

TEST_CASE("conv_runs_on_cooperative_matrices_where_the_target_has_them") {
  // The defines of the node's product.
  const auto product = [](Shape x, Shape w, DType dtype, Attributes attributes = {}) {
    OneNode node = conv({}, {}, std::move(attributes));
    node.inputs = {TensorType{dtype, std::move(x)}, TensorType{dtype, std::move(w)}};
    node.target = "vulkan-nvidia";
    const Program program = lower(node);
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const Specialization& kernel = kernel_of(program, i);
      if (kernel.kernel != KernelId::matmul_coop) continue;
      CHECK(contains(program.steps[i].reason, "channels last"));
      return kernel.defines;
    }
    return decltype(Specialization::defines){};
  };
  CHECK(product({2, 64, 8, 8}, {32, 64, 3, 3}, DType::f16).at("RLX_WINDOWS") == "1");
  CHECK(product({2, 64, 8, 8}, {32, 64, 3, 3}, DType::bf16).at("RLX_WINDOWS") == "1");
  CHECK(product({2, 3, 8, 8}, {32, 3, 3, 3}, DType::f16).at("RLX_WINDOWS") == "2");
  CHECK(product({2, 64, 8, 8}, {32, 64, 1, 1}, DType::f16).at("RLX_WINDOWS") == "0");
  CHECK(product({2, 64, 8, 8}, {32, 64, 1, 1}, DType::f16, {{"stride", Ints{2, 2}}})
            .at("RLX_WINDOWS") == "1");
  CHECK(product({2, 64, 8, 8}, {32, 64, 3, 3}, DType::f32).at("RLX_PARTS") == "3");
  CHECK(product({2, 3, 8, 8}, {32, 3, 3, 3}, DType::f32).at("RLX_WINDOWS") == "2");
  // Rows of pixels are copied before and behind.
  CHECK(product({1, 256, 2048}, {256, 256, 3}, DType::f16).at("RLX_WINDOWS") == "1");
  CHECK(product({1, 16, 64}, {16, 16, 3}, DType::f16).empty());
  // Both groups as one bundle.
  CHECK(product({2, 64, 8, 8}, {32, 32, 3, 3}, DType::f16, {{"groups", int64_t{2}}})
            .at("RLX_BUNDLED") == "2");
  CHECK(product({2, 64, 8, 8}, {64, 1, 3, 3}, DType::f16, {{"groups", int64_t{64}}}).empty());
}

TEST_CASE("conv_reads_strided_inputs_without_a_copy") {
  const Program program = OneNodeGraph(conv({2, 4, 6, 6}, {5, 4, 3, 3}))
                              .lower({{.input = 0, .strides = {1, 2, 48, 8}}});
  REQUIRE(program.steps.size() == 1);
  CHECK(kernel_of(program, 0).defines.at("RLX_X_C") == "2");
}

}  // namespace rlx::test
