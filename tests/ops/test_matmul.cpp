// SPDX-License-Identifier: Apache-2.0
// Laws of matmul's shapes, diagnostics and choice of kernel.
#include "compiler/ops/product/matmul_coop_tiles.h"
#include "compiler/ops/product/matmul_mma_tiles.h"
#include "compiler/ops/product/matmul_tiles.h"
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

OneNode matmul(Shape a, Shape b, Attributes attributes = {}) {
  return {.op = "matmul",
          .inputs = {f32(std::move(a)), f32(std::move(b))},
          .attributes = std::move(attributes)};
}

}  // namespace

TEST_CASE("matmul_broadcasts_batches_and_drops_unit_dims_of_vectors") {
  CHECK(infer(matmul({2, 1, 4, 5}, {1, 3, 5, 6})).outputs[0].shape == Shape{2, 3, 4, 6});
  CHECK(infer(matmul({5}, {5, 6})).outputs[0].shape == Shape{6});
  CHECK(infer(matmul({4, 5}, {5})).outputs[0].shape == Shape{4});
  CHECK(infer(matmul({5}, {5})).outputs[0].shape == Shape{});
  CHECK(infer(matmul({0, 5}, {5, 6})).outputs[0].shape == Shape{0, 6});
  CHECK(infer(matmul({7, 4, 5}, {6, 5}, {{"trans_b", true}})).outputs[0].shape == Shape{7, 4, 6});
}

TEST_CASE("matmul_result_dtype_follows_the_family_rule") {
  const auto dtype = [](DType a, DType b, Attributes attributes = {}) {
    return infer({.op = "matmul",
                  .inputs = {TensorType{a, {2, 3}}, TensorType{b, {3, 4}}},
                  .attributes = attributes})
        .outputs[0]
        .dtype;
  };
  CHECK(dtype(DType::f32, DType::bf16) == DType::f32);
  CHECK(dtype(DType::f16, DType::f32) == DType::f16);
  CHECK(dtype(DType::f16, DType::f16, {{"out_dtype", std::string("f32")}}) == DType::f32);
  CHECK(dtype(DType::f64, DType::f64) == DType::f64);
  CHECK(dtype(DType::i8, DType::u8) == DType::i32);
}

TEST_CASE("matmul_refuses_what_has_no_product") {
  CHECK(refused(matmul({4, 5}, {6, 7}), "bad-shape", "K=5"));
  CHECK(refused(matmul({2, 4, 5}, {3, 5, 6}), "bad-shape", "batch dims [2] and [3]"));
  CHECK(refused(matmul({}, {5, 6}), "bad-rank", "a has rank 0"));
  CHECK(refused(matmul({5}, {5, 6}, {{"trans_a", true}}), "bad-attribute", "trans_a"));
  CHECK(refused({.op = "matmul", .inputs = {TensorType{DType::bool_, {2, 3}}, f32({3, 4})}},
                "bad-dtype", "bool"));
  CHECK(refused({.op = "matmul", .inputs = {TensorType{DType::f64, {2, 3}}, f32({3, 4})}},
                "bad-dtype", "f64"));
  CHECK(refused(
      {.op = "matmul", .inputs = {TensorType{DType::i32, {2, 3}}, TensorType{DType::i32, {3, 4}}}},
      "bad-dtype", "i32"));
  CHECK(refused(matmul({2, 3}, {3, 4}, {{"out_dtype", std::string("i32")}}), "bad-attribute",
                "out_dtype i32"));
}

TEST_CASE("fused_matmul_refuses_what_the_epilogue_cannot_do") {
  const auto fused = [](std::optional<TensorType> bias, Attributes attributes) {
    return OneNode{.op = "fused_matmul_bias_act",
                   .inputs = {f32({2, 3}), f32({3, 4}), std::move(bias)},
                   .attributes = std::move(attributes)};
  };
  CHECK(refused(fused(f32({3}), {}), "bad-shape", "bias [3]"));
  CHECK(refused(fused(f32({5, 2, 4}), {}), "bad-shape", "does not broadcast"));
  CHECK(refused(fused({}, {{"activation", std::string("softmax")}}), "bad-attribute", "softmax"));
  CHECK(refused(fused({}, {{"activation", std::string("relu")}, {"alpha", 0.5}}), "bad-attribute",
                "alpha"));
  CHECK(refused(fused({}, {{"activation", std::string("powf")}}), "bad-attribute", "exponent"));
  CHECK(refused(fused({}, {{"beta", 0.5}}), "bad-attribute", "beta"));
}

TEST_CASE("matmul_names_its_kernel_in_the_reason") {
  const Program tiles = lower(matmul({128, 384}, {384, 1536}));
  CHECK(contains(tiles.steps.at(0).reason, "tile"));
  CHECK(contains(tiles.steps.at(0).reason, "workgroups"));
  const Program vector = lower(matmul({1, 384}, {384, 1536}));
  CHECK(contains(vector.steps.at(0).reason, "matvec: m=1"));
  const Program columns = lower(matmul({500, 384}, {384, 3}));
  CHECK(contains(columns.steps.at(0).reason, "matvec: n=3"));
}

TEST_CASE("matmul_makes_one_product_of_a_batch_over_one_matrix") {
  const Program program = lower(matmul({2, 64, 32}, {32, 48}));
  REQUIRE(program.steps.size() == 1);
  CHECK(kernel_of(program, 0).defines.at("RLX_BATCHES") == "1");
  CHECK(kernel_of(program, 0).defines.at("RLX_M") == "128");
}

TEST_CASE("matmul_reads_transposed_views_in_place_and_copies_views_without_unit_axis") {
  const Program transposed =
      OneNodeGraph(matmul({64, 32}, {32, 48})).lower({{.input = 1, .strides = {1, 32}}});
  REQUIRE(transposed.steps.size() == 1);
  CHECK(kernel_of(transposed, 0).defines.at("RLX_B_DEPTH") == "1");
  CHECK(kernel_of(transposed, 0).defines.at("RLX_B_VECTOR") == "DEPTH");
  const Program strided =
      OneNodeGraph(matmul({64, 32}, {32, 48})).lower({{.input = 1, .strides = {96, 2}}});
  REQUIRE(strided.steps.size() == 2);
  CHECK(contains(strided.steps[1].reason, "matmul"));
  CHECK(kernel_of(strided, 1).defines.at("RLX_B_DEPTH") == "48");
}

TEST_CASE("matmul_reads_vectors_only_where_alignment_allows") {
  const Program odd = lower(matmul({64, 33}, {33, 50}));
  CHECK(kernel_of(odd, 0).defines.at("RLX_A_VECTOR") == "1");
  CHECK(kernel_of(odd, 0).defines.at("RLX_B_VECTOR") == "1");
  CHECK(kernel_of(odd, 0).defines.at("RLX_Y_VECTOR") == "1");
  const Program even = lower(matmul({64, 32}, {32, 48}));
  CHECK(kernel_of(even, 0).defines.at("RLX_A_VECTOR") == "DEPTH");
  CHECK(kernel_of(even, 0).defines.at("RLX_B_VECTOR") == "LINE");
}

TEST_CASE("matmul_chooses_every_tile_for_the_shapes_of_the_conformance_table") {
  const DeviceModel& device = find_target("vulkan")->device;
  const auto tile = [&](int64_t m, int64_t n, int64_t k) {
    return choose_tile({.m = m, .n = n, .k = k}, {}, device).text();
  };
  CHECK(contains(tile(2048, 2048, 16), "128x128x16"));
  CHECK(contains(tile(1900, 1900, 18), "128x128x16"));
  CHECK(
      contains(choose_tile({.m = 2048, .n = 2048, .k = 16}, {.allow_shallow = true}, device).text(),
               "128x128x8"));
  CHECK(contains(tile(1408, 1924, 16), "64x128x16"));
  CHECK(contains(tile(1407, 1923, 15), "64x128x16"));
  CHECK(contains(tile(512, 512, 16), "32x64x16"));
  CHECK(contains(tile(509, 511, 15), "32x64x16"));
  CHECK(contains(tile(64, 64, 400), "16x32x128"));
  CHECK(contains(tile(63, 61, 399), "16x32x128"));
  CHECK(contains(tile(1500, 1500, 16), "64x64x16"));
  CHECK(contains(tile(1499, 1501, 15), "64x64x16"));
  CHECK(contains(tile(16, 8448, 64), "16x64x32"));
  CHECK(contains(tile(13, 8447, 63), "16x64x32"));
  CHECK(contains(tile(16, 34000, 16), "16x128x16"));
  CHECK(contains(tile(15, 34001, 15), "16x128x16"));
  CHECK(contains(tile(8448, 16, 64), "64x16x32"));
  CHECK(contains(tile(8447, 13, 63), "64x16x32"));
  CHECK(contains(tile(128, 128, 64), "32x32x32"));
}

TEST_CASE("matmul_takes_tensor_cores_where_the_target_has_them_and_the_operands_fit") {
  const auto kernel = [](DType dtype, Shape a, Shape b, const std::string& target) {
    const Program program =
        lower({.op = "matmul",
               .inputs = {TensorType{dtype, std::move(a)}, TensorType{dtype, std::move(b)}},
               .target = target});
    return kernel_of(program, program.steps.size() - 1).kernel;
  };
  CHECK(kernel(DType::f16, {128, 384}, {384, 384}, "cuda") == KernelId::matmul_mma);
  CHECK(kernel(DType::f32, {128, 384}, {384, 384}, "cuda") == KernelId::matmul_mma);
  CHECK(kernel(DType::f16, {128, 384}, {384, 384}, "vulkan") == KernelId::matmul);
  CHECK(kernel(DType::f64, {128, 384}, {384, 384}, "cuda") == KernelId::matmul);
  CHECK(kernel(DType::f16, {128, 384}, {384, 384}, "vulkan-nvidia") == KernelId::matmul_coop);
  CHECK(kernel(DType::bf16, {128, 384}, {384, 384}, "vulkan-nvidia") == KernelId::matmul_coop);
  CHECK(kernel(DType::f32, {128, 384}, {384, 384}, "vulkan-nvidia") == KernelId::matmul);
  // Rows of 7 values are no whole pieces of 16 bytes, nor of 4.
  CHECK(kernel(DType::f16, {128, 7}, {7, 384}, "vulkan-nvidia") == KernelId::matmul_coop);
  CHECK(kernel(DType::f16, {128, 7}, {7, 384}, "cuda") == KernelId::matmul_mma);
  // Parts of f32 need sums of some length to be as accurate as f32.
  CHECK(kernel(DType::f32, {128, 16}, {16, 384}, "cuda") == KernelId::matmul);
}

TEST_CASE("matmul_says_why_not_tensor_cores") {
  const Program program =
      lower({.op = "matmul",
             .inputs = {TensorType{DType::f16, {128, 384}}, TensorType{DType::f32, {384, 384}}},
             .target = "cuda"});
  CHECK(refusal_by(program, "matmul_mma") == "operands of two dtypes");
}

TEST_CASE("matmul_counts_f32_as_tf32_only_where_that_is_allowed") {
  OneNode node = matmul({128, 384}, {384, 384});
  node.target = "cuda";
  CHECK(kernel_of(lower(node), 0).defines.at("RLX_TF32") == "0");
  node.products = ProductPrecision::Tf32;
  CHECK(kernel_of(lower(node), 0).defines.at("RLX_TF32") == "1");
}

TEST_CASE("tensor_core_tiles_cover_the_product_and_fit_the_device") {
  const DeviceModel& device = find_target("cuda")->device;
  for (const MmaKind kind : {MmaKind::Half, MmaKind::SplitF32, MmaKind::Tf32}) {
    for (const int64_t m : {5, 16, 100, 128, 1000}) {
      for (const int64_t n : {8, 100, 384, 3072}) {
        for (const int64_t k : {8, 72, 768, 3072}) {
          const MmaProblem problem{.m = m, .n = n, .k = k, .kind = kind, .b_by_line = n == 384};
          const MmaChoice choice = choose_mma({&problem, 1}, device);
          INFO(m << "x" << n << "x" << k << ": " << choice.text());
          CHECK(choice.tiles * choice.tile.m * choice.tile.n >= m * n);
          CHECK(choice.splits * choice.split_k >= k);
          CHECK((choice.splits - 1) * choice.split_k < k);
          CHECK(choice.groups == choice.tiles * choice.splits);
          const uint64_t lines = choice.tile.m + choice.tile.n + (problem.b_by_line ? 8 : 0);
          const uint64_t stage = lines * choice.tile.stage_bytes;
          if (!choice.by_part_groups) {
            CHECK(choice.stages * stage + 1024 <= device.shared_bytes);
            continue;
          }
          // What they leave out shows in sums of fewer products; parts of two blocks stand beside.
          CHECK((kind == MmaKind::SplitF32 && k >= 192));
          const uint64_t parts = choice.tile.m + (problem.b_by_line ? 2 : 1) * choice.tile.n;
          CHECK(choice.stages * stage + 2 * parts * choice.tile.stage_bytes + 1024 <= 227 * 1024);
        }
      }
    }
  }
}

TEST_CASE("matmul_says_why_not_cooperative_matrices") {
  OneNode node = matmul({128, 384}, {384, 384});
  node.target = "vulkan-khr-coop";
  CHECK(refusal_by(lower(node), "matmul_coop") == "operands of f32 and f32");
}

TEST_CASE("matmul_of_f32_is_in_parts_where_sums_are_added_by_element") {
  OneNode node = matmul({128, 384}, {384, 384});
  node.target = "vulkan-nvidia";
  const Program program = lower(node);
  const Specialization& kernel = kernel_of(program, 0);
  CHECK(kernel.kernel == KernelId::matmul_coop);
  CHECK(kernel.defines.at("RLX_PARTS") == "3");
  CHECK(kernel.defines.at("RLX_MATRIX") == "bf16");
  CHECK(contains(program.steps[0].reason, "f32 in parts of bf16"));
}

TEST_CASE("cooperative_tiles_cover_the_product_and_fit_into_shared_memory") {
  const DeviceModel& device = find_target("vulkan-nvidia")->device;
  for (const int64_t m : {1, 33, 128, 4096}) {
    for (const int64_t n : {8, 100, 384, 4096}) {
      for (const int64_t k : {8, 72, 768, 4096}) {
        for (const auto& [by_line, in_parts] : {std::pair(false, false), std::pair(true, false),
                                                std::pair(false, true), std::pair(true, true)}) {
          const CoopProblem problem{.m = m,
                                    .n = n,
                                    .k = k,
                                    .a_by_line = by_line,
                                    .b_by_line = by_line,
                                    .in_parts = in_parts};
          const CoopChoice choice = choose_coop({&problem, 1}, device);
          INFO(m << "x" << n << "x" << k << ": " << choice.text());
          const CoopTile& tile = choice.tile;
          CHECK(choice.splits * choice.split_k >= k);
          CHECK((choice.splits - 1) * choice.split_k < k);
          CHECK(choice.groups * tile.m * tile.n >= m * n * choice.splits);
          CHECK(tile.m % (16 * tile.warps_m) == 0);
          CHECK(tile.n % (16 * tile.warps_n) == 0);
          CHECK(tile.k % (16 * tile.warps_k) == 0);
          const uint32_t parts = in_parts ? 3 : 1;
          const uint64_t halves = by_line ? tile.k * (parts * (tile.m + tile.n) + 16)
                                          : (tile.m + tile.n) * (parts * tile.k + 8);
          CHECK(2 * tile.stages * halves <= device.shared_bytes);
          CHECK(tile.sum_bytes() <= device.shared_bytes);
          CHECK(tile.n / tile.warps_n / 16 % tile.sum_matrices() == 0);
          const int64_t blocks = choice.split_k / tile.k;
          CHECK(blocks % choice.ahead == 0);
          if (choice.ahead > 1) CHECK(choice.splits * blocks * tile.k - k < tile.k);
        }
      }
    }
  }
}

TEST_CASE("tensor_core_products_of_few_tiles_split_k_over_clusters") {
  const DeviceModel& device = find_target("cuda")->device;
  const MmaProblem few{.m = 128, .n = 768, .k = 3072};
  const MmaProblem many{.m = 4096, .n = 3072, .k = 768};
  CHECK(choose_mma({&few, 1}, device).splits > 1);
  CHECK(choose_mma({&many, 1}, device).splits == 1);
}

TEST_CASE("matmul_splits_a_long_k_over_few_tiles_and_joins_in_order") {
  const Program program = lower(matmul({64, 16384}, {16384, 64}));
  REQUIRE(program.steps.size() == 2);
  CHECK(contains(program.steps[0].reason, "split-k"));
  CHECK(kernel_of(program, 1).defines.at("RLX_PASS") == "2");
}

TEST_CASE("matmul_spreads_many_tiles_over_grid_axes") {
  const Program program = lower(matmul({100000, 8, 16}, {100000, 16, 8}));
  const Grid grid = program.steps.at(0).grid;
  CHECK(grid.x <= 65535);
  CHECK(uint64_t{grid.x} * grid.y * grid.z >= 100000);
}

TEST_CASE("residual_may_be_overwritten_only_where_no_other_operand_reads_it") {
  const Program apart =
      lower({.op = "fused_matmul_bias_act",
             .inputs = {f32({8, 16}), f32({16, 16}), std::nullopt, f32({8, 16})}});
  CHECK(apart.steps.back().in_place_input.has_value());
  const Program row = lower({.op = "fused_matmul_bias_act",
                             .inputs = {f32({8, 16}), f32({16, 16}), std::nullopt, f32({16})}});
  CHECK_FALSE(row.steps.back().in_place_input.has_value());
}

}  // namespace rlx::test
