// SPDX-License-Identifier: Apache-2.0
// resize (ops.md 9.5): nearest, linear and cubic along any axes, by tables of source pixels and
// weights. From `sizes`, coordinates are quotients of integers, so no rounding moves an index.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/nonempty_axis.h"
#include "compiler/ops/vision/resample.h"

namespace rlx {
namespace {

constexpr int64_t kLargestAxis = std::numeric_limits<int32_t>::max();

// One resized axis. `scale` is given where the model writes scales; from sizes it is out / in.
template <typename Size>
struct AxisOf {
  size_t axis = 0;
  Size in = 0;
  Size out = 0;
  std::optional<double> scale;

  [[nodiscard]] double ratio() const {
    return scale.value_or(static_cast<double>(out) / static_cast<double>(in));
  }
};
using ResizedAxis = AxisOf<int64_t>;
using AxisSizes = AxisOf<Dim>;

ResizedAxis numbers_of(const AxisSizes& axis) {
  return {.axis = axis.axis, .in = axis.in, .out = axis.out, .scale = axis.scale};
}

// out / in as whole numbers.
struct Ratio {
  int64_t out = 1;
  int64_t in = 1;
};

std::optional<Ratio> ratio_of_scale(double scale) {
  constexpr int64_t kLargestPart = 1024;
  for (int64_t in = 1; in <= kLargestPart; ++in) {
    const double out = scale * static_cast<double>(in);
    if (out == std::floor(out) && out <= static_cast<double>(kLargestPart))
      return Ratio{.out = static_cast<int64_t>(out), .in = in};
  }
  return std::nullopt;
}

// The same at every value of the sizes.
std::optional<Ratio> ratio_of(const AxisSizes& axis) {
  if (axis.scale) return ratio_of_scale(*axis.scale);
  const int64_t common = std::gcd(axis.out.bound(), axis.in.bound());
  if (common == 0) return std::nullopt;
  const Ratio ratio{.out = axis.out.bound() / common, .in = axis.in.bound() / common};
  const bool always = axis.out * ratio.in == axis.in * ratio.out;
  return always ? std::optional(ratio) : std::nullopt;
}

// From the scale of an axis.
Dim scaled_size(const Dim& in, double scale) {
  const std::optional<Ratio> ratio = in.is_free() ? ratio_of_scale(scale) : std::nullopt;
  if (ratio) return in * ratio->out / ratio->in;
  const double out = std::floor(static_cast<double>(in) * scale);
  return out > static_cast<double>(kLargestAxis) ? kLargestAxis + 1 : static_cast<int64_t>(out);
}

// ---- shapes ----

std::optional<Ints> resized_axes(NodeContext& ctx, size_t rank) {
  if (ctx.attrs().has("axes")) return ctx.axes(ctx.attrs().integers("axes"), rank);
  Ints spatial(rank < 2 ? 0 : rank - 2);
  std::iota(spatial.begin(), spatial.end(), 2);
  return spatial;
}

bool check_axis(NodeContext& ctx, const AxisSizes& axis) {
  const std::string which = "axis " + std::to_string(axis.axis);
  const bool is_long = axis.out.range().most > kLargestAxis || axis.in.range().most > kLargestAxis;
  if (axis.out < 0 || is_long) {
    return ctx.fail(DiagCode::BadShape, which + " goes from " + to_string(axis.in) + " to " +
                                            to_string(axis.out) + " elements; wanted at most " +
                                            std::to_string(kLargestAxis));
  }
  return true;
}

std::optional<std::vector<AxisSizes>> read_axes(NodeContext& ctx, const Shape& x) {
  const std::optional<Ints> axes = resized_axes(ctx, x.size());
  if (!axes) return std::nullopt;
  const bool by_size = ctx.attrs().has("sizes");
  if (by_size == ctx.attrs().has("scales")) {
    ctx.fail(DiagCode::BadAttribute, by_size ? "has both sizes and scales; wanted one of them"
                                             : "has neither sizes nor scales; wanted one of them");
    return std::nullopt;
  }
  const Ints sizes = by_size ? ctx.attrs().integers("sizes") : Ints{};
  const Floats scales = by_size ? Floats{} : ctx.attrs().reals("scales");
  const size_t given = by_size ? sizes.size() : scales.size();
  if (given != axes->size()) {
    ctx.fail(DiagCode::BadAttribute, std::string(by_size ? "sizes" : "scales") + " has " +
                                         std::to_string(given) + " values; wanted " +
                                         std::to_string(axes->size()) + ", one per axis");
    return std::nullopt;
  }
  std::vector<AxisSizes> result;
  for (size_t k = 0; k < axes->size(); ++k) {
    AxisSizes axis{.axis = static_cast<size_t>((*axes)[k]), .scale = std::nullopt};
    axis.in = x[axis.axis];
    if (by_size) {
      axis.out = sizes[k];
    } else {
      if (!(scales[k] > 0) || !std::isfinite(scales[k])) {
        ctx.fail(DiagCode::BadAttribute, "scale " + std::to_string(scales[k]) + " of axis " +
                                             std::to_string(axis.axis) +
                                             "; wanted a positive number");
        return std::nullopt;
      }
      axis.out = scaled_size(axis.in, scales[k]);
      axis.scale = scales[k];
    }
    if (!check_axis(ctx, axis)) return std::nullopt;
    result.push_back(axis);
  }
  return result;
}

bool infer_resize(InferContext& ctx) {
  const std::string mode = ctx.attrs().text("mode");
  const DType dtype = ctx.dtype(0);
  if (!refuse_block_type(ctx, dtype)) return false;
  if (mode != "nearest" && !is_float(dtype)) {
    return ctx.fail(
        DiagCode::BadDtype,
        "x is " + std::string(name_of(dtype)) + "; wanted a float type for mode \"" + mode + "\"",
        "insert a cast");
  }
  if (mode == "nearest" && ctx.attrs().flag("antialias")) {
    return ctx.fail(DiagCode::BadAttribute,
                    "antialias=true with mode \"nearest\"; wanted \"linear\" "
                    "or \"cubic\"");
  }
  if (ctx.attrs().text("coord") == "tf_crop_and_resize") {
    return ctx.fail(DiagCode::UnsupportedOp, "coord \"tf_crop_and_resize\" is not supported",
                    "crop and resize with slice and another coord");
  }
  const std::optional<std::vector<AxisSizes>> axes = read_axes(ctx, ctx.shape(0));
  if (!axes) return false;
  TensorType y = ctx.input(0);
  for (const AxisSizes& axis : *axes) y.shape[axis.axis] = axis.out;
  for (const AxisSizes& axis : *axes) {
    if (!require_nonempty_axis(ctx, ctx.shape(0), static_cast<int64_t>(axis.axis),
                               "there is nothing to resize", y.shape))
      return false;
  }
  ctx.set_output(0, y);
  return true;
}

// ---- the definition in f64, for the evaluator ----

struct AxisTap {
  int64_t index = 0;
  double weight = 1;
};

// More precise than the tables, whose errors it is to show; scales define it in f64.
using Position = long double;

template <typename Real>
Real coordinate_as(const NodeContext& ctx, const ResizedAxis& axis, int64_t o) {
  const std::string coord = ctx.attrs().text("coord");
  const auto in = static_cast<Real>(axis.in);
  const auto out = static_cast<Real>(axis.out);
  const auto at = static_cast<Real>(o);
  if (coord == "align_corners") return axis.out <= 1 ? 0 : at * (in - 1) / (out - 1);
  if (coord == "pytorch_half_pixel" && axis.out == 1) return 0;
  const auto unscaled = [&](Real place) {
    return axis.scale ? place / static_cast<Real>(*axis.scale) : place * in / out;
  };
  if (coord == "asymmetric") return unscaled(at);
  const Real shift = coord == "half_pixel_symmetric" && axis.scale
                         ? in / 2 * (1 - out / (in * static_cast<Real>(*axis.scale)))
                         : 0;
  return shift + unscaled(at + Real{0.5}) - Real{0.5};
}

Position real_coordinate(const NodeContext& ctx, const ResizedAxis& axis, int64_t o) {
  return axis.scale ? coordinate_as<double>(ctx, axis, o) : coordinate_as<Position>(ctx, axis, o);
}

template <typename Real>
Real keys_kernel(Real a, Real distance) {
  const Real d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

template <typename Real>
Real filter_weight(const NodeContext& ctx, Real distance) {
  if (ctx.attrs().text("mode") == "cubic")
    return keys_kernel(static_cast<Real>(ctx.attrs().real("cubic_a")), distance);
  return std::max(Real{0}, 1 - std::abs(distance));
}

int64_t nearest_index(const std::string& mode, Position c) {
  if (mode == "round_prefer_floor") return static_cast<int64_t>(std::ceil(c - 0.5L));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(c + 0.5L));
  return static_cast<int64_t>(mode == "floor" ? std::floor(c) : std::ceil(c));
}

void scale_to_one(std::vector<AxisTap>& taps) {
  double sum = 0;
  for (const AxisTap& tap : taps) sum += tap.weight;
  for (AxisTap& tap : taps) tap.weight /= sum;
}

std::vector<AxisTap> real_taps(const NodeContext& ctx, const ResizedAxis& axis, int64_t o) {
  const Position c = real_coordinate(ctx, axis, o);
  const std::string mode = ctx.attrs().text("mode");
  const auto clamped = [&axis](int64_t i) { return std::clamp<int64_t>(i, 0, axis.in - 1); };
  if (mode == "nearest")
    return {{.index = clamped(nearest_index(ctx.attrs().text("nearest_mode"), c))}};
  const Position radius = mode == "cubic" ? 2 : 1;
  std::vector<AxisTap> taps;
  if (ctx.attrs().flag("antialias")) {
    const Position widened = std::max(1.0, 1 / axis.ratio());
    const Position reach = radius * widened;
    const bool clamps = ctx.attrs().flag("antialias_clamps");
    for (auto i = static_cast<int64_t>(std::floor(c - reach)); i <= std::ceil(c + reach); ++i) {
      const Position distance = (static_cast<Position>(i) - c) / widened;
      if (!(std::abs(distance) < radius) || (!clamps && clamped(i) != i)) continue;
      taps.push_back(
          {.index = clamped(i), .weight = static_cast<double>(filter_weight(ctx, distance))});
    }
    scale_to_one(taps);
    return taps;
  }
  const auto first = static_cast<int64_t>(std::floor(c)) - (mode == "cubic" ? 1 : 0);
  const bool drops = mode == "cubic" && ctx.attrs().flag("exclude_outside");
  for (int64_t i = first; i < first + static_cast<int64_t>(2 * radius); ++i) {
    if (drops && clamped(i) != i) continue;
    taps.push_back(
        {.index = clamped(i),
         .weight = static_cast<double>(filter_weight(ctx, static_cast<Position>(i) - c))});
  }
  if (drops) scale_to_one(taps);
  return taps;
}

// An axis whose pixels all stay where they are is not touched.
bool stays(const NodeContext& ctx, const ResizedAxis& axis) {
  if (axis.in != axis.out) return false;
  for (int64_t o = 0; o < axis.out; ++o) {
    if (real_coordinate(ctx, axis, o) != static_cast<Position>(o)) return false;
  }
  return true;
}

// Resizes one axis of a dense tensor.
Tensor resize_axis(const NodeContext& ctx, const Tensor& x, const ResizedAxis& axis) {
  TensorType type = x.type;
  type.shape[axis.axis] = axis.out;
  Tensor y = Tensor::zeros(type);
  const bool sums = ctx.attrs().text("mode") != "nearest";
  if (sums) y.magnitudes.resize(y.floats.size());
  const int64_t inner = dense_strides(type.shape)[axis.axis];
  const int64_t outer = inner * axis.out == 0 ? 0 : y.count() / (inner * axis.out);
  for (int64_t o = 0; o < axis.out; ++o) {
    const std::vector<AxisTap> taps = real_taps(ctx, axis, o);
    y.terms = std::max(y.terms, static_cast<int64_t>(taps.size()) * std::max<int64_t>(x.terms, 1));
    for (int64_t place = 0; place < outer * inner; ++place) {
      const int64_t block = place / inner;
      const auto to = static_cast<size_t>((block * axis.out + o) * inner + place % inner);
      for (const AxisTap& tap : taps) {
        const auto from =
            static_cast<size_t>((block * axis.in + tap.index) * inner + place % inner);
        if (!y.is_float()) {
          y.integers[to] = x.integers[from];
          continue;
        }
        y.floats[to] += sums ? tap.weight * x.floats[from] : x.floats[from];
        if (sums) {
          const double size = x.magnitudes.empty() ? std::abs(x.floats[from]) : x.magnitudes[from];
          y.magnitudes[to] += std::abs(tap.weight) * size;
        }
      }
    }
  }
  return y;
}

bool evaluate_resize(EvaluateContext& ctx) {
  const std::optional<std::vector<AxisSizes>> axes = read_axes(ctx, ctx.input(0).type.shape);
  if (!axes) return false;
  Tensor y = ctx.input(0);
  for (const AxisSizes& sizes : *axes) {
    const ResizedAxis axis = numbers_of(sizes);
    if (!stays(ctx, axis)) y = resize_axis(ctx, y, axis);
  }
  ctx.output(0) = std::move(y);
  return true;
}

// ---- tables ----

// A source coordinate: whole + fraction, 0 <= fraction < 1, what is left to 1 (rounded by itself),
// and how the fraction compares with one half (-1, 0, 1), which its rounding might hide.
struct Coordinate {
  int64_t whole = 0;
  double fraction = 0;
  double left = 1;
  int half = -1;
};

Coordinate quotient(int64_t numerator, int64_t denominator) {
  const int64_t whole = numerator / denominator - (numerator % denominator < 0 ? 1 : 0);
  const int64_t rest = numerator - whole * denominator;
  const int64_t twice = 2 * rest;
  return {.whole = whole,
          .fraction = static_cast<double>(rest) / static_cast<double>(denominator),
          .left = static_cast<double>(denominator - rest) / static_cast<double>(denominator),
          .half = twice < denominator ? -1 : (twice == denominator ? 0 : 1)};
}

Coordinate split(double c) {
  const double whole = std::floor(c);
  const double fraction = c - whole;
  return {.whole = static_cast<int64_t>(whole),
          .fraction = fraction,
          .left = 1 - fraction,
          .half = fraction < 0.5 ? -1 : (fraction == 0.5 ? 0 : 1)};
}

// Of output coordinate o where in / out is this.
Coordinate coordinate_by(const Ratio& ratio, const std::string& coord, int64_t o) {
  if (coord == "asymmetric") return quotient(o * ratio.in, ratio.out);
  return quotient((2 * o + 1) * ratio.in - ratio.out, 2 * ratio.out);
}

Coordinate coordinate_of(const NodeContext& ctx, const ResizedAxis& axis, int64_t o) {
  const std::string coord = ctx.attrs().text("coord");
  if (coord == "align_corners")
    return axis.out <= 1 ? Coordinate{} : quotient(o * (axis.in - 1), axis.out - 1);
  if (coord == "pytorch_half_pixel" && axis.out == 1) return {};
  if (axis.scale) return split(coordinate_as<double>(ctx, axis, o));
  return coordinate_by({.out = axis.out, .in = axis.in}, coord, o);
}

int64_t nearest_of(const std::string& mode, const Coordinate& c) {
  if (mode == "round_prefer_floor") return c.whole + (c.half > 0 ? 1 : 0);
  if (mode == "round_prefer_ceil") return c.whole + (c.half >= 0 ? 1 : 0);
  return c.whole + (mode == "ceil" && c.fraction > 0 ? 1 : 0);
}

// Weight of the pixel `i` places behind the coordinate's whole part. The two or four around it are
// products, which keep their relative precision near 0.
double table_weight(const NodeContext& ctx, const Coordinate& c, int64_t i, double widened) {
  if (widened > 1) return filter_weight(ctx, (static_cast<double>(i) - c.fraction) / widened);
  const bool before = i <= 0;
  const double near = before ? c.left : c.fraction;  // the share of a linear weight
  const double far = before ? c.fraction : c.left;
  if (ctx.attrs().text("mode") == "linear") return near;
  const double a = ctx.attrs().real("cubic_a");
  const bool inner = i == 0 || i == 1;
  return inner ? near * (1 + far - (a + 2) * far * far) : a * far * near * near;
}

// Whether taps beyond the edges are left out, instead of repeating the edge.
bool drops_outside(const NodeContext& ctx) {
  return ctx.attrs().flag("antialias")
             ? !ctx.attrs().flag("antialias_clamps")
             : ctx.attrs().text("mode") == "cubic" && ctx.attrs().flag("exclude_outside");
}

// The taps at a coordinate of an axis with this ratio of out / in. Outside [0, in) they are left
// out or clamped; without `in` they are where they are.
std::vector<AxisTap> taps_at(const NodeContext& ctx, const Coordinate& c, double ratio,
                             std::optional<int64_t> in) {
  const std::string mode = ctx.attrs().text("mode");
  const auto clamped = [in](int64_t i) { return in ? std::clamp<int64_t>(i, 0, *in - 1) : i; };
  if (mode == "nearest")
    return {{.index = clamped(nearest_of(ctx.attrs().text("nearest_mode"), c))}};
  const bool antialias = ctx.attrs().flag("antialias");
  const double widened = antialias ? std::max(1.0, 1 / ratio) : 1;
  const double reach = (mode == "cubic" ? 2 : 1) * widened;
  const bool drops = drops_outside(ctx);
  const auto before = static_cast<int64_t>(std::ceil(reach));
  std::vector<AxisTap> taps;
  for (int64_t i = 1 - before; i <= before; ++i) {
    const int64_t index = c.whole + i;
    const bool inside = clamped(index) == index;
    const double distance = static_cast<double>(i) - c.fraction;
    if ((drops && !inside) || (antialias && !(std::abs(distance) < reach))) continue;
    taps.push_back({.index = clamped(index), .weight = table_weight(ctx, c, i, widened)});
  }
  if (drops || antialias) scale_to_one(taps);
  return taps;
}

// Shorter rows end in `rest`, which weighs nothing.
void append_rows(std::vector<std::vector<AxisTap>> rows, int64_t rest, AxisTaps& table) {
  for (const std::vector<AxisTap>& row : rows)
    table.count = std::max(table.count, static_cast<int64_t>(row.size()));
  for (std::vector<AxisTap>& row : rows) {
    row.resize(static_cast<size_t>(table.count), {.index = rest, .weight = 0});
    for (const AxisTap& tap : row) {
      table.taps.push_back(tap.index);
      table.weights.push_back(tap.weight);
    }
  }
}

AxisTaps table_of(const NodeContext& ctx, const ResizedAxis& axis) {
  AxisTaps table{.axis = axis.axis, .out = axis.out};
  std::vector<std::vector<AxisTap>> rows;
  for (int64_t o = 0; o < axis.out; ++o)
    rows.push_back(taps_at(ctx, coordinate_of(ctx, axis, o), axis.ratio(), axis.in));
  append_rows(std::move(rows), -1, table);
  return table;
}

// Whether a coordinate depends on nothing but the ratio of the sizes.
bool goes_by_ratio(const NodeContext& ctx, const AxisSizes& axis, const Ratio& ratio) {
  const std::string coord = ctx.attrs().text("coord");
  if (coord == "align_corners" || drops_outside(ctx)) return false;
  if (coord == "pytorch_half_pixel") return axis.out.range().least > 1;
  return coord != "half_pixel_symmetric" || !axis.scale || axis.in.divides_by(ratio.in);
}

// The table of one period, whatever the sizes are; one that needs them reads them as numbers, which
// refuses free ones.
AxisTaps periodic_table(const NodeContext& ctx, const AxisSizes& axis) {
  const std::optional<Ratio> ratio = ratio_of(axis);
  if (!ratio || !goes_by_ratio(ctx, axis, *ratio)) return table_of(ctx, numbers_of(axis));
  AxisTaps table{.axis = axis.axis, .out = axis.out, .period = ratio->out, .advance = ratio->in};
  const double out_per_in = static_cast<double>(ratio->out) / static_cast<double>(ratio->in);
  std::vector<std::vector<AxisTap>> rows;
  for (int64_t o = 0; o < ratio->out; ++o) {
    const Coordinate c = coordinate_by(*ratio, ctx.attrs().text("coord"), o);
    rows.push_back(taps_at(ctx, c, out_per_in, std::nullopt));
  }
  append_rows(std::move(rows), 0, table);
  return table;
}

bool is_free(const AxisSizes& axis) {
  return axis.in.is_free() || axis.out.is_free();
}

// ---- tables that the run makes ----

// Taps and weights of an axis whose sizes the run gives, computed as the tables are: coordinates
// are quotients of integers.
class RunTables {
 public:
  RunTables(RewriteContext& ctx, const AxisSizes& axis, DType weight)
      : ctx_(ctx), numbers_(ctx), axis_(axis), weight_(weight), mode_(ctx.attrs().text("mode")) {}

  RunTable make() {
    const ValueId above = numerator();
    split(above, denominator_);
    if (mode_ == "nearest") return table(1, clamped(nearest()), std::nullopt);
    const bool is_cubic = mode_ == "cubic";
    const int64_t count = is_cubic ? 4 : 2;
    const ValueId offsets = numbers_.row(is_cubic ? -1 : 0, count);
    const ValueId at = combine("add", whole_, offsets);
    ValueId weights = is_cubic ? cubic_weights() : joined({left_, fraction_});
    if (drops_outside(ctx_)) weights = inside_weights(at, weights);
    const ValueId is_neighbour = combine("ne", offsets, numbers_.number(0));
    const ValueId is_absent = combine("logical_and", is_neighbour, stays(above));
    return table(count, ctx_.emit("where", {is_absent, numbers_.number(-1), clamped(at)}), weights);
  }

 private:
  ValueId size(const Dim& size) { return numbers_.size(size); }
  ValueId combine(std::string_view op, ValueId a, ValueId b) { return numbers_.combine(op, a, b); }
  ValueId times(ValueId x, int64_t factor) { return combine("mul", x, numbers_.number(factor)); }

  // Of all output coordinates, [out, 1]; its denominator in denominator_.
  ValueId numerator() {
    const std::string coord = ctx_.attrs().text("coord");
    const ValueId at = numbers_.column(axis_.out);
    if (coord == "align_corners") {
      denominator_ = size(max(axis_.out - 1, 1));
      return combine("mul", at, combine("sub", size(axis_.in), numbers_.number(1)));
    }
    // A free size scaled by another factor was refused.
    const bool is_scaled = axis_.scale.has_value();
    const Ratio scale = ratio_of_scale(axis_.scale.value_or(1)).value_or(Ratio{});
    const ValueId in = is_scaled ? numbers_.number(scale.in) : size(axis_.in);
    const ValueId out = is_scaled ? numbers_.number(scale.out) : size(axis_.out);
    denominator_ = coord == "asymmetric" ? out : times(out, 2);
    if (coord == "asymmetric") return combine("mul", at, in);
    const ValueId odd = combine("add", times(at, 2), numbers_.number(1));
    ValueId above = combine("sub", combine("mul", odd, in), out);
    if (coord == "pytorch_half_pixel")
      above = combine(
          "mul", above,
          combine("min", combine("sub", size(axis_.out), numbers_.number(1)), numbers_.number(1)));
    if (coord == "half_pixel_symmetric" && is_scaled) {
      above = combine("add", above, times(size(axis_.in), scale.out));
      above = combine("sub", above, times(size(axis_.out), scale.in));
    }
    return above;
  }

  void split(ValueId above, ValueId below) {
    whole_ = combine("floor_div", above, below);
    rest_ = combine("sub", above, combine("mul", whole_, below));
    const ValueId parts = numbers_.as(weight_, below);
    fraction_ = combine("div", numbers_.as(weight_, rest_), parts);
    left_ = combine("div", numbers_.as(weight_, combine("sub", below, rest_)), parts);
  }

  // Of the axis as a whole, [1, 1]: such an axis is not touched, not even by 0 times an infinity.
  ValueId stays(ValueId above) {
    const ValueId home = combine("mul", numbers_.column(axis_.out), denominator_);
    const ValueId moves = numbers_.as(DType::i64, combine("ne", above, home));
    const ValueId moved =
        ctx_.emit("reduce_sum", {moves}, {{"axes", Ints{0}}, {"keep_dims", true}});
    return combine("logical_and", combine("eq", moved, numbers_.number(0)),
                   combine("eq", size(axis_.in), size(axis_.out)));
  }

  ValueId nearest() {
    const std::string mode = ctx_.attrs().text("nearest_mode");
    if (mode == "floor") return whole_;
    const bool is_ceil = mode == "ceil";
    const ValueId twice = times(rest_, 2);
    const ValueId goes_on =
        is_ceil ? combine("gt", rest_, numbers_.number(0))
                : combine(mode == "round_prefer_ceil" ? "ge" : "gt", twice, denominator_);
    return combine("add", whole_, numbers_.as(DType::i64, goes_on));
  }

  ValueId joined(std::initializer_list<ValueId> columns) {
    NodeBuilder::Inputs inputs;
    for (const ValueId column : columns) inputs.emplace_back(column);
    return ctx_.emit("concat", std::move(inputs), {{"axis", int64_t{1}}});
  }

  // As table_weight() has them.
  ValueId cubic_weights() {
    const double a = ctx_.attrs().real("cubic_a");
    const auto affine = [&](ValueId x, double mul, double add) {
      return ctx_.emit("affine", {x}, {{"mul", mul}, {"add", add}});
    };
    const auto inner = [&](ValueId near, ValueId far) {
      const ValueId square = combine("mul", far, far);
      const ValueId sum = combine("add", affine(far, 1, 1), affine(square, -(a + 2), 0));
      return combine("mul", near, sum);
    };
    const auto outer = [&](ValueId near, ValueId far) {
      return combine("mul", affine(far, a, 0), combine("mul", near, near));
    };
    return joined({outer(left_, fraction_), inner(left_, fraction_), inner(fraction_, left_),
                   outer(fraction_, left_)});
  }

  ValueId clamped(ValueId at) {
    const ValueId last = combine("sub", size(axis_.in), numbers_.number(1));
    return combine("max", combine("min", at, last), numbers_.number(0));
  }

  // What is outside weighs nothing, and the rest as much as all.
  ValueId inside_weights(ValueId at, ValueId weights) {
    const ValueId is_inside = combine("eq", at, clamped(at));
    const ValueId kept = combine("mul", weights, numbers_.as(weight_, is_inside));
    const ValueId sum = ctx_.emit("reduce_sum", {kept}, {{"axes", Ints{1}}, {"keep_dims", true}});
    return combine("div", kept, sum);
  }

  RunTable table(int64_t count, ValueId taps, std::optional<ValueId> weights) {
    const Attributes flat{{"shape", Ints{axis_.out * count}}};
    RunTable made{.axis = axis_.axis, .out = axis_.out, .count = count};
    made.taps = ctx_.emit("reshape", {numbers_.as(DType::i32, taps)}, flat);
    made.weights = weights ? ctx_.emit("reshape", {*weights}, flat)
                           : ctx_.emit("expand", {numbers_.as(weight_, numbers_.number(1))}, flat);
    return made;
  }

  RewriteContext& ctx_;
  RunNumbers numbers_;
  AxisSizes axis_;
  DType weight_;
  std::string mode_;
  ValueId denominator_{};
  ValueId whole_{};
  ValueId rest_{};
  ValueId fraction_{};
  ValueId left_{};
};

// Whether one period of coordinates says all of the axis.
bool has_period(const NodeContext& ctx, const AxisSizes& axis) {
  const std::optional<Ratio> ratio = ratio_of(axis);
  return ratio && goes_by_ratio(ctx, axis, *ratio);
}

// Coordinates are those of the axis itself, as far as the sizes show.
bool is_identity(const AxisSizes& axis) {
  return axis.in == axis.out && (!axis.scale || *axis.scale == 1);
}

bool decompose_resize(RewriteContext& ctx) {
  const ValueId x = ctx.input(0);
  const DType dtype = ctx.type(x).dtype;
  const std::optional<std::vector<AxisSizes>> axes = read_axes(ctx, ctx.type(x).shape);
  if (!axes) return false;
  std::vector<AxisTaps> fixed_tables;
  std::vector<AxisTaps> free_tables;
  std::vector<AxisSizes> run_axes;
  for (const AxisSizes& axis : *axes) {
    if (is_free(axis) && is_identity(axis)) continue;
    if (is_free(axis) && !has_period(ctx, axis) && !ctx.attrs().flag("antialias")) {
      run_axes.push_back(axis);
      continue;
    }
    AxisTaps table = is_free(axis) ? periodic_table(ctx, axis) : table_of(ctx, numbers_of(axis));
    if (is_identity(table, axis.in)) continue;
    (is_free(axis) ? free_tables : fixed_tables).push_back(std::move(table));
  }
  const std::string combine = ctx.attrs().text("mode") == "nearest" ? "copy" : "sum";
  const DType between = dtype_between(dtype, combine);
  const DType behind_free = run_axes.empty() ? dtype : between;
  const DType behind_fixed = free_tables.empty() ? behind_free : between;
  ValueId y = emit_resample(ctx, x, std::move(fixed_tables), combine, behind_fixed);
  y = emit_resample(ctx, y, std::move(free_tables), combine, behind_free);
  for (size_t i = 0; i < run_axes.size(); ++i) {
    const DType to = i + 1 == run_axes.size() ? dtype : between;
    RunTables tables(ctx, run_axes[i], table_dtype(to));
    y = emit_resample_by(ctx, y, tables.make(), combine, to);
  }
  ctx.replace_output(0, y);
  return true;
}

constexpr std::string_view kResizeModes[] = {"nearest", "linear", "cubic"};
constexpr std::string_view kCoords[] = {"half_pixel", "pytorch_half_pixel",   "align_corners",
                                        "asymmetric", "half_pixel_symmetric", "tf_crop_and_resize"};
constexpr std::string_view kNearestModes[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                              "ceil"};
constexpr AttrSpec kResizeAttrs[] = {
    {.name = "mode",
     .type = AttrType::String,
     .default_text = "\"nearest\"",
     .choices = kResizeModes},
    {.name = "sizes", .type = AttrType::IntList, .minimum = 0},
    {.name = "scales", .type = AttrType::FloatList},
    {.name = "coord",
     .type = AttrType::String,
     .default_text = "\"half_pixel\"",
     .choices = kCoords},
    {.name = "nearest_mode",
     .type = AttrType::String,
     .default_text = "\"round_prefer_floor\"",
     .choices = kNearestModes},
    {.name = "cubic_a", .type = AttrType::Float, .default_text = "-0.75"},
    {.name = "exclude_outside", .type = AttrType::Bool, .default_text = "false"},
    {.name = "antialias", .type = AttrType::Bool, .default_text = "false"},
    // Taps beyond the border repeat its pixel (ONNX without exclude_outside); otherwise they are
    // left out, and the rest weighs more.
    {.name = "antialias_clamps", .type = AttrType::Bool, .default_text = "false"},
    {.name = "axes", .type = AttrType::IntList},
};

// Every axis by itself: the transpose of the matrix that the resize of ones on a diagonal is.
bool resize_gradient(GradientContext& ctx) {
  const Shape x = ctx.shape(ctx.input(0));
  const size_t rank = x.size();
  const Ints axes = ctx.attrs().has("axes") ? ctx.axes(ctx.attrs().integers("axes"), rank).value()
                                            : axes_from(2, rank);
  ValueId dx = ctx.widen(ctx.gradient());
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(int64_t{axes[i]});
    if (x[axis].is_free() || ctx.shape(dx)[axis].is_free()) {
      return ctx.fail(DiagCode::UnknownOp, "along an axis of a free size it has no gradient",
                      "bind the size");
    }
    Attributes attributes = ctx.attributes({{"axes", Ints{0}}});
    if (ctx.attrs().has("scales")) {
      attributes["scales"] = Floats{ctx.attrs().reals("scales")[i]};
    } else {
      attributes["sizes"] = Ints{ctx.shape(dx)[axis]};
    }
    const ValueId ones = ctx.emit(
        "eye", {}, {{"n", x[axis].bound()}, {"dtype", std::string(name_of(ctx.dtype(dx)))}});
    const ValueId matrix = ctx.emit("resize", {ones}, std::move(attributes));
    Ints perm = axes_from(0, rank);
    std::swap(perm[axis], perm.back());
    dx = ctx.transpose(ctx.emit("matmul", {ctx.transpose(dx, perm), matrix}), perm);
  }
  ctx.give(0, dx);
  return true;
}

constexpr OpDef kResizeOps[] = {
    {.name = "resize",
     .signature = "resize(x; mode=\"nearest\", sizes or scales, coord=\"half_pixel\", "
                  "nearest_mode=\"round_prefer_floor\", cubic_a=-0.75, exclude_outside=false, "
                  "antialias=false, antialias_clamps=false, axes=spatial) -> y",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kResizeAttrs,
     .infer = infer_resize,
     .evaluate = evaluate_resize,
     .decompose = decompose_resize,
     .gradient = resize_gradient},
};

}  // namespace

std::span<const OpDef> resize_ops() {
  return kResizeOps;
}

}  // namespace rlx
