// SPDX-License-Identifier: Apache-2.0
// conv over one to three spatial dims (ops.md 9.1): shapes, evaluation, and the choice of operands
// for the lowering.
#include <array>
#include <cmath>
#include <limits>

#include "compiler/ops/gradient.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/vision/conv_offers.h"

namespace rlx {
namespace {

bool check_dtypes(InferContext& ctx) {
  const DType x = ctx.dtype(0);
  bool good = true;
  if (!is_float(x)) {
    good = ctx.fail(DiagCode::BadDtype,
                    "x is " + std::string(name_of(x)) + "; wanted f32, f16, bf16 or f64");
  }
  for (size_t i = 1; i < 3; ++i) {
    if (!ctx.has_input(i) || !good) continue;
    const DType dtype = ctx.dtype(i);
    if (x == DType::f64 ? dtype == DType::f64 : is_short_float(dtype)) continue;
    good = ctx.fail(DiagCode::BadDtype, std::string(i == 1 ? "w" : "bias") + " is " +
                                            std::string(name_of(dtype)) + "; wanted " +
                                            (x == DType::f64 ? "f64" : "f32, f16 or bf16") +
                                            " beside " + std::string(name_of(x)) + " x");
  }
  return good;
}

bool check_channels(InferContext& ctx) {
  const int64_t groups = ctx.attrs().integer("groups");
  const Dim channels = ctx.shape(0)[1];
  const Dim filters = ctx.shape(1)[0];
  bool good = true;
  if (!channels.divides_by(groups) || !filters.divides_by(groups)) {
    good =
        ctx.fail(DiagCode::BadShape, "groups=" + std::to_string(groups) + " does not divide the " +
                                         to_string(channels) + " input and " + to_string(filters) +
                                         " output channels");
  } else if (ctx.shape(1)[1] != channels / groups) {
    good = ctx.fail(DiagCode::BadShape, "w " + to_string(ctx.shape(1)) + " reads " +
                                            to_string(ctx.shape(1)[1]) + " channels per group; x " +
                                            to_string(ctx.shape(0)) + " has " +
                                            to_string(channels / groups) + " in each of " +
                                            std::to_string(groups) + " groups");
  }
  if (ctx.has_input(2) && ctx.shape(2) != Shape{filters}) {
    good = ctx.fail(DiagCode::BadShape, "bias has shape " + to_string(ctx.shape(2)) + "; wanted " +
                                            to_string(Shape{filters}) +
                                            ", one value per output channel");
  }
  return good;
}

Shape spatial_of(const Shape& shape) {
  return {shape.begin() + 2, shape.end()};
}

bool check_residual(InferContext& ctx, const TensorType& y) {
  if (!ctx.has_input(3) || ctx.input(3) == y) return true;
  return ctx.fail(DiagCode::BadShape, "residual is " + to_string(ctx.input(3)) +
                                          "; wanted the result's type, " + to_string(y));
}

bool infer_conv(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  const Shape& w = ctx.shape(1);
  bool good = check_dtypes(ctx);
  good = read_activation(ctx, true).has_value() && good;
  if (x.size() < 3 || x.size() > 2 + kSpatialDims) {
    return ctx.fail(DiagCode::BadRank, "x has rank " + std::to_string(x.size()) +
                                           "; wanted [N, C, spatial..] with 1 to 3 spatial dims");
  }
  if (w.size() != x.size()) {
    return ctx.fail(DiagCode::BadRank, "w has rank " + std::to_string(w.size()) + "; wanted " +
                                           std::to_string(x.size()) + ", the rank of x");
  }
  for (const Dim& size : spatial_of(w)) {
    if (size < 1) return ctx.fail(DiagCode::BadShape, "w " + to_string(w) + " has no taps");
  }
  good = check_channels(ctx) && good;
  const std::optional<Window> window = conv_window(ctx, x, w);
  if (!window || !good) return false;
  Shape y = {x[0], w[0]};
  for (const Dim& size : window->out_shape()) y.push_back(size);
  if (!check_residual(ctx, {ctx.dtype(0), y})) return false;
  ctx.set_output(0, {ctx.dtype(0), y});
  return true;
}

// ---- evaluate_conv ----

// Sums over one output element; pads count as zeros that are multiplied.
struct OutputElement {
  size_t image;
  size_t filter;
  std::array<int64_t, kSpatialDims> at;
};

void add_window(const Tensor& x, const Tensor& w, const FixedWindow& window, int64_t group_in,
                size_t first_channel, const OutputElement& element, double& value,
                double& magnitude) {
  const auto channels = static_cast<size_t>(x.type.shape[1]);
  for (size_t c = 0; c < static_cast<size_t>(group_in); ++c) {
    const size_t plane =
        (element.image * channels + first_channel + c) * static_cast<size_t>(window.in_count());
    const size_t weights =
        (element.filter * static_cast<size_t>(group_in) + c) * static_cast<size_t>(window.taps());
    for (int64_t tap = 0; tap < window.taps(); ++tap) {
      int64_t rest = tap;
      int64_t offset = 0;
      int64_t scale = 1;
      bool inside = true;
      for (size_t d = kSpatialDims; d-- > 0;) {
        const int64_t position = element.at[d] * window.stride[d] +
                                 rest % window.kernel[d] * window.dilation[d] - window.begin[d];
        rest /= window.kernel[d];
        inside = inside && position >= 0 && position < window.in[d];
        offset += position * scale;
        scale *= window.in[d];
      }
      const double pixel = inside ? x.floats[plane + static_cast<size_t>(offset)] : 0;
      const double term = pixel * w.floats[weights + static_cast<size_t>(tap)];
      value += term;
      magnitude += std::abs(term);
    }
  }
}

bool evaluate_conv(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Tensor& w = ctx.input(1);
  const std::optional<Window> window = conv_window(ctx, x.type.shape, w.type.shape);
  const std::optional<Activation> activation = read_activation(ctx, true);
  if (!window || !activation) return false;
  const FixedWindow fixed = numbers_of(*window);
  const auto filters = static_cast<size_t>(w.type.shape[0]);
  const int64_t group_in = w.type.shape[1];
  const size_t group_out = filters / static_cast<size_t>(ctx.attrs().integer("groups"));
  Tensor& y = ctx.output(0);
  ProductSums sums;
  sums.values.resize(y.floats.size());
  sums.magnitudes.resize(y.floats.size());
  for (size_t i = 0; i < y.floats.size(); ++i) {
    OutputElement element{};
    auto rest = static_cast<int64_t>(i);
    for (size_t d = kSpatialDims; d-- > 0;) {
      element.at[d] = rest % fixed.out[d];
      rest /= fixed.out[d];
    }
    element.filter = static_cast<size_t>(rest) % filters;
    element.image = static_cast<size_t>(rest) / filters;
    if (ctx.has_input(2)) {
      sums.values[i] = ctx.input(2).floats[element.filter];
      sums.magnitudes[i] = std::abs(sums.values[i]);
    }
    const size_t first_channel = element.filter / group_out * static_cast<size_t>(group_in);
    add_window(x, w, fixed, group_in, first_channel, element, sums.values[i], sums.magnitudes[i]);
    if (ctx.has_input(3)) {
      sums.values[i] += ctx.input(3).floats[i];
      sums.magnitudes[i] += std::abs(ctx.input(3).floats[i]);
    }
  }
  y.terms = group_in * fixed.taps() + 2;
  apply_activation(*activation, x.type.dtype, y.terms, sums);
  y.floats = std::move(sums.values);
  y.magnitudes = std::move(sums.magnitudes);
  return true;
}

bool lower_conv(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const Shape& w = ctx.input_type(1).shape;
  const std::optional<Window> window = conv_window(ctx, x.shape(), w);
  const std::optional<Activation> activation = read_activation(ctx, true);
  const int64_t groups = ctx.attrs().integer("groups");
  if (!window || !activation) return false;
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
                   .activation = *activation};
  if (ctx.has_input(2)) conv.bias = ctx.input(2);
  if (ctx.has_input(3)) conv.residual = ctx.input(3);
  return lower_convolution(ctx, conv);
}

// What the convolution gave before its activation, and that one's gradient.
ValueId before_activation(GradientContext& ctx, ValueId dy) {
  const std::string activation = ctx.attrs().text("activation");
  if (activation == "none") return dy;
  Attributes window;
  Attributes curve = {{"kind", activation}};
  for (const auto& [name, value] : ctx.node().attributes) {
    const bool is_curve = name == "alpha" || name == "beta" || name == "min" || name == "max";
    if (name == "activation") continue;
    (is_curve ? curve : window)[name] = value;
  }
  const ValueId sum = ctx.emit("conv", ctx.node().inputs, std::move(window));
  return ctx.emit("activation_backward", {sum, dy}, std::move(curve));
}

bool conv_gradient(GradientContext& ctx) {
  const ValueId dy = before_activation(ctx, ctx.gradient());
  const auto window = [&](const char* shape, size_t input) {
    Attributes attributes = {{shape, ctx.shape(ctx.input(input))},
                             {"groups", ctx.attrs().integer("groups")}};
    for (const char* name : {"stride", "pads", "dilation"}) {
      const Ints values = ctx.attrs().integers(name);
      if (!values.empty()) attributes[name] = values;
    }
    return attributes;
  };
  if (ctx.wants(0))
    ctx.give(0, ctx.emit("conv_backward_input", {dy, ctx.input(1)}, window("x_shape", 0)));
  if (ctx.wants(1))
    ctx.give(1, ctx.emit("conv_backward_weight", {ctx.input(0), dy}, window("w_shape", 1)));
  if (ctx.wants(2)) {
    Ints others = axes_from(0, ctx.shape(dy).size());
    others.erase(others.begin() + 1);
    ctx.give(2, ctx.reduce("reduce_sum", dy, others, NodeBuilder::Axes::Drop));
  }
  ctx.give(3, dy);
  return true;
}

constexpr std::array kConvAttrs = {
    AttrSpec{.name = "kernel",
             .type = AttrType::IntList,
             .default_text = "[]",
             .minimum = 1,
             .maximum = kLargestInt},
    AttrSpec{.name = "stride",
             .type = AttrType::IntList,
             .default_text = "[]",
             .minimum = 1,
             .maximum = kLargestInt},
    AttrSpec{.name = "pads",
             .type = AttrType::IntList,
             .default_text = "[]",
             .minimum = 0,
             .maximum = kLargestInt},
    AttrSpec{.name = "dilation",
             .type = AttrType::IntList,
             .default_text = "[]",
             .minimum = 1,
             .maximum = kLargestInt},
    AttrSpec{.name = "groups",
             .type = AttrType::Int,
             .default_text = "1",
             .minimum = 1,
             .maximum = kLargestInt},
    AttrSpec{.name = "activation", .type = AttrType::String, .default_text = "\"none\""},
    AttrSpec{.name = "alpha", .type = AttrType::Float},
    AttrSpec{.name = "beta", .type = AttrType::Float},
    AttrSpec{.name = "min", .type = AttrType::Float},
    AttrSpec{.name = "max", .type = AttrType::Float},
};
constexpr std::array<uint32_t, 2> kConvOptional = {2, 3};

constexpr std::array kConvOps = {
    OpDef{.name = "conv",
          .signature = "conv(x, w, [bias], [residual]; kernel, stride, pads, dilation, groups=1, "
                       "activation=\"none\", alpha, beta, min, max) -> y",
          .inputs = {2, 4},
          .outputs = {1, 1},
          .attrs = kConvAttrs,
          .infer = infer_conv,
          .evaluate = evaluate_conv,
          .gradient = conv_gradient,
          .lower = lower_conv,
          .optional_inputs = kConvOptional,
          .reads_strides = true,
          .place_refusal = conv_place_refusal},
};

}  // namespace

std::optional<Window> conv_window(NodeContext& ctx, const Shape& x, const Shape& w) {
  const Shape kernel = spatial_of(w);
  const Ints written = ctx.attrs().integers("kernel");
  if (!written.empty() && written != kernel) {
    ctx.fail(DiagCode::BadAttribute,
             "kernel " + to_string(written) + " differs from that of w, " + to_string(kernel));
    return std::nullopt;
  }
  return read_window(ctx, spatial_of(x), kernel, WindowRounding::Floor);
}

std::span<const OpDef> conv_ops() {
  return kConvOps;
}

}  // namespace rlx
