// SPDX-License-Identifier: Apache-2.0
// Which products with decoded weights go to which kernel, in what teams and tiles.
#include "compiler/dispatch/device_profile.h"
#include "compiler/ops/weighted/weighted_tiles.h"
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

Program product(DType x, int64_t m, DType w, const std::string& target) {
  return lower({.op = "dequant_matmul",
                .inputs = {TensorType{x, {m, 512}}, TensorType{w, {256, 512}}},
                .attributes = {{"scheme", std::string(name_of(w))}},
                .target = target});
}

KernelId kernel(DType x, int64_t m, DType w, const std::string& target) {
  const Program program = product(x, m, w, target);
  return program.kernels.at(index_of(program.steps.at(0).kernel.value())).kernel;
}

const DeviceModel& device() {
  return find_target("cuda")->device;
}

}  // namespace

TEST_CASE("rows_of_halves_and_blocks_of_whole_codes_go_to_tensor_cores") {
  CHECK(kernel(DType::f16, 9, DType::q4_k, "cuda") == KernelId::dequant_mma);
  CHECK(kernel(DType::bf16, 512, DType::q8_0, "cuda") == KernelId::dequant_mma);
  CHECK(kernel(DType::f32, 9, DType::q4_k, "cuda") == KernelId::dequant_matmul);
  CHECK(kernel(DType::f16, 9, DType::mxfp4, "cuda") == KernelId::dequant_matmul);
  CHECK(kernel(DType::f16, 9, DType::q4_k, "vulkan") == KernelId::dequant_matmul);
  const Program refused = product(DType::f32, 9, DType::q4_k, "cuda");
  CHECK(refusal_by(refused, "dequant_mma") == "x of f32");
}

TEST_CASE("few_rows_of_halves_read_blocks_once_on_tensor_cores") {
  for (const int64_t m : {2, 8}) {
    CHECK(kernel(DType::f16, m, DType::q4_k, "cuda") == KernelId::dequant_mma);
    CHECK(kernel(DType::f16, m, DType::nvfp4, "cuda") == KernelId::dequant_mma);
    CHECK(kernel(DType::f32, m, DType::q4_k, "cuda") == KernelId::dequant_matvec);
    CHECK(kernel(DType::f16, m, DType::q4_k, "vulkan") == KernelId::dequant_matvec);
  }
  CHECK(refusal_by(product(DType::f16, 9, DType::q4_k, "cuda"), "dequant_mma streamed") ==
        "more than 8 vectors");
  CHECK(refusal_by(product(DType::bf16, 8, DType::q4_k, "cuda"), "dequant_mma streamed") ==
        "x of bf16");
  CHECK(refusal_by(product(DType::f16, 2, DType::q4_k, "cuda"), "dequant_mma one row") ==
        "more than one vector");
}

TEST_CASE("few_rows_of_halves_read_blocks_once_on_cooperative_matrices_whose_elements_are_known") {
  for (const int64_t m : {2, 8}) {
    for (const DType w : {DType::q4_0, DType::q8_k, DType::q6_k, DType::nvfp4})
      CHECK(kernel(DType::f16, m, w, "vulkan-nvidia") == KernelId::dequant_coop);
    CHECK(kernel(DType::f32, m, DType::q4_k, "vulkan-nvidia") == KernelId::dequant_matvec);
  }
  CHECK(refusal_by(product(DType::f16, 9, DType::q4_k, "vulkan-nvidia"), "dequant_coop") ==
        "more than 8 vectors");
  CHECK(refusal_by(product(DType::f16, 8, DType::q4_k, "vulkan-khr-coop"), "dequant_coop") ==
        "elements of matrices that lie nobody knows where");
}

TEST_CASE("streams_on_cooperative_matrices_fit_shared_memory_and_do_not_depend_on_rows") {
  const auto stream = [](int64_t m, int64_t n, int64_t k, DType w) {
    return choose_coop_stream({.m = m, .n = n, .k = k, .bits = 4.5}, w, device());
  };
  // A wave of the device, or many.
  const CoopStream wide = stream(8, 16384, 2048, DType::q4_k);
  CHECK(wide.warps() == 16);
  CHECK(wide.groups <= 132);
  CHECK(stream(8, 2048, 8192, DType::q4_k).shares == 16);
  // Lines of 210 bytes of a slice leave room for twelve subgroups.
  for (const int64_t n : {2048, 128256}) CHECK(stream(8, n, 2048, DType::q6_k).warps() <= 12);
  CHECK(stream(2, 3072, 4096, DType::q5_k).shares == stream(8, 3072, 4096, DType::q5_k).shares);
}

TEST_CASE("streams_of_blocks_share_out_k_alike_for_all_rows_and_fill_the_device") {
  const auto stream = [](int64_t m, int64_t n, int64_t k, DType w) {
    return choose_block_stream({.m = m, .n = n, .k = k, .bits = 4.5}, w, device());
  };
  const BlockStream wide = stream(8, 28672, 4096, DType::q4_k);
  CHECK(wide.warps == 8);
  CHECK(wide.stages == 3);
  CHECK(wide.tiles == 7);
  CHECK(wide.blocks == 256);
  CHECK(stream(8, 4096, 14336, DType::q4_k).blocks == 128);
  CHECK(stream(8, 64, 2304, DType::q6_k).warps == 5);
  CHECK(stream(8, 64, 288, DType::q8_0).warps == 2);
  for (const int64_t k : {512, 2304, 11008}) {
    CHECK(stream(2, 300, k, DType::q8_k).warps == stream(8, 4096, k, DType::q8_k).warps);
  }
}

TEST_CASE("streams_of_one_row_share_out_all_tiles_among_the_multiprocessors") {
  const auto stream = [](int64_t n, int64_t k, DType w) {
    return choose_row_stream({.m = 1, .n = n, .k = k, .bits = 4.5}, w, device());
  };
  const RowStream wide = stream(28672, 4096, DType::q4_0);
  CHECK(wide.warps == 8);
  CHECK(wide.stages == 3);
  CHECK(wide.groups == 2 * 132);
  CHECK(wide.tiles == 7);
  // As many sums as shared memory holds beside the rings.
  CHECK(stream(128256, 4096, DType::q4_0).groups == 2 * 2 * 132);
  CHECK(stream(128256, 4096, DType::q4_0).tiles == 16);
  CHECK(stream(4096, 4096, DType::q8_0).stages == 2);
  CHECK(stream(64, 288, DType::q8_0).groups == 4);
  CHECK(stream(64, 288, DType::q8_0).warps == 2);
  // Few tiles: twice the warps, where lines are whole pieces of 16 bytes.
  CHECK(stream(2048, 8192, DType::q6_k).teams == 2);
  CHECK(stream(2048, 8192, DType::q4_k).threads() == 512);
  CHECK(stream(2048, 8192 + 32, DType::q8_0).teams == 1);
  CHECK(stream(2048, 2048, DType::q4_k).teams == 1);
  CHECK(stream(4096, 14336, DType::q4_k).teams == 1);
}

TEST_CASE("one_row_of_blocks_goes_to_tensor_cores") {
  for (const DType x : {DType::f16, DType::bf16, DType::f32}) {
    for (const DType w : {DType::q8_0, DType::q4_0, DType::q4_k, DType::q6_k, DType::nvfp4})
      CHECK(kernel(x, 1, w, "cuda") == KernelId::dequant_mma);
    CHECK(kernel(x, 1, DType::q8_0, "vulkan") == KernelId::dequant_matvec);
  }
}

TEST_CASE("teams_of_blocks_fill_the_device") {
  const VectorTeams wide = choose_teams({.m = 1, .n = 14336, .k = 4096, .bits = 4.5}, device());
  CHECK(wide.lanes == 32);
  CHECK(wide.outputs == 4);
  CHECK(wide.blocks == 14336 / 16);
  CHECK(choose_teams({.m = 8, .n = 14336, .k = 4096, .bits = 4.5}, device()).outputs == 2);
  const VectorTeams narrow = choose_teams({.m = 1, .n = 64, .k = 4096, .bits = 4.5}, device());
  CHECK(narrow.lanes == 128);
  CHECK(narrow.outputs == 1);
}

TEST_CASE("groups_that_hold_x_fill_waves") {
  const auto teams = [](int64_t n, int64_t k, int64_t batches, HeldForm form) {
    return choose_teams({.m = 1, .n = n, .k = k, .batches = batches, .bits = 4.5, .held = form},
                        device());
  };
  const HeldForm few = {.lines = 4, .threads = 256};
  const VectorTeams wide = teams(14336, 4096, 1, few);
  CHECK(wide.held);
  CHECK(wide.lanes == 64);
  CHECK(wide.group_outputs == 28);
  CHECK(wide.blocks <= 132 * 4);
  CHECK(teams(14336, 4096, 1, {.lines = 2, .threads = 512}).group_outputs == 14);
  CHECK(teams(4096, 14336, 1, few).group_outputs == 32);
  // Sums of 256 threads leave shared memory for fewer lines.
  CHECK(teams(100000, 16384, 1, few).group_outputs == 28);
  CHECK(teams(512, 2048, 16, few).group_outputs == 8);
  CHECK_FALSE(teams(2048, 4096, 1, few).held);
  CHECK_FALSE(teams(14336, 4096 + 256, 1, few).held);
  CHECK_FALSE(teams(14336, 32768, 1, few).held);
  CHECK_FALSE(teams(14336, 0, 1, few).held);
}

TEST_CASE("a_cpu_has_lines_for_each_lane_and_occupies_every_core") {
  DeviceModel cpu;
  for (const DeviceProfile& profile : built_in_profiles()) {
    if (profile.name == "lavapipe") cpu = profile.column("vulkan")->model;
  }
  const auto own = [&](int64_t m, int64_t n, bool gated = false) {
    return choose_own_lines({.m = m, .n = n, .k = 576, .bits = 5, .gated = gated}, cpu);
  };
  CHECK(own(1, 3072).lines == 4);
  CHECK(own(1, 3072).blocks == 96);
  CHECK(own(37, 3072).vectors == 8);
  CHECK(own(37, 3072).lines == 4);
  CHECK(own(1, 32).lines == 1);
  CHECK(own(1, 32, true).lines == 2);
}

TEST_CASE("few_rows_take_small_tiles") {
  const auto rows = [&](int64_t m) {
    return choose_weighted_mma_tile({.m = m, .n = 4096, .k = 4096, .bits = 4.5}, device()).m;
  };
  CHECK(rows(16) == 32);
  CHECK(rows(512) == 128);
  CHECK(rows(2048) == 128);
}

}  // namespace rlx::test
