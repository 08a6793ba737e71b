// SPDX-License-Identifier: Apache-2.0
// adaptive_pool (ops.md 9.3): window i of an axis is [floor(i * in / out), ceil((i + 1) * in /
// out)). Equal windows are a pool; others are resampled by tables, axis by axis.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/ops/nonempty_axis.h"
#include "compiler/ops/vision/resample.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr std::array<std::string_view, 5> kKinds = {"max", "min", "sum", "mean", "prod"};

bool is_extreme(const std::string& kind) {
  return kind == "max" || kind == "min";
}

bool infer_adaptive_pool(InferContext& ctx) {
  const std::string kind = ctx.attrs().text("kind");
  const DType dtype = ctx.dtype(0);
  if (!is_float(dtype) && !(is_extreme(kind) && is_integer(dtype))) {
    return ctx.fail(DiagCode::BadDtype,
                    "x is " + std::string(name_of(dtype)) + "; wanted a float dtype" +
                        (is_extreme(kind) ? " or an integer" : " for this kind"),
                    "insert a cast");
  }
  Shape shape = ctx.shape(0);
  if (shape.size() < 3 || shape.size() > 5) {
    return ctx.fail(DiagCode::BadRank, "x has rank " + std::to_string(shape.size()) +
                                           "; wanted [N, C, spatial..] with 1 to 3 spatial dims");
  }
  const Ints out = ctx.attrs().integers("out");
  if (out.size() + 2 != shape.size()) {
    return ctx.fail(DiagCode::BadAttribute, "out has " + std::to_string(out.size()) +
                                                " values; wanted " +
                                                std::to_string(shape.size() - 2) +
                                                ", one per spatial dim of x " + to_string(shape));
  }
  std::copy(out.begin(), out.end(), shape.begin() + 2);
  for (size_t axis = 2; axis < shape.size(); ++axis) {
    if (!require_nonempty_axis(ctx, ctx.shape(0), static_cast<int64_t>(axis),
                               "its windows have no element", shape))
      return false;
  }
  ctx.set_output(0, {dtype, shape});
  return true;
}

// ---- evaluate_adaptive_pool ----

struct Span {
  int64_t begin = 0;
  int64_t end = 0;
};

Span window_of(int64_t i, int64_t in, int64_t out) {
  return {.begin = i * in / out, .end = ceil_div((i + 1) * in, out)};
}

// Spatial dims as three, the missing ones of size 1 in front.
std::array<int64_t, 3> three(const Shape& shape) {
  std::array<int64_t, 3> result{1, 1, 1};
  std::copy(shape.begin() + 2, shape.end(), result.end() - static_cast<int64_t>(shape.size() - 2));
  return result;
}

void combine(EvaluateContext& ctx, const std::vector<size_t>& taps, size_t o) {
  const std::string kind = ctx.attrs().text("kind");
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  if (!x.is_float()) {
    int64_t best = x.integers[taps.front()];
    for (const size_t i : taps)
      best = kind == "max" ? std::max(best, x.integers[i]) : std::min(best, x.integers[i]);
    y.integers[o] = best;
    return;
  }
  double value = kind == "prod" ? 1 : 0;
  double magnitude = 0;
  bool first = true;
  for (const size_t i : taps) {
    const double v = x.floats[i];
    if (is_extreme(kind)) {
      const bool better = kind == "max" ? v > value : v < value;
      if (first || (!std::isnan(value) && (std::isnan(v) || better))) value = v;
    } else {
      value = kind == "prod" ? value * v : value + v;
    }
    magnitude = kind == "prod" ? std::abs(value) : magnitude + std::abs(v);
    first = false;
  }
  const auto n = static_cast<double>(taps.size());
  y.floats[o] = kind == "mean" ? value / n : value;
  if (!y.magnitudes.empty()) y.magnitudes[o] = kind == "mean" ? magnitude / n : magnitude;
  y.terms = std::max(y.terms, static_cast<int64_t>(taps.size()));
}

bool evaluate_adaptive_pool(EvaluateContext& ctx) {
  Tensor& y = ctx.output(0);
  const std::array<int64_t, 3> in = three(ctx.input(0).type.shape);
  const std::array<int64_t, 3> out = three(y.type.shape);
  if (!is_extreme(ctx.attrs().text("kind"))) y.magnitudes.resize(y.floats.size());
  for (int64_t o = 0; o < y.count(); ++o) {
    const int64_t plane = o / (out[0] * out[1] * out[2]);
    const Span d = window_of(o / (out[1] * out[2]) % out[0], in[0], out[0]);
    const Span h = window_of(o / out[2] % out[1], in[1], out[1]);
    const Span w = window_of(o % out[2], in[2], out[2]);
    std::vector<size_t> taps;
    for (int64_t a = d.begin; a < d.end; ++a) {
      for (int64_t b = h.begin; b < h.end; ++b) {
        for (int64_t c = w.begin; c < w.end; ++c)
          taps.push_back(static_cast<size_t>(((plane * in[0] + a) * in[1] + b) * in[2] + c));
      }
    }
    combine(ctx, taps, static_cast<size_t>(o));
  }
  return true;
}

// ---- decompose_adaptive_pool ----

AxisTaps table_of(size_t axis, int64_t in, int64_t out, bool mean) {
  AxisTaps table{.axis = axis, .out = out};
  for (int64_t i = 0; i < out; ++i) {
    const Span window = window_of(i, in, out);
    table.count = std::max(table.count, window.end - window.begin);
  }
  for (int64_t i = 0; i < out; ++i) {
    const Span window = window_of(i, in, out);
    const auto taps = static_cast<double>(window.end - window.begin);
    for (int64_t t = 0; t < table.count; ++t) {
      const bool present = window.begin + t < window.end;
      table.taps.push_back(present ? window.begin + t : -1);
      table.weights.push_back(mean ? 1 / taps : 1);
    }
  }
  return table;
}

// Equal windows of free sizes as dims of their own, which are reduced.
ValueId reduced_windows(RewriteContext& ctx, const Shape& x, const Ints& out, const Ints& kernel,
                        const std::string& kind) {
  Ints split = {x[0], x[1]};
  Ints axes;
  for (size_t d = 0; d < out.size(); ++d) {
    split.push_back(out[d]);
    axes.push_back(static_cast<int64_t>(split.size()));
    split.push_back(kernel[d]);
  }
  const ValueId windows = ctx.emit("reshape", {ctx.input(0)}, {{"shape", split}});
  return ctx.emit("reduce_" + kind, {windows}, {{"axes", axes}, {"keep_dims", false}});
}

// Windows of an axis whose size the run gives: as many taps as the largest has, those behind a
// window's end absent.
RunTable table_of(RewriteContext& ctx, size_t axis, const Dim& in, int64_t out, bool mean,
                  DType weight) {
  RunNumbers numbers(ctx);
  RunTable table{.axis = axis, .out = out, .count = ceil_div(in.range().most, out) + 1};
  const ValueId size = numbers.size(in);
  const ValueId outs = numbers.number(out);
  const ValueId place = numbers.column(out);
  const ValueId before = numbers.combine("mul", place, size);
  const ValueId begin = numbers.combine("floor_div", before, outs);
  const ValueId after =
      numbers.combine("add", numbers.combine("add", before, size), numbers.number(out - 1));
  const ValueId end = numbers.combine("floor_div", after, outs);
  const ValueId at = numbers.combine("add", begin, numbers.row(0, table.count));
  const ValueId is_present = numbers.combine("lt", at, end);
  const ValueId taps = ctx.emit("where", {is_present, at, numbers.number(-1)});
  const Attributes flat{{"shape", Ints{out * table.count}}};
  table.taps = ctx.emit("reshape", {numbers.as(DType::i32, taps)}, flat);
  ValueId share = numbers.as(weight, numbers.combine("sub", end, begin));
  share = mean ? ctx.emit("reciprocal", {share}) : numbers.as(weight, numbers.number(1));
  const Attributes whole{{"shape", Ints{out, table.count}}};
  table.weights = ctx.emit("reshape", {ctx.emit("expand", {share}, whole)}, flat);
  return table;
}

// Axis by axis, fixed ones first.
ValueId pooled_by_run_tables(RewriteContext& ctx, const Shape& x, const Ints& out,
                             const std::string& kind) {
  const DType dtype = ctx.type(ctx.input(0)).dtype;
  const bool mean = kind == "mean";
  const std::string combine = mean ? "sum" : kind;
  const DType between = dtype_between(dtype, combine);
  std::vector<AxisTaps> fixed_tables;
  std::vector<size_t> free_axes;
  for (size_t d = 0; d < out.size(); ++d) {
    if (x[2 + d].is_free()) {
      free_axes.push_back(d);
    } else if (out[d] != x[2 + d]) {
      fixed_tables.push_back(table_of(2 + d, x[2 + d], out[d], mean));
    }
  }
  ValueId y = emit_resample(ctx, ctx.input(0), std::move(fixed_tables), combine, between);
  for (size_t i = 0; i < free_axes.size(); ++i) {
    const size_t d = free_axes[i];
    const DType to = i + 1 == free_axes.size() ? dtype : between;
    y = emit_resample_by(ctx, y, table_of(ctx, 2 + d, x[2 + d], out[d], mean, table_dtype(to)),
                         combine, to);
  }
  return y;
}

bool decompose_adaptive_pool(RewriteContext& ctx) {
  const Shape x = ctx.type(ctx.input(0)).shape;
  const Ints out = ctx.attrs().integers("out");
  const std::string kind = ctx.attrs().text("kind");
  Ints kernel;
  bool equal = true;
  for (size_t d = 0; d < out.size(); ++d) {
    equal = equal && x[2 + d].divides_by(out[d]);
    kernel.push_back(x[2 + d] / out[d]);
  }
  const bool global = std::all_of(out.begin(), out.end(), [](const Dim& n) { return n == 1; });
  const auto is_free = [](const Dim& size) { return size.is_free(); };
  if (equal && !global && std::any_of(kernel.begin(), kernel.end(), is_free)) {
    ctx.replace_output(0, reduced_windows(ctx, x, out, kernel, kind));
    return true;
  }
  if (equal) {
    ctx.replace_output(0, global
                              ? ctx.emit("global_pool", {ctx.input(0)}, {{"kind", kind}})
                              : ctx.emit("pool", {ctx.input(0)},
                                         {{"kind", kind}, {"kernel", kernel}, {"stride", kernel}}));
    return true;
  }
  if (std::any_of(x.begin() + 2, x.end(), is_free)) {
    ctx.replace_output(0, pooled_by_run_tables(ctx, x, out, kind));
    return true;
  }
  std::vector<AxisTaps> tables;
  for (size_t d = 0; d < out.size(); ++d) {
    if (out[d] != x[2 + d]) tables.push_back(table_of(2 + d, x[2 + d], out[d], kind == "mean"));
  }
  ctx.replace_output(0, emit_resample(ctx, ctx.input(0), std::move(tables),
                                      kind == "mean" ? "sum" : kind, ctx.type(ctx.input(0)).dtype));
  return true;
}

constexpr std::array kAdaptivePoolAttrs = {
    AttrSpec{.name = "kind", .type = AttrType::String, .required = true, .choices = kKinds},
    AttrSpec{.name = "out",
             .type = AttrType::IntList,
             .required = true,
             .minimum = 1,
             .maximum = kLargestInt},
};

constexpr std::array kAdaptivePoolOps = {
    OpDef{.name = "adaptive_pool",
          .signature = "adaptive_pool(x; kind, out) -> y",
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attrs = kAdaptivePoolAttrs,
          .infer = infer_adaptive_pool,
          .evaluate = evaluate_adaptive_pool,
          .decompose = decompose_adaptive_pool},
};

}  // namespace

std::span<const OpDef> adaptive_pool_ops() {
  return kAdaptivePoolOps;
}

}  // namespace rlx
