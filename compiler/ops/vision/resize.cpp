// SPDX-License-Identifier: Apache-2.0
// resize (ops.md 9.5): nearest, linear and cubic along any axes, by tables of source pixels and
// weights. From `sizes`, coordinates are quotients of integers, so no rounding moves an index.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/vision/resample.h"

namespace rlx {
namespace {

constexpr int64_t kLargestAxis = std::numeric_limits<int32_t>::max();

// One resized axis. `scale` is given where the model writes scales; from sizes it is out / in.
struct ResizedAxis {
  size_t axis = 0;
  int64_t in = 0;
  int64_t out = 0;
  std::optional<double> scale;

  [[nodiscard]] double ratio() const {
    return scale.value_or(static_cast<double>(out) / static_cast<double>(in));
  }
};

// ---- shapes ----

std::optional<Ints> resized_axes(NodeContext& ctx, size_t rank) {
  if (ctx.attrs().has("axes")) return ctx.axes(ctx.attrs().integers("axes"), rank);
  Ints spatial(rank < 2 ? 0 : rank - 2);
  std::iota(spatial.begin(), spatial.end(), 2);
  return spatial;
}

bool check_axis(NodeContext& ctx, const ResizedAxis& axis) {
  const std::string which = "axis " + std::to_string(axis.axis);
  if (axis.out < 0 || axis.out > kLargestAxis || axis.in > kLargestAxis) {
    return ctx.fail(DiagCode::BadShape, which + " goes from " + std::to_string(axis.in) + " to " +
                                            std::to_string(axis.out) +
                                            " elements; wanted at most " +
                                            std::to_string(kLargestAxis));
  }
  if (axis.in > 0 || axis.out == 0) return true;
  return ctx.fail(DiagCode::BadShape, which + " is empty; there is nothing to resize to " +
                                          std::to_string(axis.out) + " elements");
}

std::optional<std::vector<ResizedAxis>> read_axes(NodeContext& ctx, const Shape& x) {
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
  std::vector<ResizedAxis> result;
  for (size_t k = 0; k < axes->size(); ++k) {
    ResizedAxis axis{.axis = static_cast<size_t>((*axes)[k]), .scale = std::nullopt};
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
      const double out = std::floor(static_cast<double>(axis.in) * scales[k]);
      axis.out =
          out > static_cast<double>(kLargestAxis) ? kLargestAxis + 1 : static_cast<int64_t>(out);
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
  const std::optional<std::vector<ResizedAxis>> axes = read_axes(ctx, ctx.shape(0));
  if (!axes) return false;
  TensorType y = ctx.input(0);
  for (const ResizedAxis& axis : *axes) y.shape[axis.axis] = axis.out;
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
  const std::optional<std::vector<ResizedAxis>> axes = read_axes(ctx, ctx.input(0).type.shape);
  if (!axes) return false;
  Tensor y = ctx.input(0);
  for (const ResizedAxis& axis : *axes) {
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

Coordinate coordinate_of(const NodeContext& ctx, const ResizedAxis& axis, int64_t o) {
  const std::string coord = ctx.attrs().text("coord");
  if (coord == "align_corners")
    return axis.out <= 1 ? Coordinate{} : quotient(o * (axis.in - 1), axis.out - 1);
  if (coord == "pytorch_half_pixel" && axis.out == 1) return {};
  if (axis.scale) return split(coordinate_as<double>(ctx, axis, o));
  if (coord == "asymmetric") return quotient(o * axis.in, axis.out);
  return quotient((2 * o + 1) * axis.in - axis.out, 2 * axis.out);
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

// The taps of one output coordinate; outside [0, in) is -1 or clamped.
std::vector<AxisTap> table_taps(const NodeContext& ctx, const ResizedAxis& axis, int64_t o) {
  const Coordinate c = coordinate_of(ctx, axis, o);
  const std::string mode = ctx.attrs().text("mode");
  const int64_t last = axis.in - 1;
  if (mode == "nearest") {
    const int64_t index = nearest_of(ctx.attrs().text("nearest_mode"), c);
    return {{.index = std::clamp<int64_t>(index, 0, last)}};
  }
  const bool cubic = mode == "cubic";
  const bool antialias = ctx.attrs().flag("antialias");
  const double widened = antialias ? std::max(1.0, 1 / axis.ratio()) : 1;
  const double reach = (cubic ? 2 : 1) * widened;
  const bool drops = antialias ? !ctx.attrs().flag("antialias_clamps")
                               : cubic && ctx.attrs().flag("exclude_outside");
  const auto before = static_cast<int64_t>(std::ceil(reach));
  std::vector<AxisTap> taps;
  for (int64_t i = 1 - before; i <= before; ++i) {
    const int64_t index = c.whole + i;
    const bool inside = index >= 0 && index <= last;
    const double distance = static_cast<double>(i) - c.fraction;
    if ((drops && !inside) || (antialias && !(std::abs(distance) < reach))) continue;
    taps.push_back(
        {.index = std::clamp<int64_t>(index, 0, last), .weight = table_weight(ctx, c, i, widened)});
  }
  if (drops || antialias) scale_to_one(taps);
  return taps;
}

AxisTaps table_of(const NodeContext& ctx, const ResizedAxis& axis) {
  AxisTaps table{.axis = axis.axis, .out = axis.out};
  std::vector<std::vector<AxisTap>> rows;
  for (int64_t o = 0; o < axis.out; ++o) {
    rows.push_back(table_taps(ctx, axis, o));
    table.count = std::max(table.count, static_cast<int64_t>(rows.back().size()));
  }
  for (std::vector<AxisTap>& row : rows) {
    row.resize(static_cast<size_t>(table.count), {.index = -1, .weight = 0});
    for (const AxisTap& tap : row) {
      table.taps.push_back(tap.index);
      table.weights.push_back(tap.weight);
    }
  }
  return table;
}

bool decompose_resize(RewriteContext& ctx) {
  const ValueId x = ctx.input(0);
  const std::optional<std::vector<ResizedAxis>> axes = read_axes(ctx, ctx.type(x).shape);
  if (!axes) return false;
  std::vector<AxisTaps> tables;
  for (const ResizedAxis& axis : *axes) {
    AxisTaps table = table_of(ctx, axis);
    if (!is_identity(table, axis.in)) tables.push_back(std::move(table));
  }
  const bool nearest = ctx.attrs().text("mode") == "nearest";
  ctx.replace_output(0, emit_resample(ctx, x, std::move(tables), nearest ? "copy" : "sum"));
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
     .decompose = decompose_resize},
};

}  // namespace

std::span<const OpDef> resize_ops() {
  return kResizeOps;
}

}  // namespace rlx
