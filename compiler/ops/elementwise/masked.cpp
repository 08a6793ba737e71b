// SPDX-License-Identifier: Apache-2.0
// masked_fill and masked_scatter (ops.md 8): compositions of where, cumsum and gather.
#include <algorithm>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/movement.h"

namespace rlx {
namespace {

// mask broadcasts to x, whose type the result has; input 2 is of x's dtype.
bool infer_masked(InferContext& ctx) {
  if (!check_dtype(ctx, 0, DTypeSet::Element) || !check_dtype(ctx, 1, DTypeSet::NumberOrBool)) {
    return false;
  }
  if (ctx.dtype(2) != ctx.dtype(0)) {
    return ctx.fail(DiagCode::BadDtype, "input 2 is " + std::string(name_of(ctx.dtype(2))) +
                                            ", x is " + std::string(name_of(ctx.dtype(0))));
  }
  const auto fits = [&](size_t input) {
    return broadcast_shapes(ctx.shape(input), ctx.shape(0)) == ctx.shape(0);
  };
  if (!fits(1)) {
    return ctx.fail(DiagCode::BadShape, "mask is " + to_string(ctx.shape(1)) +
                                            ", which does not broadcast to x of " +
                                            to_string(ctx.shape(0)));
  }
  const bool fills = ctx.node().op == "masked_fill";
  if (fills && !fits(2)) {
    return ctx.fail(DiagCode::BadShape, "value is " + to_string(ctx.shape(2)) +
                                            ", which does not broadcast to x of " +
                                            to_string(ctx.shape(0)));
  }
  if (!fills && element_count(ctx.shape(2)) == 0 && element_count(ctx.shape(0)) != 0) {
    return ctx.fail(DiagCode::BadShape, "source is empty: there is nothing to take");
  }
  ctx.set_output(0, ctx.input(0));
  return true;
}

void take(Tensor& y, int64_t to, const Tensor& from, int64_t i) {
  if (y.is_float()) y.floats[static_cast<size_t>(to)] = from.floats[static_cast<size_t>(i)];
  if (!y.is_float()) y.integers[static_cast<size_t>(to)] = from.integers[static_cast<size_t>(i)];
}

bool evaluate_fill(EvaluateContext& ctx) {
  Tensor& y = ctx.output(0);
  const Tensor& mask = ctx.input(1);
  for_each_broadcast(y.type.shape, {&mask.type.shape, &ctx.input(2).type.shape},
                     [&](int64_t o, const int64_t* in) {
                       const bool masked = real_at(mask, in[0]) != 0;  // NaN is true
                       take(y, o, ctx.input(masked ? 2 : 0), masked ? in[1] : o);
                     });
  return true;
}

bool decompose_fill(RewriteContext& ctx) {
  ctx.replace_output(0, ctx.emit("where", {ctx.input(1), ctx.input(2), ctx.input(0)}));
  return true;
}

// The k-th true element of the mask, in row-major order, takes source element k; where there are
// fewer of those, the last one.
bool evaluate_scatter(EvaluateContext& ctx) {
  Tensor& y = ctx.output(0);
  const Tensor& mask = ctx.input(1);
  const Tensor& source = ctx.input(2);
  int64_t next = 0;
  for_each_broadcast(y.type.shape, {&mask.type.shape}, [&](int64_t o, const int64_t* in) {
    const bool masked = real_at(mask, in[0]) != 0;
    take(y, o, masked ? source : ctx.input(0), masked ? std::min(next, source.count() - 1) : o);
    next += masked ? 1 : 0;
  });
  return true;
}

bool decompose_scatter(RewriteContext& ctx) {
  const Shape shape = ctx.type(ctx.input(0)).shape;
  const Dim count = element_count(shape);
  const std::string_view counter = count.range().most < (int64_t{1} << 31) ? "i32" : "i64";
  const Dim taken = element_count(ctx.type(ctx.input(2)).shape);
  const auto reshape = [&](ValueId value, const Ints& to) {
    return ctx.emit("reshape", {value}, {{"shape", to}});
  };
  const ValueId mask = ctx.emit("cast", {ctx.input(1)}, {{"to", std::string("bool")}});
  const ValueId wide = ctx.emit("expand", {mask}, {{"shape", Ints(shape)}});
  const ValueId flags = ctx.emit("cast", {wide}, {{"to", std::string(counter)}});
  const ValueId before =
      ctx.emit("cumsum", {reshape(flags, {count})}, {{"axis", int64_t{0}}, {"exclusive", true}});
  // Elements that are not masked count past the source's end and do not use what they pick.
  const ValueId picked =
      ctx.emit("gather", {reshape(ctx.input(2), {taken}), before}, {{"checked", false}});
  ctx.replace_output(0, ctx.emit("where", {wide, reshape(picked, shape), ctx.input(0)}));
  return true;
}

constexpr OpDef kMaskedOps[] = {
    {.name = "masked_fill",
     .signature = "masked_fill(x, mask, value) -> y",
     .inputs = {3, 3},
     .infer = infer_masked,
     .evaluate = evaluate_fill,
     .decompose = decompose_fill},
    {.name = "masked_scatter",
     .signature = "masked_scatter(x, mask, source) -> y",
     .inputs = {3, 3},
     .infer = infer_masked,
     .evaluate = evaluate_scatter,
     .decompose = decompose_scatter},
};

}  // namespace

std::span<const OpDef> masked_ops() {
  return kMaskedOps;
}

}  // namespace rlx
