// SPDX-License-Identifier: Apache-2.0
// Rows of block-typed tables by index.
#include "compiler/ops/indexing/block_rows.h"

#include <algorithm>

#include "compiler/ops/lowering/block_weights.h"
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/places.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

bool is_target(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

bool gives_zeros(const NodeContext& ctx) {
  return ctx.node().op == "gather" && ctx.attrs().text("oob") == "zero";
}

// The row that an index names; nullopt where it is outside and stands for zeros.
std::optional<int64_t> source_row(const Tensor& index, int64_t i, int64_t size, bool zero) {
  int64_t source = index_value(index, i);
  if (source < 0) source += size;
  if (zero && (source < 0 || source >= size)) return std::nullopt;
  return std::clamp<int64_t>(source, 0, size - 1);
}

}  // namespace

bool reports_outside(const NodeContext& ctx) {
  return ctx.node().op != "gather" || ctx.attrs().flag("checked");
}

bool infer_block_rows(InferContext& ctx) {
  const Shape& table = ctx.shape(0);
  if (table.size() != 2 || !table[1].divides_by(block_elements(ctx.dtype(0)))) {
    return ctx.fail(DiagCode::BadShape, "a table of blocks is " + to_string(ctx.input(0)) +
                                            ", wanted [N, K] with whole blocks in K");
  }
  const int64_t written = ctx.node().op == "embedding" ? 0 : ctx.attrs().integer("axis");
  const auto axis = ctx.axis(written, table.size());
  if (!axis) return false;
  if (*axis != 0) {
    return ctx.fail(DiagCode::BadAxis,
                    "axis " + std::to_string(*axis) + " of a table of blocks, wanted 0");
  }
  if (!check_index_dtype(ctx, 1)) return false;
  const DType to = ctx.attrs().has("out_dtype") ? ctx.attrs().dtype("out_dtype") : DType::f32;
  if (!is_target(to)) {
    return ctx.fail(DiagCode::BadAttribute,
                    "out_dtype is " + std::string(name_of(to)) + ", wanted f32, f16 or bf16");
  }
  Shape shape = ctx.shape(1);
  shape.push_back(table[1]);
  if (shape.size() > kMaxRank) {
    return ctx.fail(DiagCode::BadRank, "output " + to_string(shape) + " has rank above 8");
  }
  if (table[0].range().least == 0 && element_count(shape) > 0 && !gives_zeros(ctx)) {
    return ctx.fail(DiagCode::BadShape, "the table has " + to_string(table[0]) +
                                            " rows, wanted at least one to clamp to");
  }
  ctx.set_output(0, {to, std::move(shape)});
  return true;
}

bool evaluate_block_rows(EvaluateContext& ctx) {
  const Tensor& table = ctx.input(0);
  Tensor& y = ctx.output(0);
  const int64_t k = table.type.shape[1];
  const int64_t rows = ctx.input(1).count();
  for (int64_t row = 0; row < rows; ++row) {
    const auto source = source_row(ctx.input(1), row, table.type.shape[0], gives_zeros(ctx));
    if (!source) continue;
    for (int64_t i = 0; i < k; ++i) {
      y.floats[static_cast<size_t>(row * k + i)] =
          decode_block_element(table.type.dtype, table.blocks, *source * k + i).value();
    }
  }
  return true;
}

bool lower_block_rows(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const TensorRef index = ctx.dense_input(1);
  const TensorRef y = ctx.output(0);
  const Dim elements = element_count(y.shape());
  if (elements == 0) return true;
  const Dim pieces = element_count(index.shape()) * (x.shape()[1] / kPieceElements);
  const bool vectors = ctx.alignment(y) >= kWidestAccessBytes;
  auto dispatch = ctx.dispatch<KernelId::gather>();
  define_blocks(dispatch, x.dtype());
  if (reports_outside(ctx)) dispatch.count_index_errors();
  dispatch.workgroup({kCopyWorkgroup})
      .size("RLX_K", x.shape()[1])
      .define("RLX_Y", std::string(name_of(y.dtype())))
      .define("RLX_Y_VECTOR", vectors ? 8 : 1)
      .define("RLX_I", std::string(name_of(index.dtype())))
      .define("RLX_ZERO_OUTSIDE", gives_zeros(ctx) ? 1 : 0)
      .define("rlx_index", index_type(IndexUse::Linear, pieces.range().most + kCopyWorkgroup))
      .generated("sizes.inc",
                 wide_define("RLX_SIZE", x.shape()[0]) + wide_define("RLX_COUNT", pieces))
      .read(&GatherParams::index, index)
      .write(&GatherParams::y, y, vectors ? kWidestAccessBytes : 0)
      .grid(split_grid(ceil_div(pieces, kCopyWorkgroup)))
      .work(2 * byte_size(y.type), 2 * elements)
      .reason("rows of " + std::string(name_of(x.dtype())) + " blocks, decoded");
  if (element_count(x.shape()) > 0) dispatch.read(&GatherParams::x, x, block_alignment(x.dtype()));
  return true;
}

}  // namespace rlx
