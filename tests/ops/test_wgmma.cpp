// SPDX-License-Identifier: Apache-2.0
// Which products go to matmul_wgmma, in which tiles, and what its copy engine is told.
#include <algorithm>

#include "compiler/ops/product/matmul_library.h"
#include "compiler/ops/product/matmul_wgmma.h"
#include "schema/tensor_map.h"
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

const DeviceModel& cuda() {
  return find_target("cuda")->device;
}

TensorType bf16(Shape shape) {
  return {DType::bf16, std::move(shape)};
}

// x [m, k], two weights [n, k].
OneNode gated(int64_t m, int64_t n, int64_t k) {
  return {.op = "fused_norm_matmul",
          .inputs = {bf16({m, k}), bf16({n, k}), bf16({n, k})},
          .attributes = {{"activation", std::string("silu")}},
          .target = "cuda"};
}

// The step of the kernel among a product's own and alternative steps, with its specialization.
const Specialization* wgmma_of(const Program& program) {
  const Specialization* found = nullptr;
  for_each_step(program, [&](const Step& step) {
    if (!step.kernel) return;
    const Specialization& kernel = program.kernels.at(index_of(*step.kernel));
    if (kernel.kernel == KernelId::matmul_wgmma) found = &kernel;
  });
  return found;
}

OneNode product(DType dtype, int64_t m, int64_t n, int64_t k, bool rows = true) {
  return {
      .op = "fused_matmul_bias_act",
      .inputs = {TensorType{dtype, {m, k}}, TensorType{dtype, rows ? Shape{n, k} : Shape{k, n}}},
      .attributes = {{"trans_w", rows}},
      .target = "cuda"};
}

}  // namespace

TEST_CASE("a_large_gated_pair_is_one_dispatch") {
  const Program program = lower(gated(1024, 8192, 2048));
  REQUIRE(program.steps.size() == 1);
  const Specialization* kernel = wgmma_of(program);
  REQUIRE(kernel != nullptr);
  CHECK(kernel->defines.at("RLX_GATED") == "1");
  CHECK(kernel->defines.at("RLX_MAPS") == "4");
  CHECK(program.steps[0].flops == uint64_t{4} * 1024 * 8192 * 2048);
  CHECK(program.steps[0].grid.x % 2 == 0);
}

TEST_CASE("tiles_of_a_gated_pair_with_few_lines_lie_beside_each_other") {
  const auto beside = [](int64_t m) {
    const Program program = lower(gated(m, 8192, 2048));
    const Specialization* kernel = wgmma_of(program);
    REQUIRE(kernel != nullptr);
    return kernel->defines.at("RLX_BESIDE") == "1";
  };
  CHECK(beside(40));
  CHECK(beside(128));
  CHECK_FALSE(beside(256));
  CHECK(beside(384));
  CHECK_FALSE(beside(1024));
  const Program program = lower(gated(77, 8192, 2048));
  CHECK(program.steps.at(0).grid.x == 128);
  const std::vector<TensorMap>& maps = wgmma_of(program)->maps;
  CHECK(maps.at(0).box == std::vector<uint32_t>{64, 32});
  CHECK(maps.at(1).box == std::vector<uint32_t>{64, 64});
}

TEST_CASE("maps_reach_over_just_what_is_read") {
  const Program program = lower(gated(200, 136, 104));
  const Specialization* kernel = wgmma_of(program);
  REQUIRE(kernel != nullptr);
  REQUIRE(kernel->maps.size() == 4);
  for (const TensorMap& map : kernel->maps) {
    const auto& accesses = program.steps[0].accesses;
    const auto access = std::find_if(accesses.begin(), accesses.end(),
                                     [&](const Access& a) { return a.position == map.position; });
    REQUIRE(access != accesses.end());
    CHECK((map.dims[1] - 1) * map.strides[0] + map.dims[0] * 2 == access->range_bytes);
    CHECK(access->alignment_bytes == 16);
    CHECK(map.box[0] * 2 == map.swizzle_bytes);
  }
  CHECK(kernel->maps[0].dims == std::vector<uint64_t>{104, 200});
  CHECK(kernel->maps[2].dims == std::vector<uint64_t>{104, 136});
  CHECK(kernel->maps[3].dims == std::vector<uint64_t>{136, 200});
}

TEST_CASE("maps_of_free_lines_have_as_many_as_the_range") {
  OneNode node = product(DType::f16, 4096, 3072, 768);
  node.without = {"matmul_mma", "library"};
  node.inputs[0]->shape[0] = Dim::of({.index = 0, .name = "rows", .minimum = 1, .maximum = 4096});
  const Program program = lower(node);
  const Specialization* kernel = wgmma_of(program);
  REQUIRE(kernel != nullptr);
  CHECK(kernel->defines.at("RLX_M") == "RLX_FREE_SIZE(0)");
  REQUIRE(kernel->maps.size() == 3);
  CHECK(kernel->maps[0].dims == std::vector<uint64_t>{768, kLinesOfRange});
  CHECK(kernel->maps[1].dims == std::vector<uint64_t>{768, 3072});
  CHECK(kernel->maps[2].dims == std::vector<uint64_t>{3072, kLinesOfRange});
  CHECK(program.steps[0].grid.x.range().least >= 2);
}

TEST_CASE("windows_of_images_are_copied_as_the_map_says") {
  OneNode node{
      .op = "conv",
      .inputs = {TensorType{DType::f16, {3, 72, 21, 23}}, TensorType{DType::f16, {80, 72, 3, 3}}},
      .attributes = {{"pads", Ints{2, 1, 0, 1}}, {"stride", Ints{2, 1}}, {"dilation", Ints{1, 2}}},
      .target = "cuda",
      .without = {"conv_mma"}};
  const Program program = lower(node);
  const Specialization* kernel = wgmma_of(program);
  REQUIRE(kernel != nullptr);
  CHECK(kernel->defines.at("RLX_M") == "693");  // 3 images of 11 x 21 pixels
  const TensorMap& pixels = kernel->maps.at(0);
  CHECK(pixels.dims == std::vector<uint64_t>{72, 23, 21, 3});
  CHECK(pixels.strides == std::vector<uint64_t>{144, 23 * 144, 21 * 23 * 144});
  CHECK(pixels.box == std::vector<uint32_t>{64, 128});
  // Columns begin at -1 to 19, rows at -2 to 18.
  CHECK(pixels.window ==
        PixelWindow{
            .begin_w = -1, .begin_h = -2, .end_w = -3, .end_h = -2, .stride_w = 1, .stride_h = 2});
  CHECK(kernel->maps.at(1).dims == std::vector<uint64_t>{72, 9, 80});

  node.inputs[0]->shape[0] = Dim::of({.index = 0, .name = "images", .minimum = 1, .maximum = 3});
  const Program free = lower(node);
  REQUIRE(wgmma_of(free) != nullptr);
  CHECK(wgmma_of(free)->maps.at(0).dims.back() == kLinesOfRange);
}

TEST_CASE("windows_of_images_of_free_sizes_are_copied_by_sizes_of_the_kernel") {
  OneNode node{
      .op = "conv",
      .inputs = {TensorType{DType::f16, {1, 64, 24, 24}}, TensorType{DType::f16, {64, 64, 3, 3}}},
      .attributes = {{"pads", Ints{1, 1}}, {"stride", Ints{2, 2}}},
      .target = "cuda",
      .without = {"conv_mma"}};
  node.inputs[0]->shape[2] =
      Dim::of({.index = 0, .name = "height", .minimum = 1, .maximum = 100}) + 28;
  node.inputs[0]->shape[3] = Dim::of({.index = 1, .name = "width", .minimum = 29, .maximum = 128});
  const Program program = lower(node);
  const Specialization* kernel = wgmma_of(program);
  REQUIRE(kernel != nullptr);
  const TensorMap& pixels = kernel->maps.at(0);
  CHECK(pixels.dims == std::vector<uint64_t>{64, 0, 0, 1});
  CHECK(pixels.strides == std::vector<uint64_t>{128, 0, 0});
  REQUIRE(pixels.sizes.size() == 2);
  CHECK(pixels.sizes[0].dim == 1);
  CHECK(pixels.sizes[0].size.range().most == 128);
  CHECK(pixels.sizes[1].dim == 2);
  // Whatever the sizes, as many steps of the stride as there are pixels of y.
  CHECK(pixels.window ==
        PixelWindow{
            .begin_w = -1, .begin_h = -1, .end_w = -1, .end_h = -1, .stride_w = 2, .stride_h = 2});
  node.inputs[0]->shape[3] = Dim::of({.index = 1, .name = "width", .minimum = 0, .maximum = 128});
  CHECK(wgmma_of(lower(node)) == nullptr);  // an image without pixels
}

TEST_CASE("windows_that_the_copy_engine_does_not_take_are_for_other_kernels") {
  const auto takes = [](Shape x, Shape w, Ints pads, Ints dilation, Ints stride) {
    OneNode node{
        .op = "conv",
        .inputs = {TensorType{DType::f16, std::move(x)}, TensorType{DType::f16, std::move(w)}},
        .attributes = {{"pads", std::move(pads)},
                       {"dilation", std::move(dilation)},
                       {"stride", std::move(stride)}},
        .target = "cuda",
        .without = {"conv_mma"}};
    return wgmma_of(lower(node)) != nullptr;
  };
  CHECK(takes({1, 64, 24, 24}, {64, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}));
  CHECK(takes({1, 64, 300, 300}, {64, 64, 3, 3}, {1, 1}, {64, 64}, {1, 1}));
  CHECK_FALSE(takes({1, 64, 300, 300}, {64, 64, 3, 3}, {1, 1}, {65, 65}, {1, 1}));
  CHECK_FALSE(takes({1, 64, 24, 24}, {64, 64, 3, 3}, {129, 129}, {1, 1}, {1, 1}));
  CHECK_FALSE(takes({1, 64, 300, 300}, {64, 64, 3, 3}, {1, 1}, {1, 1}, {9, 9}));
  CHECK_FALSE(takes({1, 68, 24, 24}, {64, 68, 3, 3}, {1, 1}, {1, 1}, {1, 1}));  // no pieces
  CHECK_FALSE(takes({1, 64, 24, 24}, {68, 64, 3, 3}, {1, 1}, {1, 1}, {1, 1}));
}

TEST_CASE("lines_that_may_be_none_are_for_other_kernels") {
  OneNode node = product(DType::f16, 4096, 3072, 768);
  node.inputs[0]->shape[0] = Dim::of({.index = 0, .name = "rows", .minimum = 0, .maximum = 4096});
  CHECK(wgmma_of(lower(node)) == nullptr);
}

TEST_CASE("a_large_plain_product_has_it_or_keeps_it_as_the_alternative") {
  const Program program = lower(product(DType::f16, 4096, 3072, 768));
  REQUIRE(program.steps.size() == 1);
  CHECK(wgmma_of(program) != nullptr);
}

TEST_CASE("other_products_are_for_other_kernels") {
  CHECK(wgmma_of(lower(product(DType::f16, 128, 3072, 768))) == nullptr);          // few lines
  CHECK(wgmma_of(lower(product(DType::f32, 4096, 3072, 768))) == nullptr);         // 32 bits
  CHECK(wgmma_of(lower(product(DType::f16, 4096, 3072, 768, false))) == nullptr);  // [K, N]
  CHECK(wgmma_of(lower(product(DType::f16, 4096, 3072, 764))) == nullptr);         // no pieces
  OneNode vulkan = product(DType::f16, 4096, 3072, 768);
  vulkan.target = "vulkan";
  CHECK(wgmma_of(lower(vulkan)) == nullptr);
}

TEST_CASE("rows_of_no_whole_pieces_leave_without_the_copy_engine") {
  for (const int64_t n : {3076, 50257}) {
    const Program program = lower(product(DType::f16, 4096, n, 768));
    const Specialization* kernel = wgmma_of(program);
    REQUIRE(kernel != nullptr);
    CHECK(kernel->defines.at("RLX_RAGGED") == "1");
    CHECK(kernel->defines.at("RLX_MAPS") == "2");
  }
}

TEST_CASE("tiles_follow_the_number_of_them_that_fit_at_once") {
  // One round of 128 x 128 tiles beats a half-empty one of 128 x 256.
  const Program narrow_one = lower(product(DType::bf16, 1024, 2048, 8192));
  REQUIRE(wgmma_of(narrow_one) != nullptr);
  CHECK(wgmma_of(narrow_one)->defines.at("RLX_TILE_N") == "128");
  // More work never takes less time.
  double before = 0;
  for (const int64_t n : {256, 1024, 4096, 16384}) {
    const double microseconds = wgmma_microseconds(cuda(), {.m = 1024, .n = n, .k = 2048});
    CHECK(microseconds >= before);
    before = microseconds;
  }
}

TEST_CASE("an_activation_leaves_the_product_only_where_that_is_faster") {
  const auto apart = [](int64_t m, int64_t n, int64_t k, DType dtype, std::string activation,
                        const std::vector<std::string>& without = {}) {
    const OfferContext at({.target = find_target("cuda"), .without = &without});
    return library_wants_activation_apart(
        at, {.m = m, .n = n, .k = k, .x = dtype, .w = dtype, .activation = std::move(activation)});
  };
  // Where large tiles are left out, the library's product and a pass are faster than ours.
  CHECK(apart(4096, 3072, 768, DType::f16, "gelu", {"matmul_wgmma"}));
  CHECK_FALSE(apart(4096, 3072, 768, DType::f16, "gelu", {"matmul_wgmma", "library"}));
  CHECK_FALSE(apart(4096, 3072, 768, DType::f16, "gelu"));
  CHECK_FALSE(apart(1024, 8192, 2048, DType::bf16, "silu"));
  // Rows that are no whole 16-byte pieces, which the library does not take either.
  CHECK_FALSE(apart(4096, 3076, 768, DType::f16, "gelu", {"matmul_wgmma"}));
  CHECK_FALSE(apart(4096, 3076, 768, DType::f16, "gelu"));
}

}  // namespace rlx::test
