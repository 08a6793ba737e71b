// SPDX-License-Identifier: Apache-2.0
// Which products go to the target's library, and as what problem.
#include <algorithm>

#include "compiler/ops/product/matmul_library.h"
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

constexpr int64_t kM = 4096;
constexpr int64_t kN = 768;
constexpr int64_t kK = 3072;

TensorType f16(Shape shape) {
  return {DType::f16, std::move(shape)};
}

// x [.., K] times w [K, N], where the library's tensor-core rates beat any SIMT kernel of ours.
OneNode product(const std::string& activation = "none", bool bias = false, bool residual = false) {
  OneNode node{.op = "fused_matmul_bias_act",
               .inputs = {f16({kM, kK}), f16({kK, kN}), std::nullopt, std::nullopt},
               .attributes = {{"activation", activation}},
               .target = "cuda"};
  if (bias) node.inputs[2] = f16({kN});
  if (residual) node.inputs[3] = f16({kM, kN});
  return node;
}

const Step& only_step(const Program& program) {
  REQUIRE(program.steps.size() == 1);
  return program.steps[0];
}

const Access* access_at(const Step& step, GemmOperand operand) {
  for (const Access& access : step.accesses) {
    if (access.position == static_cast<uint32_t>(operand)) return &access;
  }
  return nullptr;
}

LibraryGemm gemm_of(const OneNode& node) {
  const Program program = lower(node);
  const Step& step = only_step(program);
  REQUIRE(step.kind == StepKind::LibraryGemm);
  return step.gemm.value();
}

bool stays_ours(const OneNode& node, const std::string& reason) {
  const Program program = lower(node);
  const std::string refusal = refusal_by(program, "library");
  UNSCOPED_INFO(refusal);
  return program.steps[0].kind == StepKind::Dispatch && contains(refusal, reason);
}

}  // namespace

TEST_CASE("a_large_plain_product_is_the_librarys") {
  const Program program = lower(product("none", true, true));
  const Step& step = only_step(program);
  REQUIRE(step.kind == StepKind::LibraryGemm);
  const LibraryGemm wanted{.m = kM,
                           .n = kN,
                           .k = kK,
                           .a_dtype = DType::f16,
                           .b_dtype = DType::f16,
                           .y_dtype = DType::f16,
                           .epilogue = GemmEpilogue::Bias,
                           .has_residual = true,
                           .a_pitch = kK,
                           .b_pitch = kN,
                           .y_pitch = kN,
                           .residual_pitch = kN,
                           .workspace_bytes = step.gemm->workspace_bytes};
  CHECK(*step.gemm == wanted);
  CHECK(step.flops == uint64_t{2} * kM * kN * kK);
  CHECK(contains(step.reason, "by the library expected"));
  for (const GemmOperand operand :
       {GemmOperand::A, GemmOperand::B, GemmOperand::Bias, GemmOperand::Residual}) {
    REQUIRE(access_at(step, operand) != nullptr);
    CHECK(access_at(step, operand)->mode == AccessMode::Read);
    CHECK(access_at(step, operand)->alignment_bytes == 16);
  }
  CHECK(access_at(step, GemmOperand::Y)->mode == AccessMode::Write);
  CHECK(access_at(step, GemmOperand::Y)->range_bytes == uint64_t{2} * kM * kN);
  CHECK(access_at(step, GemmOperand::Workspace)->range_bytes == step.gemm->workspace_bytes);
}

TEST_CASE("vulkan_has_no_library") {
  OneNode node = product();
  node.target = "vulkan";
  const Program program = lower(node);
  CHECK(std::all_of(program.steps.begin(), program.steps.end(),
                    [](const Step& step) { return step.kind == StepKind::Dispatch; }));
  CHECK(refusal_by(program, "library") == "the target has no library");
}

TEST_CASE("our_own_dispatch_stays_as_the_alternative") {
  OneNode one_dispatch = product("none", true);  // without split-k
  one_dispatch.inputs = {f16({kM, kN}), f16({kN, kK}), f16({kK}), std::nullopt};
  const Program program = lower(one_dispatch);
  const Step& step = only_step(program);
  REQUIRE(step.alternatives.size() == 1);
  const Step& own = step.alternatives[0];
  CHECK(own.kind == StepKind::Dispatch);
  CHECK(own.accesses.size() + 1 == step.accesses.size());  // all but the workspace
  for (const Access& access : own.accesses) {
    CHECK(std::any_of(step.accesses.begin(), step.accesses.end(), [&](const Access& other) {
      return other.buffer == access.buffer && other.mode == access.mode &&
             other.range_offset_bytes == access.range_offset_bytes &&
             other.range_bytes == access.range_bytes;
    }));
  }
}

TEST_CASE("epilogues_are_those_with_one_rounding") {
  CHECK(gemm_of(product()).epilogue == GemmEpilogue::None);
  CHECK(gemm_of(product("relu", true)).epilogue == GemmEpilogue::BiasRelu);
  CHECK(gemm_of(product("relu")).epilogue == GemmEpilogue::Relu);
  CHECK(gemm_of(product("gelu_tanh", true)).epilogue == GemmEpilogue::BiasGeluTanh);
  CHECK(stays_ours(product("gelu", true), "activation gelu is none of its epilogues"));
  CHECK(stays_ours(product("relu", true, true), "activation relu before a residual"));
  OneNode matrix_bias = product("none", true);
  matrix_bias.inputs[2] = f16({kM, 1});
  CHECK(stays_ours(matrix_bias, "a bias that is no vector over n"));
}

TEST_CASE("transposes_pitches_and_batches_are_the_problems_own") {
  const OneNode turned{.op = "matmul",
                       .inputs = {f16({6, 512, 256}), f16({6, 1024, 256})},
                       .attributes = {{"trans_b", true}},
                       .target = "cuda"};
  CHECK(gemm_of(turned).b_transposed);
  CHECK(gemm_of(turned).b_pitch == 256);

  const OneNode batched{
      .op = "matmul", .inputs = {f16({6, 512, 256}), f16({6, 256, 1024})}, .target = "cuda"};
  const LibraryGemm gemm = gemm_of(batched);
  CHECK(gemm.batch == 6);
  CHECK(gemm.a_batch_stride == 512 * 256);
  CHECK(gemm.b_batch_stride == 256 * 1024);
  CHECK(gemm.y_batch_stride == 512 * 1024);
  CHECK(gemm.a_pitch == 256);
}

TEST_CASE("lines_of_all_batch_entries_are_one_product_with_a_weight") {
  OneNode node = product();
  node.inputs[0] = f16({32, 128, kK});
  CHECK(gemm_of(node).m == kM);
  CHECK(gemm_of(node).batch == 1);
}

TEST_CASE("what_the_library_cannot_address_stays_ours") {
  OneNode odd = product();
  odd.inputs = {f16({kM, 260}), f16({260, kN}), std::nullopt, std::nullopt};
  CHECK(stays_ours(odd, "not aligned to 16 bytes"));
  OneNode mixed = product();
  mixed.inputs[1] = TensorType{DType::bf16, {kK, kN}};
  CHECK(stays_ours(mixed, "operands of two dtypes"));
  OneNode few = product();
  few.inputs[0] = f16({32, kK});
  CHECK(stays_ours(few, "less than 64 lines"));
}

TEST_CASE("f32_stays_f32_unless_tf32_is_asked_for") {
  OneNode node{
      .op = "matmul",
      .inputs = {TensorType{DType::f32, {2048, 2048}}, TensorType{DType::f32, {2048, 2048}}},
      .target = "cuda",
      .products = ProductPrecision::Tf32};
  CHECK(gemm_of(node).compute == GemmCompute::Tf32);
  node.products = ProductPrecision::F32;
  const Program program = lower(node);
  const Step& step = program.steps[0];
  CHECK((step.kind == StepKind::Dispatch || step.gemm->compute == GemmCompute::F32));
}

TEST_CASE("a_workspace_is_small_where_tiles_fill_the_device") {
  OneNode wide = product();
  CHECK(gemm_of(wide).workspace_bytes <= uint64_t{1} << 20);
  OneNode narrow_product = product();
  narrow_product.inputs = {f16({256, 8192}), f16({8192, 256}), std::nullopt, std::nullopt};
  const Program program = lower(narrow_product);
  if (program.steps[0].kind == StepKind::LibraryGemm) {
    CHECK(program.steps[0].gemm->workspace_bytes > uint64_t{1} << 20);
    CHECK(program.steps[0].gemm->workspace_bytes <= uint64_t{32} << 20);
  }
}

}  // namespace rlx::test
