// SPDX-License-Identifier: Apache-2.0
// identity, stop_gradient, state_write, shape_of, size_of (ops.md 1). Inputs, params, constants and
// states are not nodes.
#include <algorithm>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/size_values.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

bool infer_same(InferContext& ctx) {
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_same(EvaluateContext& ctx) {
  ctx.output(0) = ctx.input(0);
  return true;
}

bool lower_same(LowerContext& ctx) {
  ctx.alias_output(0, ctx.input(0));
  return true;
}

bool infer_state_write(InferContext& ctx) {
  if (ctx.origin(0) != ValueOrigin::State) {
    return ctx.fail(DiagCode::BadShape, "input 0 is no state", "name a state of the graph first");
  }
  if (ctx.input(0) != ctx.input(1)) {
    return ctx.fail(DiagCode::BadShape, "state is " + to_string(ctx.input(0)) + ", value is " +
                                            to_string(ctx.input(1)) + ", wanted equal types");
  }
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_state_write(EvaluateContext& ctx) {
  ctx.output(0) = ctx.input(1);
  return true;
}

bool lower_state_write(LowerContext& ctx) {
  const Value& state = ctx.state().graph.value(*ctx.node().inputs[0]);
  ctx.state().ref(*ctx.node().inputs[0]);  // the buffer exists even where nothing reads the state
  const TensorRef value = ctx.input(1);
  if (!ctx.state().write_state_at_end(*state.state, value, ctx.new_step())) {
    return ctx.fail(DiagCode::BadShape, "state \"" + state.name + "\" is written twice in one run",
                    "keep one state_write for each state");
  }
  ctx.alias_output(0, value);
  return true;
}

bool infer_shape_of(InferContext& ctx) {
  ctx.set_output(0, {DType::i64, {static_cast<int64_t>(ctx.shape(0).size())}});
  return true;
}

bool evaluate_shape_of(EvaluateContext& ctx) {
  ctx.output(0).integers = numbers_of(ctx.input(0).type.shape);
  return true;
}

bool infer_size_of(InferContext& ctx) {
  ctx.set_output(0, {DType::i64, {}});
  return true;
}

bool evaluate_size_of(EvaluateContext& ctx) {
  ctx.output(0).integers = {element_count(ctx.input(0).type.shape)};
  return true;
}

// Of sizes that the run gives; the others are folded.
bool decompose_shape_of(RewriteContext& ctx) {
  const Shape& shape = ctx.type(ctx.input(0)).shape;
  if (std::none_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_free(); }))
    return true;
  NodeBuilder::Inputs sizes;
  for (const Dim& size : Shape(shape)) sizes.emplace_back(emit_size(ctx, size));
  ctx.replace_output(0, sizes.size() == 1
                            ? *sizes.front()
                            : ctx.emit("concat", std::move(sizes), {{"axis", int64_t{0}}}));
  return true;
}

bool decompose_size_of(RewriteContext& ctx) {
  const Dim count = element_count(ctx.type(ctx.input(0)).shape);
  if (!count.is_free()) return true;
  ctx.replace_output(0, ctx.emit("reshape", {emit_size(ctx, count)}, {{"shape", Ints{}}}));
  return true;
}

// Shapes are numbers once symbols are bound, so folding has replaced these before lowering.
bool lower_folded(LowerContext& ctx) {
  RLX_CHECK(false, ctx.node().op + " \"" + ctx.node().name + "\" was not folded");
}

bool same_gradient(GradientContext& ctx) {
  ctx.give(0, ctx.gradient());
  return true;
}

const OpDef kLeaves[] = {
    {.name = "identity",
     .signature = "identity(x) -> y",
     .attrs = {},
     .infer = infer_same,
     .evaluate = evaluate_same,
     .gradient = same_gradient,
     .lower = lower_same},
    {.name = "stop_gradient",
     .signature = "stop_gradient(x) -> y",
     .attrs = {},
     .infer = infer_same,
     .evaluate = evaluate_same,
     .gradient = no_gradient,
     .lower = lower_same},
    {.name = "state_write",
     .signature = "state_write(state, value) -> new",
     .inputs = {2, 2},
     .attrs = {},
     .infer = infer_state_write,
     .evaluate = evaluate_state_write,
     .lower = lower_state_write,
     .has_effect = true,
     .takes_type_of_first = true},
    {.name = "shape_of",
     .signature = "shape_of(x) -> i64[rank]",
     .attrs = {},
     .infer = infer_shape_of,
     .evaluate = evaluate_shape_of,
     .decompose = decompose_shape_of,
     .lower = lower_folded,
     .shape_only = true},
    {.name = "size_of",
     .signature = "size_of(x) -> i64[]",
     .attrs = {},
     .infer = infer_size_of,
     .evaluate = evaluate_size_of,
     .decompose = decompose_size_of,
     .lower = lower_folded,
     .shape_only = true},
};

}  // namespace

std::span<const OpDef> leaves_ops() {
  return kLeaves;
}

}  // namespace rlx
