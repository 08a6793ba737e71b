// SPDX-License-Identifier: Apache-2.0
// max_pool_backward and mean_pool_backward (ops.md 16.6): each dy to the place of its window's
// first maximum, or spread over the taps that were counted. Maxima of small windows have a kernel.
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/lowering/places.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/vision/pool_offers.h"

namespace rlx {
namespace {

bool is_max(const NodeContext& ctx) {
  return ctx.node().op == "max_pool_backward";
}

Shape input_shape(const NodeContext& ctx, const Shape& first) {
  return is_max(ctx) ? first : ctx.attrs().integers("x_shape");
}

std::optional<Window> window_of(NodeContext& ctx, const Shape& x, const Shape& dy) {
  const Ints kernel = ctx.attrs().integers("kernel");
  if (x.size() < 3 || x.size() > 2 + kSpatialDims || kernel.size() != x.size() - 2) {
    ctx.fail(DiagCode::BadRank, "x is " + to_string(x) + " and kernel has " +
                                    std::to_string(kernel.size()) +
                                    " values; wanted [N, C, spatial..] and one for each of 1 to 3 "
                                    "spatial dims");
    return std::nullopt;
  }
  const bool ceil = ctx.attrs().flag("ceil_mode");
  const std::optional<Window> window =
      read_window(ctx, Shape(x.begin() + 2, x.end()), kernel,
                  ceil ? WindowRounding::Ceil : WindowRounding::Floor);
  if (!window) return std::nullopt;
  Shape wanted = {x[0], x[1]};
  for (const Dim& size : window->out_shape()) wanted.push_back(size);
  if (dy == wanted) return window;
  ctx.fail(DiagCode::BadShape, "dy is " + to_string(dy) + ", wanted " + to_string(wanted) +
                                   " of a pool over x " + to_string(x));
  return std::nullopt;
}

bool infer_pool_backward(InferContext& ctx) {
  if (!check_float_input(ctx, 0, is_max(ctx) ? "x" : "dy")) return false;
  const Shape x = input_shape(ctx, ctx.shape(0));
  const size_t dy = is_max(ctx) ? 1 : 0;
  if (ctx.dtype(dy) != ctx.dtype(0)) {
    return ctx.fail(DiagCode::BadDtype, "dy is " + std::string(name_of(ctx.dtype(dy))) +
                                            ", wanted " + std::string(name_of(ctx.dtype(0))) +
                                            " as x");
  }
  if (!window_of(ctx, x, ctx.shape(dy))) return false;
  if (ctx.has_input(2) && (!check_index_dtype(ctx, 2) || ctx.shape(2) != ctx.shape(1))) {
    return ctx.fail(DiagCode::BadShape, "indices are " + to_string(ctx.input(2)) +
                                            ", wanted integers of the shape of dy");
  }
  ctx.set_output(0, {ctx.dtype(0), x});
  return true;
}

// The taps of a window inside the image, as offsets in the plane, and what a mean divides by.
struct WindowTaps {
  std::vector<int64_t> taps;
  double divisor = 0;
};

WindowTaps taps_at(const FixedWindow& window, int64_t place, bool count_pads) {
  WindowTaps result;
  for (int64_t tap = 0; tap < window.taps(); ++tap) {
    int64_t rest_place = place;
    int64_t rest_tap = tap;
    int64_t offset = 0;
    int64_t scale = 1;
    bool inside = true;
    bool padded = true;
    for (size_t d = kSpatialDims; d-- > 0;) {
      const int64_t at = rest_place % window.out[d] * window.stride[d] +
                         rest_tap % window.kernel[d] * window.dilation[d] - window.begin[d];
      rest_place /= window.out[d];
      rest_tap /= window.kernel[d];
      inside = inside && at >= 0 && at < window.in[d];
      padded = padded && at < window.in[d] + window.end[d];
      offset += at * scale;
      scale *= window.in[d];
    }
    if (inside) result.taps.push_back(offset);
    if (count_pads ? padded : inside) ++result.divisor;
  }
  return result;
}

// The first maximum; NaN is one.
int64_t first_maximum(const Tensor& x, int64_t plane, const std::vector<int64_t>& taps) {
  int64_t best = taps.front();
  for (const int64_t tap : taps) {
    const double value = x.floats[static_cast<size_t>(plane + tap)];
    const double top = x.floats[static_cast<size_t>(plane + best)];
    if (!std::isnan(top) && (std::isnan(value) || value > top)) best = tap;
  }
  return best;
}

bool evaluate_pool_backward(EvaluateContext& ctx) {
  const bool max = is_max(ctx);
  const Tensor& dy = ctx.input(max ? 1 : 0);
  const Shape& shape = ctx.output_type(0).shape;
  const std::optional<Window> window = window_of(ctx, shape, dy.type.shape);
  if (!window) return false;
  const FixedWindow fixed = numbers_of(*window);
  const bool count_pads = !max && ctx.attrs().flag("count_include_pad");
  const int64_t override_by = max ? 0 : ctx.attrs().integer("divisor_override");
  Tensor& dx = ctx.output(0);
  dx.magnitudes.assign(dx.floats.size(), 0);
  dx.terms = fixed.taps();
  for (int64_t i = 0; i < dy.count(); ++i) {
    const int64_t plane = i / fixed.out_count() * fixed.in_count();
    const WindowTaps at = taps_at(fixed, i % fixed.out_count(), count_pads);
    if (at.taps.empty()) continue;
    const double g = dy.floats[static_cast<size_t>(i)];
    const auto add = [&](int64_t tap, double term) {
      dx.floats[static_cast<size_t>(plane + tap)] += term;
      dx.magnitudes[static_cast<size_t>(plane + tap)] += std::fabs(term);
    };
    if (max && ctx.has_input(2)) {
      add(static_cast<int64_t>(
              ctx.input(2).is_float()
                  ? ctx.input(2).floats[static_cast<size_t>(i)]
                  : static_cast<double>(ctx.input(2).integers[static_cast<size_t>(i)])),
          g);
    } else if (max) {
      add(first_maximum(ctx.input(0), plane, at.taps), g);
    } else {
      for (const int64_t tap : at.taps)
        add(tap, g / (override_by != 0 ? static_cast<double>(override_by) : at.divisor));
    }
  }
  return true;
}

Attributes window_attributes(const NodeContext& ctx) {
  Attributes attributes = {{"kernel", ctx.attrs().integers("kernel")},
                           {"ceil_mode", ctx.attrs().flag("ceil_mode")}};
  for (const char* name : {"stride", "pads", "dilation"}) {
    const Ints values = ctx.attrs().integers(name);
    if (!values.empty()) attributes[name] = values;
  }
  return attributes;
}

// Windows side by side that cover the image: each element of x is in one.
bool tiles(const Window& window) {
  bool good = true;
  for (size_t d = 0; d < kSpatialDims; ++d) {
    good = good && window.stride[d] == window.kernel[d] && window.dilation[d] == 1 &&
           window.begin[d] == 0 && window.out[d] * window.kernel[d] == window.in[d];
  }
  return good;
}

// Each window's value at all of its places.
ValueId spread(RewriteContext& ctx, ValueId by_window, const Window& window, const Shape& x) {
  Shape apart = {x[0], x[1]};
  Shape wide = apart;
  for (size_t d = kSpatialDims - window.rank; d < kSpatialDims; ++d) {
    apart.insert(apart.end(), {window.out[d], 1});
    wide.insert(wide.end(), {window.out[d], window.kernel[d]});
  }
  return ctx.reshape(ctx.expand(ctx.reshape(by_window, apart), wide), x);
}

// The number of each element in its plane.
ValueId numbers(RewriteContext& ctx, const Shape& x, DType index) {
  const int64_t count = element_count(Shape(x.begin() + 2, x.end()));
  Tensor begin = Tensor::zeros({index, {}});
  const ValueId start = ctx.constant("begin", begin);
  begin.integers[0] = 1;
  const ValueId step = ctx.constant("step", begin);
  const ValueId line = ctx.emit("ramp", {start, step}, {{"count", count}});
  Shape plane(x.begin(), x.end());
  plane[0] = plane[1] = 1;
  return ctx.reshape(line, plane);
}

// Each pixel then looks at all taps of the windows that read it, which is less than sorting
// indices.
constexpr int64_t kMostGatheredTaps = 32;

// The kernel takes such a node as it is.
bool is_gathered(const NodeContext& ctx, const Window& window) {
  return !ctx.has_input(2) && !tiles(window) && window.taps() <= kMostGatheredTaps;
}

void decompose_max(RewriteContext& ctx, const Shape& x, const Window& window) {
  const DType dtype = ctx.dtype(ctx.input(0));
  ValueId indices{};
  if (ctx.has_input(2)) {
    indices = ctx.input(2);
    if (is_float(ctx.dtype(indices))) indices = ctx.cast(indices, DType::i64);
  } else {
    Attributes attributes = window_attributes(ctx);
    attributes["kind"] = std::string("max");
    indices = ctx.emit_all("pool", {ctx.input(0)}, std::move(attributes), 2)[1];
  }
  const Dim pixels = element_count(Shape(x.begin() + 2, x.end()));
  if (tiles(window) && !pixels.is_free() && ctx.dtype(indices) == DType::i32) {
    const ValueId at = spread(ctx, indices, window, x);
    const ValueId dy = spread(ctx, ctx.input(1), window, x);
    const ValueId here = ctx.emit("eq", {at, numbers(ctx, x, DType::i32)});
    ctx.replace_output(0, ctx.emit("where", {here, dy, ctx.scalar(dtype, 0)}));
    return;
  }
  const Dim planes = x[0] * x[1];
  const Shape windows = {planes, window.out_count()};
  ValueId dy = ctx.reshape(ctx.input(1), windows);
  // A window without taps has an index all the same.
  if (!ctx.has_input(2)) {
    Attributes attributes = window_attributes(ctx);
    attributes["kind"] = std::string("sum");
    Shape one(x.begin(), x.end());
    one[0] = one[1] = 1;
    const ValueId taps =
        ctx.emit("pool", {ctx.filled({DType::f32, one}, 1)}, std::move(attributes));
    const ValueId some =
        ctx.emit("gt", {ctx.reshape(taps, {1, window.out_count()}), ctx.scalar(DType::f32, 0)});
    dy = ctx.emit("where", {some, dy, ctx.scalar(dtype, 0)});
  }
  const ValueId wide = ctx.widen(dy);
  const ValueId zeros = ctx.filled({ctx.dtype(wide), {planes, pixels}}, 0);
  const ValueId dx = ctx.emit("scatter_elements", {zeros, ctx.reshape(indices, windows), wide},
                              {{"axis", int64_t{1}}, {"reduction", std::string("add")}});
  ctx.replace_output(0, ctx.cast(ctx.reshape(dx, x), dtype));
}

// dy over the divisor of its window, through the transposed convolution of one filter of ones.
void decompose_mean(RewriteContext& ctx, const Shape& x, const Window& window) {
  const DType dtype = ctx.dtype(ctx.input(0));
  const ValueId dy = ctx.widen(ctx.input(0));
  const DType real = ctx.dtype(dy);
  Shape one(x.begin(), x.end());
  one[0] = one[1] = 1;
  const auto pooled = [&](const char* kind) {
    Attributes attributes = window_attributes(ctx);
    attributes["kind"] = std::string(kind);
    if (kind == std::string("mean")) {
      attributes["count_include_pad"] = ctx.attrs().flag("count_include_pad");
      attributes["divisor_override"] = ctx.attrs().integer("divisor_override");
    }
    return ctx.emit("pool", {ctx.filled({real, one}, 1)}, std::move(attributes));
  };
  const ValueId taps = pooled("sum");
  const ValueId zero = ctx.scalar(real, 0);
  const ValueId factor = ctx.emit(
      "where", {ctx.emit("gt", {taps, zero}), ctx.emit("div", {pooled("mean"), taps}), zero});
  const ValueId shares = ctx.emit("mul", {dy, factor});
  if (tiles(window)) {
    ctx.replace_output(0, ctx.cast(spread(ctx, shares, window, x), dtype));
    return;
  }
  const size_t n = window.rank;
  Shape planes = {x[0] * x[1], 1};
  Shape filter = {1, 1};
  Ints stride, begin, end, dilation, padding;
  for (size_t d = kSpatialDims - n; d < kSpatialDims; ++d) {
    planes.push_back(window.out[d]);
    filter.push_back(window.kernel[d]);
    stride.push_back(window.stride[d]);
    dilation.push_back(window.dilation[d]);
    begin.push_back(window.begin[d]);
    const Dim reach = (window.out[d] - 1) * window.stride[d] +
                      window.dilation[d] * (window.kernel[d] - 1) + 1 - window.begin[d];
    // Behind the image: cut off where windows reach beyond, empty where they end before.
    end.push_back(max(reach - window.in[d], 0));
    padding.push_back(max(window.in[d] - reach, 0));
  }
  begin.insert(begin.end(), end.begin(), end.end());
  const ValueId dx = ctx.emit(
      "conv_transpose", {ctx.reshape(shares, planes), ctx.filled({real, filter}, 1)},
      {{"stride", stride}, {"pads", begin}, {"dilation", dilation}, {"output_padding", padding}});
  ctx.replace_output(0, ctx.cast(ctx.reshape(dx, x), dtype));
}

bool decompose_pool_backward(RewriteContext& ctx) {
  const Shape x = ctx.shape(ctx.node().outputs[0]);
  const std::optional<Window> window = window_of(ctx, x, ctx.shape(ctx.input(is_max(ctx) ? 1 : 0)));
  if (!window) return false;
  if (is_max(ctx) && is_gathered(ctx, *window)) return true;
  if (is_max(ctx)) {
    decompose_max(ctx, x, *window);
  } else {
    decompose_mean(ctx, x, *window);
  }
  return true;
}

bool lower_pool_backward(LowerContext& ctx) {
  const std::optional<Window> window =
      window_of(ctx, ctx.input_type(0).shape, ctx.input_type(1).shape);
  return window && lower_max_pool_gradient(ctx, *window);
}

constexpr AttrSpec pool_list(std::string_view name, double minimum, bool required = false) {
  return {.name = name,
          .type = AttrType::IntList,
          .default_text = required ? "" : "[]",
          .required = required,
          .minimum = minimum,
          .maximum = kLargestInt};
}
constexpr AttrSpec kCeil{.name = "ceil_mode", .type = AttrType::Bool, .default_text = "false"};
constexpr std::array kMaxAttrs = {pool_list("kernel", 1, true), pool_list("stride", 1),
                                  pool_list("pads", 0), pool_list("dilation", 1), kCeil};
constexpr std::array kMeanAttrs = {
    pool_list("x_shape", 0, true),
    pool_list("kernel", 1, true),
    pool_list("stride", 1),
    pool_list("pads", 0),
    pool_list("dilation", 1),
    kCeil,
    AttrSpec{.name = "count_include_pad", .type = AttrType::Bool, .default_text = "false"},
    AttrSpec{.name = "divisor_override", .type = AttrType::Int, .default_text = "0", .minimum = 0},
};
constexpr std::array<uint32_t, 1> kMaxOptional = {2};

constexpr std::array kPoolBackwardOps = {
    OpDef{.name = "max_pool_backward",
          .signature = "max_pool_backward(x, dy, [indices]; kernel, stride, pads, dilation, "
                       "ceil_mode=false) -> dx",
          .inputs = {2, 3},
          .outputs = {1, 1},
          .attrs = kMaxAttrs,
          .infer = infer_pool_backward,
          .evaluate = evaluate_pool_backward,
          .decompose = decompose_pool_backward,
          .lower = lower_pool_backward,
          .optional_inputs = kMaxOptional,
          .reads_strides = true,
          .any_layout = true},
    OpDef{.name = "mean_pool_backward",
          .signature = "mean_pool_backward(dy; x_shape, kernel, stride, pads, dilation, "
                       "ceil_mode=false, count_include_pad=false, divisor_override=0) -> dx",
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attrs = kMeanAttrs,
          .infer = infer_pool_backward,
          .evaluate = evaluate_pool_backward,
          .decompose = decompose_pool_backward},
};

}  // namespace

std::span<const OpDef> pool_backward_ops() {
  return kPoolBackwardOps;
}

}  // namespace rlx
