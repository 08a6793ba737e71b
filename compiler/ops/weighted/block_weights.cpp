// SPDX-License-Identifier: Apache-2.0
// dequantize_weights (ops.md 3.6): block-typed weights as dense ones.
#include "compiler/ops/lowering/block_weights.h"

#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/weighted/dequantize.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// From here on stores in order are worth a barrier, on GPUs.
constexpr uint64_t kStagedPieces = 1 << 14;

bool has_matrix_units(const Target& target) {
  return target.offers(KernelId::matmul_mma) || target.offers(KernelId::matmul_coop);
}

bool is_target(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

bool infer_dequantize_weights(InferContext& ctx) {
  const DType from = ctx.dtype(0);
  const DType to = ctx.attrs().dtype("out_dtype");
  if (!is_block_type(from)) {
    return ctx.fail(DiagCode::BadDtype, "w is " + to_string(ctx.input(0)) + ", wanted a block type",
                    "use dequantize or cast");
  }
  if (!is_target(to)) {
    return ctx.fail(DiagCode::BadAttribute,
                    "out_dtype is " + std::string(name_of(to)) + ", wanted f32, f16 or bf16");
  }
  Shape shape = ctx.shape(0);
  if (ctx.attrs().flag("transpose")) {
    if (shape.size() < 2) {
      return ctx.fail(DiagCode::BadRank, "w has rank 1, wanted [.., N, K] to transpose");
    }
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  }
  ctx.set_output(0, {to, std::move(shape)});
  return true;
}

bool evaluate_dequantize_weights(EvaluateContext& ctx) {
  const std::vector<BlockElement> elements = decode_blocks(ctx.input(0));
  Tensor& y = ctx.output(0);
  const Shape& shape = ctx.input(0).type.shape;
  const int64_t k = shape.back();
  const int64_t n = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  const bool transposes = ctx.attrs().flag("transpose");
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t matrix = i / (n * k);
    const int64_t row = i / k % n;
    const int64_t to = transposes ? (matrix * k + i % k) * n + row : i;
    y.floats[static_cast<size_t>(to)] = elements[static_cast<size_t>(i)].value();
  }
  return true;
}

bool lower_dequantize_weights(LowerContext& ctx) {
  emit_dequantize(ctx, ctx.input(0), ctx.output(0), {.transposes = ctx.attrs().flag("transpose")});
  return true;
}

const AttrSpec kDequantizeWeightsAttrs[] = {
    {.name = "out_dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"f32\"",
     .consumed_by_infer = true},
    {.name = "transpose", .type = AttrType::Bool, .default_text = "false"},
};

const OpDef kBlockWeights[] = {
    {.name = "dequantize_weights",
     .signature = "dequantize_weights(w; out_dtype=f32, transpose=false) -> y",
     .inputs = {1, 1},
     .attrs = kDequantizeWeightsAttrs,
     .infer = infer_dequantize_weights,
     .evaluate = evaluate_dequantize_weights,
     .lower = lower_dequantize_weights},
};

}  // namespace

void emit_dequantize(LowerContext& ctx, const TensorRef& w, const TensorRef& y,
                     const DequantizeForm& form) {
  const int64_t elements = element_count(w.shape());
  if (elements == 0) return;
  const Shape& shape = w.shape();
  const auto pieces = static_cast<uint64_t>(elements / kPieceElements);
  const bool vectors = !form.transposes && ctx.alignment(y) >= kWidestAccessBytes;
  const bool staged =
      vectors && is_half(y.dtype()) && has_matrix_units(ctx.target()) && pieces >= kStagedPieces;
  auto dispatch = ctx.dispatch<KernelId::dequantize>();
  if (staged) dispatch.define("RLX_STAGED", 1);
  define_blocks(dispatch, w.dtype());
  dispatch.workgroup({kCopyWorkgroup})
      .define("RLX_Y", std::string(name_of(y.dtype())))
      .define("RLX_Y_VECTOR", vectors ? 8 : 1)
      .define("RLX_TRANSPOSED", form.transposes ? 1 : 0)
      .define("RLX_N", shape.size() < 2 ? 1 : shape[shape.size() - 2])
      .define("RLX_K", shape.back())
      .define("rlx_index",
              index_type(IndexUse::Linear, static_cast<int64_t>(pieces + kCopyWorkgroup)))
      .generated("sizes.inc", wide_define("RLX_COUNT", static_cast<int64_t>(pieces)))
      .read(&CopyParams::x, w, block_alignment(w.dtype()))
      .write(&CopyParams::y, y, vectors ? kWidestAccessBytes : 0)
      .grid(split_grid(ceil_div(pieces, kCopyWorkgroup)))
      .work(byte_size(w.type) + byte_size(y.type), static_cast<uint64_t>(2 * elements))
      .reason("blocks of " + std::string(name_of(w.dtype())) + ", 32 elements per thread" +
              (form.transposes ? ", transposed" : "") +
              (staged ? ", in order by way of shared memory" : ""));
}

std::span<const OpDef> block_weights_ops() {
  return kBlockWeights;
}

}  // namespace rlx
