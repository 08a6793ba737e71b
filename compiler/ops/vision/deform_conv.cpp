// SPDX-License-Identifier: Apache-2.0
// deform_conv: a convolution whose taps are moved by offsets and weighted by a mask (ONNX
// DeformConv-22, torchvision), as grid_sample and a product.
#include <algorithm>
#include <cmath>

#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

enum DeformInput : size_t { kDeformX, kDeformW, kDeformOffset, kDeformMask, kDeformBias };

struct DeformShape {
  Window window;
  int64_t groups = 1;
  int64_t offset_groups = 1;
};

std::optional<DeformShape> deform_shape(NodeContext& ctx, const Shape& x, const Shape& w) {
  const auto window = read_window(ctx, {x[2], x[3]}, {w[2], w[3]}, WindowRounding::Floor);
  if (!window) return std::nullopt;
  return DeformShape{.window = *window,
                     .groups = ctx.attrs().integer("groups"),
                     .offset_groups = ctx.attrs().integer("offset_groups")};
}

bool infer_deform_conv(InferContext& ctx) {
  const Shape& x = ctx.shape(kDeformX);
  const Shape& w = ctx.shape(kDeformW);
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (!ctx.has_input(i) || (is_float(ctx.dtype(i)) && ctx.dtype(i) == ctx.dtype(kDeformX)))
      continue;
    return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(i) + " is " +
                                            std::string(name_of(ctx.dtype(i))) +
                                            "; wanted floats of one type");
  }
  if (x.size() != 4 || w.size() != 4) {
    return ctx.fail(DiagCode::BadShape,
                    "x is " + to_string(x) + " and w " + to_string(w) +
                        "; wanted [N, C, H, W] and [Co, C/groups, kH, kDeformW]");
  }
  for (const Shape* shape : {&x, &w}) {
    for (const Dim& dim : *shape) {
      if (!dim.is_free()) continue;
      return ctx.fail(DiagCode::UnsupportedOp, "the size " + to_string(dim) + " is free",
                      "bind it with --dim");
    }
  }
  const auto shape = deform_shape(ctx, x, w);
  if (!shape) return false;
  if (!x[1].divides_by(shape->groups) || !x[1].divides_by(shape->offset_groups) ||
      !w[0].divides_by(shape->groups) || w[1] * shape->groups != x[1]) {
    return ctx.fail(DiagCode::BadShape,
                    "x " + to_string(x) + " and w " + to_string(w) + " do not divide into " +
                        std::to_string(shape->groups) + " groups, or x into " +
                        std::to_string(shape->offset_groups) + " groups of offsets");
  }
  const Shape out = shape->window.out_shape();
  const Dim planes = shape->window.taps() * shape->offset_groups;
  const auto check = [&](size_t i, const std::string& what, const Shape& wanted) {
    if (!ctx.has_input(i) || ctx.shape(i) == wanted) return true;
    return ctx.fail(DiagCode::BadShape,
                    what + " is " + to_string(ctx.shape(i)) + ", wanted " + to_string(wanted));
  };
  if (!check(kDeformOffset, "offset", {x[0], planes * 2, out[0], out[1]}) ||
      !check(kDeformMask, "mask", {x[0], planes, out[0], out[1]}) ||
      !check(kDeformBias, "bias", {w[0]}))
    return false;
  ctx.set_output(0, {ctx.dtype(kDeformX), {x[0], w[0], out[0], out[1]}});
  return true;
}

// ---- evaluation ----

struct Between {
  double value = 0;
  double moved = 0;  // what roundings of the position move it by, over their size
};

Between value_between(const double* plane, int64_t height, int64_t width, double y, double x) {
  Between found;
  const double row = std::floor(y);
  const double column = std::floor(x);
  double low = 0;
  double high = 0;
  for (const double i : {row, row + 1}) {
    for (const double j : {column, column + 1}) {
      if (i < 0 || j < 0 || i > static_cast<double>(height - 1) ||
          j > static_cast<double>(width - 1))
        continue;
      const double pixel = plane[static_cast<int64_t>(i) * width + static_cast<int64_t>(j)];
      found.value += (1 - std::abs(y - i)) * (1 - std::abs(x - j)) * pixel;
      low = std::min(low, pixel);
      high = std::max(high, pixel);
    }
  }
  found.moved = static_cast<double>(height + width) * (high - low);
  return found;
}

bool evaluate_deform_conv(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(kDeformX);
  const Tensor& w = ctx.input(kDeformW);
  const Tensor& offset = ctx.input(kDeformOffset);
  Tensor& y = ctx.output(0);
  const auto shape = deform_shape(ctx, x.type.shape, w.type.shape);
  if (!shape) return false;
  const FixedWindow window = numbers_of(shape->window);
  const int64_t channels = x.type.shape[1];
  const int64_t filters = w.type.shape[0];
  const int64_t depth = w.type.shape[1];
  const int64_t height = window.in[1];
  const int64_t width = window.in[2];
  const int64_t pixels = window.out[1] * window.out[2];
  const int64_t taps = window.taps();
  y.magnitudes.assign(y.floats.size(), 0);
  y.terms = 4 * taps * depth;
  for (int64_t o = 0; o < y.count(); ++o) {
    const int64_t pixel = o % pixels;
    const int64_t filter = o / pixels % filters;
    const int64_t image = o / pixels / filters;
    const auto at = static_cast<size_t>(o);
    if (ctx.has_input(kDeformBias))
      y.floats[at] = ctx.input(kDeformBias).floats[static_cast<size_t>(filter)];
    y.magnitudes[at] = std::abs(y.floats[at]);
    for (int64_t c = 0; c < depth; ++c) {
      const int64_t channel = filter / (filters / shape->groups) * depth + c;
      const double* plane = x.floats.data() + (image * channels + channel) * height * width;
      const int64_t group = channel / (channels / shape->offset_groups);
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t moved = (image * shape->offset_groups + group) * taps + t;
        const double by_y = offset.floats[static_cast<size_t>(2 * moved * pixels + pixel)];
        const double by_x = offset.floats[static_cast<size_t>((2 * moved + 1) * pixels + pixel)];
        const auto place = [&](int64_t out, int64_t tap, size_t d, double by) {
          return static_cast<double>(out * window.stride[d] - window.begin[d] +
                                     tap * window.dilation[d]) +
                 by;
        };
        const Between between = value_between(
            plane, height, width, place(pixel / window.out[2], t / window.kernel[2], 1, by_y),
            place(pixel % window.out[2], t % window.kernel[2], 2, by_x));
        double factor = w.floats[static_cast<size_t>((filter * depth + c) * taps + t)];
        if (ctx.has_input(kDeformMask))
          factor *= ctx.input(kDeformMask).floats[static_cast<size_t>(moved * pixels + pixel)];
        y.floats[at] += between.value * factor;
        y.magnitudes[at] += (std::abs(between.value) + between.moved) * std::abs(factor);
      }
    }
  }
  return true;
}

// ---- decompose_deform_conv ----

// The positions of all taps along one axis (d of the window), as grid_sample counts them: -1
// and 1 are the outer edges.
ValueId tap_positions(RewriteContext& ctx, const FixedWindow& window, size_t d, ValueId offsets) {
  const int64_t taps = window.taps();
  const Shape shape = {1, taps, window.out[1], window.out[2]};
  Tensor fixed = Tensor::zeros({ctx.dtype(offsets) == DType::f64 ? DType::f64 : DType::f32, shape});
  for (int64_t i = 0; i < fixed.count(); ++i) {
    const int64_t column = i % window.out[2];
    const int64_t row = i / window.out[2] % window.out[1];
    const int64_t tap = i / window.out[2] / window.out[1];
    const int64_t along = d == 1 ? tap / window.kernel[2] : tap % window.kernel[2];
    fixed.floats[static_cast<size_t>(i)] = static_cast<double>(
        (d == 1 ? row : column) * window.stride[d] - window.begin[d] + along * window.dilation[d]);
  }
  const ValueId by =
      ctx.emit("narrow", {offsets},
               {{"axis", int64_t{2}}, {"start", static_cast<int64_t>(d - 1)}, {"len", int64_t{1}}});
  const Dim images = ctx.shape(offsets)[0];
  const ValueId flat = ctx.reshape(by, {images, taps, window.out[1], window.out[2]});
  const ValueId at = ctx.emit("add", {ctx.widen(flat), ctx.constant("taps", fixed)});
  const auto size = static_cast<double>(window.in[d]);
  const ValueId scaled = ctx.affine(at, 2 / size, 1 / size - 1);
  return ctx.reshape(scaled, {images, taps * window.out[1], window.out[2]});
}

bool decompose_deform_conv(RewriteContext& ctx) {
  const ValueId x = ctx.input(kDeformX);
  const ValueId w = ctx.input(kDeformW);
  const Shape in = ctx.shape(x);
  const Shape filters = ctx.shape(w);
  const auto shape = deform_shape(ctx, in, filters);
  if (!shape) return false;
  const FixedWindow window = numbers_of(shape->window);
  const int64_t taps = window.taps();
  const int64_t pixels = window.out[1] * window.out[2];
  const Dim images = in[0] * shape->offset_groups;
  const ValueId offsets =
      ctx.reshape(ctx.input(kDeformOffset), {images, taps, 2, window.out[1], window.out[2]});
  const ValueId places = ctx.emit(
      "stack", {tap_positions(ctx, window, 2, offsets), tap_positions(ctx, window, 1, offsets)},
      {{"axis", int64_t{3}}});
  const Dim each = in[1] / shape->offset_groups;
  const ValueId found =
      ctx.emit("grid_sample", {ctx.reshape(x, {images, each, in[2], in[3]}), places});
  ValueId columns = ctx.reshape(found, {images, each, taps, pixels});
  if (ctx.has_input(kDeformMask)) {
    columns =
        ctx.emit("mul", {columns, ctx.reshape(ctx.input(kDeformMask), {images, 1, taps, pixels})});
  }
  const int64_t groups = shape->groups;
  columns = ctx.reshape(columns, {in[0], groups, filters[1] * taps, pixels});
  const ValueId rows = ctx.reshape(w, {1, groups, filters[0] / groups, filters[1] * taps});
  ValueId y = ctx.emit("matmul", {rows, columns});
  y = ctx.reshape(y, {in[0], filters[0], window.out[1], window.out[2]});
  if (ctx.has_input(kDeformBias))
    y = ctx.emit("add", {y, ctx.reshape(ctx.input(kDeformBias), {1, filters[0], 1, 1})});
  ctx.replace_output(0, y);
  return true;
}

constexpr uint32_t kDeformOptional[] = {kDeformMask, kDeformBias};
constexpr AttrSpec kDeformConvAttrs[] = {
    {.name = "stride",
     .type = AttrType::IntList,
     .default_text = "[]",
     .minimum = 1,
     .maximum = kLargestInt},
    {.name = "pads", .type = AttrType::IntList, .default_text = "[]"},
    {.name = "dilation",
     .type = AttrType::IntList,
     .default_text = "[]",
     .minimum = 1,
     .maximum = kLargestInt},
    {.name = "groups", .type = AttrType::Int, .default_text = "1", .minimum = 1},
    {.name = "offset_groups", .type = AttrType::Int, .default_text = "1", .minimum = 1},
};

constexpr OpDef kDeformConvOps[] = {
    {.name = "deform_conv",
     .signature = "deform_conv(x, w, offset, [mask], [bias]; stride, pads, dilation, groups=1, "
                  "offset_groups=1) -> y",
     .inputs = {3, 5},
     .attrs = kDeformConvAttrs,
     .infer = infer_deform_conv,
     .evaluate = evaluate_deform_conv,
     .decompose = decompose_deform_conv,
     .optional_inputs = kDeformOptional},
};

}  // namespace

std::span<const OpDef> deform_conv_ops() {
  return kDeformConvOps;
}

}  // namespace rlx
