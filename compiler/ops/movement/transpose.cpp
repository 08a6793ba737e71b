// SPDX-License-Identifier: Apache-2.0
// transpose (ops.md 6): a view with permuted strides; consumers take them, or copy once.
#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"

namespace rlx {
namespace {

Ints permutation(const AttributeReader& attrs, size_t rank) {
  if (attrs.has("perm")) return attrs.integers("perm");
  Ints reversed;
  for (size_t i = rank; i-- > 0;) reversed.push_back(static_cast<int64_t>(i));
  return reversed;
}

bool infer_transpose(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  const Shape& from = ctx.shape(0);
  const Ints perm = permutation(ctx.attrs(), from.size());
  if (perm.size() != from.size()) {
    return ctx.fail(DiagCode::BadRank,
                    "perm " + to_string(perm) + " has " + std::to_string(perm.size()) +
                        " axes, the input has rank " + std::to_string(from.size()));
  }
  if (!ctx.axes(perm, from.size())) return false;
  Shape to;
  for (int64_t axis : perm) to.push_back(from[static_cast<size_t>(axis)]);
  ctx.set_output(0, {ctx.dtype(0), std::move(to)});
  return true;
}

Strides permuted(const Strides& strides, const Ints& perm) {
  Strides result;
  for (int64_t axis : perm) result.push_back(strides[static_cast<size_t>(axis)]);
  return result;
}

bool evaluate_transpose(EvaluateContext& ctx) {
  const Shape& from = ctx.input(0).type.shape;
  copy_strided(ctx.input(0), 0,
               permuted(dense_strides(from), permutation(ctx.attrs(), from.size())), ctx.output(0));
  return true;
}

bool lower_transpose(LowerContext& ctx) {
  TensorRef view = ctx.input(0);
  view.strides = permuted(view.strides, permutation(ctx.attrs(), view.shape().size()));
  view.type = ctx.output_type(0);
  ctx.alias_output(0, std::move(view));
  return true;
}

const AttrSpec kTransposeAttrs[] = {{.name = "perm", .type = AttrType::IntList, .minimum = 0}};

bool transpose_gradient(GradientContext& ctx) {
  const size_t rank = ctx.shape(ctx.input(0)).size();
  const Ints perm = ctx.attrs().has("perm") ? ctx.attrs().integers("perm") : Ints();
  Ints back(rank);
  for (size_t d = 0; d < rank; ++d) {
    const auto from =
        perm.empty() ? rank - 1 - d : static_cast<size_t>(static_cast<int64_t>(perm[d]));
    back[from] = static_cast<int64_t>(d);
  }
  ctx.give(0, ctx.transpose(ctx.gradient(), back));
  return true;
}

const OpDef kTransposes[] = {{.name = "transpose",
                              .signature = "transpose(x; perm) -> y",
                              .attrs = kTransposeAttrs,
                              .infer = infer_transpose,
                              .evaluate = evaluate_transpose,
                              .gradient = transpose_gradient,
                              .lower = lower_transpose,
                              .reads_strides = true,
                              .view_kind = ViewKind::View}};

}  // namespace

std::span<const OpDef> transpose_ops() {
  return kTransposes;
}

}  // namespace rlx
