// SPDX-License-Identifier: Apache-2.0
// qconv2d (ops.md 3.8) over one to three spatial dims, and conv_integer, the exact integer
// convolution into which it goes.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/ops/op_def.h"
#include "compiler/ops/vision/conv_offers.h"

namespace rlx {
namespace {

bool is_byte(DType dtype) {
  return dtype == DType::i8 || dtype == DType::u8;
}

int32_t wrapped(int64_t value) {
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(value)));
}

// ---- shapes ----

// The shape of y; nullopt after a diagnostic.
std::optional<Shape> result_shape(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  const Shape& w = ctx.shape(1);
  const auto fail = [&ctx](DiagCode code, const std::string& message) {
    ctx.fail(code, message);
    return std::nullopt;
  };
  if (x.size() < 3 || x.size() > 2 + kSpatialDims || w.size() != x.size()) {
    return fail(DiagCode::BadRank, "x is " + to_string(ctx.input(0)) + " and w is " +
                                       to_string(ctx.input(1)) +
                                       ", wanted [N, C, spatial..] and [O, C / groups, kernel..] "
                                       "with 1 to 3 spatial dims");
  }
  const int64_t groups = ctx.attrs().integer("groups");
  if (!x[1].divides_by(groups) || !w[0].divides_by(groups) || w[1] != x[1] / groups) {
    return fail(DiagCode::BadShape,
                "x " + to_string(x) + " and w " + to_string(w) +
                    " do not agree in their channels with groups=" + std::to_string(groups));
  }
  if (std::any_of(w.begin() + 2, w.end(), [](const Dim& size) { return size < 1; })) {
    return fail(DiagCode::BadShape, "w " + to_string(w) + " has no taps");
  }
  if (ctx.has_input(2) && ctx.input(2) != TensorType{DType::i32, {w[0]}}) {
    return fail(DiagCode::BadShape, "bias is " + to_string(ctx.input(2)) + ", wanted " +
                                        to_string(TensorType{DType::i32, {w[0]}}));
  }
  const std::optional<Window> window = conv_window(ctx, x, w);
  if (!window) return std::nullopt;
  Shape y = {x[0], w[0]};
  for (const Dim& size : window->out_shape()) y.push_back(size);
  return y;
}

bool check_list(InferContext& ctx, const char* name, size_t count) {
  const Dim& channels = ctx.shape(1)[0];
  if (count == 1 || channels == count) return true;
  return ctx.fail(DiagCode::BadAttribute, std::string(name) + " has " + std::to_string(count) +
                                              " values, wanted 1 or one for each of " +
                                              to_string(channels) + " output channels");
}

bool infer_qconv(InferContext& ctx) {
  const DType to = ctx.attrs().dtype("out_dtype");
  if (!is_byte(ctx.dtype(0)) || !is_byte(ctx.dtype(1)) || !is_byte(to)) {
    return ctx.fail(DiagCode::BadDtype, "x, w and out_dtype are " +
                                            std::string(name_of(ctx.dtype(0))) + ", " +
                                            std::string(name_of(ctx.dtype(1))) + " and " +
                                            std::string(name_of(to)) + ", wanted i8 or u8");
  }
  const std::optional<Shape> y = result_shape(ctx);
  if (!y) return false;
  if (!check_list(ctx, "w_zp", ctx.attrs().integers("w_zp").size())) return false;
  if (!check_list(ctx, "mult", ctx.attrs().reals("mult").size())) return false;
  ctx.set_output(0, {to, *y});
  return true;
}

bool infer_integer(InferContext& ctx) {
  const auto narrow_integer = [](DType dtype) { return is_byte(dtype) || dtype == DType::i16; };
  if (!narrow_integer(ctx.dtype(0)) || !narrow_integer(ctx.dtype(1))) {
    return ctx.fail(DiagCode::BadDtype, "x and w are " + std::string(name_of(ctx.dtype(0))) +
                                            " and " + std::string(name_of(ctx.dtype(1))) +
                                            ", wanted i8, u8 or i16");
  }
  const std::optional<Shape> y = result_shape(ctx);
  if (!y) return false;
  ctx.set_output(0, {DType::i32, *y});
  return true;
}

// ---- evaluation ----

struct ZeroPoints {
  int64_t x = 0;
  Ints w = {0};
};

template <typename T>
T of_channel(const std::vector<T>& list, int64_t channel) {
  return list[list.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

// bias + sum of (x - x_zp)(w - w_zp) over the taps inside x, for every element of y.
std::vector<int64_t> accumulate(const EvaluateContext& ctx, const FixedWindow& window,
                                const ZeroPoints& zeros) {
  const Tensor& x = ctx.input(0);
  const Tensor& w = ctx.input(1);
  const int64_t filters = w.type.shape[0];
  const int64_t group_in = w.type.shape[1];
  const int64_t group_out = filters / ctx.attrs().integer("groups");
  std::vector<int64_t> sums(static_cast<size_t>(x.type.shape[0] * filters * window.out_count()));
  for (size_t i = 0; i < sums.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    std::array<int64_t, kSpatialDims> at{};
    for (size_t d = kSpatialDims; d-- > 0;) {
      at[d] = rest % window.out[d];
      rest /= window.out[d];
    }
    const int64_t filter = rest % filters;
    const int64_t first = rest / filters * x.type.shape[1] + filter / group_out * group_in;
    if (ctx.has_input(2)) sums[i] = ctx.input(2).integers[static_cast<size_t>(filter)];
    for (int64_t tap = 0; tap < window.taps() * group_in; ++tap) {
      int64_t left = tap % window.taps();
      int64_t offset = 0;
      int64_t scale = 1;
      bool inside = true;
      for (size_t d = kSpatialDims; d-- > 0;) {
        const int64_t position = at[d] * window.stride[d] +
                                 left % window.kernel[d] * window.dilation[d] - window.begin[d];
        left /= window.kernel[d];
        inside = inside && position >= 0 && position < window.in[d];
        offset += position * scale;
        scale *= window.in[d];
      }
      if (!inside) continue;
      const int64_t pixel = (first + tap / window.taps()) * window.in_count() + offset;
      const int64_t weight = filter * group_in * window.taps() + tap;
      sums[i] += (x.integers[static_cast<size_t>(pixel)] - zeros.x) *
                 (w.integers[static_cast<size_t>(weight)] - of_channel(zeros.w, filter));
    }
  }
  return sums;
}

bool evaluate_integer(EvaluateContext& ctx) {
  const auto window = conv_window(ctx, ctx.input(0).type.shape, ctx.input(1).type.shape);
  if (!window) return false;
  std::vector<int64_t> sums = accumulate(ctx, numbers_of(*window), {});
  std::transform(sums.begin(), sums.end(), ctx.output(0).integers.begin(), wrapped);
  return true;
}

bool evaluate_qconv(EvaluateContext& ctx) {
  const auto window = conv_window(ctx, ctx.input(0).type.shape, ctx.input(1).type.shape);
  if (!window) return false;
  const ZeroPoints zeros{ctx.attrs().integer("x_zp"), ctx.attrs().integers("w_zp")};
  const std::vector<int64_t> sums = accumulate(ctx, numbers_of(*window), zeros);
  const Floats factors = ctx.attrs().reals("mult");
  const int64_t plane = window->out_count();
  const int64_t channels = ctx.output_type(0).shape[1];
  const auto out_zero = static_cast<double>(ctx.attrs().integer("out_zp"));
  Tensor& y = ctx.output(0);
  const IntegerRange range = integer_range(y.type.dtype);
  for (size_t i = 0; i < sums.size(); ++i) {
    const int64_t channel = static_cast<int64_t>(i) / plane % channels;
    const float scaled =
        static_cast<float>(wrapped(sums[i])) * static_cast<float>(of_channel(factors, channel));
    const double code = std::nearbyint(static_cast<double>(scaled)) + out_zero;
    y.integers[i] = static_cast<int64_t>(
        std::clamp(code, static_cast<double>(range.lowest), static_cast<double>(range.highest)));
  }
  return true;
}

// ---- lowering ----

bool lower_integer(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const Shape& w = ctx.input_type(1).shape;
  const std::optional<Window> window = conv_window(ctx, x.shape(), w);
  if (!window) return false;
  const int64_t groups = ctx.attrs().integer("groups");
  if (element_count(ctx.output_type(0).shape) == 0) {
    ctx.output(0);
    return true;
  }
  Convolution conv{.window = *window,
                   .images = x.shape()[0],
                   .groups = groups,
                   .group_in = w[1],
                   .group_out = w[0] / groups,
                   .x = x,
                   .w = ctx.input(1),
                   .bias = {},
                   .residual = {},
                   .y = ctx.output(0),
                   .activation = {}};
  if (ctx.has_input(2)) conv.bias = ctx.input(2);
  return lower_convolution(ctx, conv);
}

// Values as [count, 1..] beside `spatial` dims, or [1, 1..] for all.
Tensor per_channel(DType dtype, size_t count, size_t spatial) {
  Shape shape(1 + spatial, 1);
  shape[0] = static_cast<int64_t>(count);
  return Tensor::zeros({dtype, shape});
}

// Codes minus their zero points in i16, which holds every such difference.
ValueId centred(RewriteContext& ctx, ValueId codes, const Tensor& zeros) {
  const ValueId wide = ctx.emit("cast", {codes}, {{"to", std::string("i16")}});
  const bool none = std::all_of(zeros.integers.begin(), zeros.integers.end(),
                                [](int64_t value) { return value == 0; });
  return none ? wide : ctx.emit("sub", {wide, ctx.constant("zp", zeros)});
}

bool decompose_qconv(RewriteContext& ctx) {
  const size_t spatial = ctx.type(ctx.input(0)).shape.size() - 2;
  Tensor x_zero = Tensor::zeros({DType::i16, {}});
  x_zero.integers[0] = ctx.attrs().integer("x_zp");
  const Ints w_zeros = ctx.attrs().integers("w_zp");
  Tensor w_zero = per_channel(DType::i16, w_zeros.size(), 1 + spatial);
  w_zero.integers = numbers_of(w_zeros);
  std::vector<std::optional<ValueId>> inputs = {centred(ctx, ctx.input(0), x_zero),
                                                centred(ctx, ctx.input(1), w_zero)};
  if (ctx.has_input(2)) inputs.emplace_back(ctx.input(2));
  Attributes window;
  for (const char* name : {"kernel", "stride", "pads", "dilation"})
    window[name] = ctx.attrs().integers(name);
  window["groups"] = ctx.attrs().integer("groups");
  ValueId y = ctx.emit("conv_integer", std::move(inputs), std::move(window));
  const Floats factors = ctx.attrs().reals("mult");
  Tensor mult = per_channel(DType::f32, factors.size(), spatial);
  mult.floats = factors;
  y = ctx.emit("cast", {y}, {{"to", std::string("f32")}});
  y = ctx.emit("round", {ctx.emit("mul", {y, ctx.constant("mult", mult)})});
  // Exact below 2^24, saturated by the cast beyond.
  Tensor out_zero = Tensor::zeros({DType::f32, {}});
  out_zero.floats[0] = static_cast<double>(ctx.attrs().integer("out_zp"));
  if (out_zero.floats[0] != 0) y = ctx.emit("add", {y, ctx.constant("out_zp", out_zero)});
  const std::string to(name_of(ctx.attrs().dtype("out_dtype")));
  ctx.replace_output(0, ctx.emit("cast", {y}, {{"to", to}}));
  return true;
}

constexpr AttrSpec sizes(std::string_view name, double minimum) {
  return {.name = name,
          .type = AttrType::IntList,
          .default_text = "[]",
          .minimum = minimum,
          .maximum = kLargestInt};
}
constexpr AttrSpec kGroups{.name = "groups",
                           .type = AttrType::Int,
                           .default_text = "1",
                           .minimum = 1,
                           .maximum = kLargestInt};
constexpr AttrSpec zero_point(std::string_view name, AttrType type, std::string_view text) {
  return {.name = name, .type = type, .default_text = text, .minimum = -128, .maximum = 255};
}

const AttrSpec kIntegerAttrs[] = {sizes("kernel", 1), sizes("stride", 1), sizes("pads", 0),
                                  sizes("dilation", 1), kGroups};
const AttrSpec kQconvAttrs[] = {
    sizes("kernel", 1),
    sizes("stride", 1),
    sizes("pads", 0),
    sizes("dilation", 1),
    kGroups,
    zero_point("x_zp", AttrType::Int, "0"),
    zero_point("w_zp", AttrType::IntList, "[0]"),
    zero_point("out_zp", AttrType::Int, "0"),
    {.name = "mult", .type = AttrType::FloatList, .required = true, .minimum = 0},
    {.name = "out_dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"i8\"",
     .consumed_by_infer = true},
};
constexpr uint32_t kQconvOptional[] = {2};

const OpDef kQconvOps[] = {
    {.name = "qconv2d",
     .signature = "qconv2d(x, w, [bias]; kernel, stride, pads, dilation, groups=1, x_zp=0, "
                  "w_zp=[0], out_zp=0, mult, out_dtype=i8) -> y",
     .inputs = {2, 3},
     .attrs = kQconvAttrs,
     .infer = infer_qconv,
     .evaluate = evaluate_qconv,
     .decompose = decompose_qconv,
     .optional_inputs = kQconvOptional},
    {.name = "conv_integer",
     .signature =
         "conv_integer(x, w, [bias]; kernel, stride, pads, dilation, groups=1) -> y of i32",
     .inputs = {2, 3},
     .attrs = kIntegerAttrs,
     .infer = infer_integer,
     .evaluate = evaluate_integer,
     .lower = lower_integer,
     .optional_inputs = kQconvOptional},
};

}  // namespace

std::span<const OpDef> qconv_ops() {
  return kQconvOps;
}

}  // namespace rlx
