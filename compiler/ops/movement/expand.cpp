// SPDX-License-Identifier: Apache-2.0
// expand (ops.md 6): a view with stride 0 on broadcast axes.
#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"

namespace rlx {
namespace {

bool infer_expand(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  const Shape& from = ctx.shape(0);
  Shape wanted = ctx.attrs().integers("shape");
  const std::string text = to_string(wanted);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != -1) continue;
    if (wanted.size() - i > from.size()) {
      return ctx.fail(DiagCode::BadShape,
                      "shape " + text + " keeps a dim that " + to_string(from) + " does not have");
    }
    wanted[i] = from[from.size() - (wanted.size() - i)];
  }
  const auto result = broadcast_shapes(from, wanted);
  // Fewer dims than x has must fit into x as it stands.
  if (!result || (result->size() > wanted.size() && *result != from)) {
    return ctx.fail(DiagCode::BadShape, to_string(from) + " does not broadcast to " + text);
  }
  ctx.set_output(0, {ctx.dtype(0), *result});
  return true;
}

bool evaluate_expand(EvaluateContext& ctx) {
  const Shape& from = ctx.input(0).type.shape;
  copy_strided(ctx.input(0), 0,
               broadcast_strides(from, dense_strides(from), ctx.output_type(0).shape),
               ctx.output(0));
  return true;
}

bool lower_expand(LowerContext& ctx) {
  TensorRef view = ctx.input(0);
  view.strides = broadcast_strides(view.shape(), view.strides, ctx.output_type(0).shape);
  view.type = ctx.output_type(0);
  ctx.alias_output(0, std::move(view));
  return true;
}

const AttrSpec kExpandAttrs[] = {{.name = "shape",
                                  .type = AttrType::IntList,
                                  .required = true,
                                  .minimum = -1,
                                  .consumed_by_infer = true}};

bool expand_gradient(GradientContext& ctx) {
  ctx.give(0, ctx.gradient());
  return true;
}

const OpDef kExpands[] = {{.name = "expand",
                           .signature = "expand(x; shape) -> y",
                           .attrs = kExpandAttrs,
                           .infer = infer_expand,
                           .evaluate = evaluate_expand,
                           .gradient = expand_gradient,
                           .lower = lower_expand,
                           .view_kind = ViewKind::View}};

}  // namespace

std::span<const OpDef> expand_ops() {
  return kExpands;
}

}  // namespace rlx
