// SPDX-License-Identifier: Apache-2.0
// From a convolution to a dispatch of `matmul_lanes`.
#include "compiler/ops/vision/conv_lanes.h"

#include <algorithm>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/product/matmul_lanes_lower.h"
#include "compiler/ops/vision/conv_dispatch.h"
#include "compiler/ops/vision/conv_mma.h"

namespace rlx {
namespace {

bool has_lane_pieces(const Convolution& conv) {
  return conv.group_in.divides_by(kChannelVector) && accumulator_of(conv.x.dtype()) == DType::f32;
}

// What both forms ask.
std::string lanes_problem_refusal(const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  if (accumulator_of(conv.x.dtype()) == DType::f64) return "operands of f64";
  if (conv.w.dtype() != conv.x.dtype()) return "operands of two dtypes";
  if (conv.group_in.is_free() || conv.group_out.is_free()) return "channels that the run gives";
  if (conv.groups > 1 && conv.group_in == 1 && conv.group_out <= kMostFiltersPerChannel)
    return "a depthwise convolution";
  if (element_count(conv.w.shape()) == 0) return "nothing to add";
  if (conv.window.in[1].range().least < 1 || conv.window.in[2].range().least < 1)
    return "empty images";
  const int64_t largest = std::max({element_count(conv.x.shape()).range().most,
                                    element_count(conv.w.shape()).range().most,
                                    element_count(conv.y.shape()).range().most});
  return largest > kRowLimit ? "more elements than it counts" : "";
}

// Filters [Co, C/g, (D,) H, W] as the columns of a product, in the order of taps.
ProductOperand filter_columns(LowerContext& ctx, const Convolution& conv) {
  const Shape& shape = conv.w.shape();
  if (conv.window.taps() == 1) {
    return {.ref = ctx.dense(conv.w),
            .batch = {conv.group_out * conv.group_in},
            .line = conv.group_in,
            .depth = 1};
  }
  Strides filters_last = {1, shape[0]};
  filters_last.resize(shape.size());
  Dim step = shape[1] * shape[0];
  for (size_t axis = shape.size(); axis-- > 2; step = step * shape[axis]) filters_last[axis] = step;
  TensorRef w = conv.w;
  // The stride of an axis of size 1 says nothing.
  for (size_t axis = 0; axis < filters_last.size(); ++axis) {
    if (shape[axis] == 1) w.strides[axis] = filters_last[axis];
  }
  if (w.strides != filters_last)
    w = ctx.state().materialize_as(conv.w, filters_last, "filters_last", ctx.new_step());
  return {.ref = w, .batch = {conv.group_out}, .line = 1, .depth = shape[0]};
}

// The images as the kernel reads them by vectors of channels.
TensorRef in_vectors(LowerContext& ctx, const TensorRef& x) {
  const TensorRef images = ctx.channels_last(x);
  if (has_channel_vectors(images) && ctx.alignment(images) >= channel_vector_bytes(images))
    return images;
  return ctx.state().materialize_as(images, channels_last_strides(x.shape()), "channels_last",
                                    ctx.new_step());
}

// Pixels of a channels-last tensor as lines, of each group in turn.
AddedOperand added_lines(const Convolution& conv, const TensorRef& ref) {
  return {.ref = ref, .batch = {conv.group_out}, .m = pixel_pitch(ref).value(), .n = 1};
}

Product product_of(LowerContext& ctx, const Convolution& conv, const TensorRef& y) {
  const Dim pitch = pixel_pitch(y).value();
  const Dim channel = conv.x.strides[1];
  Product product{.batch = {conv.groups},
                  .m = conv.images * conv.window.out_count(),
                  .n = conv.group_out,
                  .k = depth_of(conv),
                  .a = {.ref = conv.x, .batch = {conv.group_in * channel}},
                  .b = filter_columns(ctx, conv),
                  .bias = {},
                  .residual = {},
                  .y = y,
                  .activation = conv.activation,
                  .residual_first = conv.residual && !conv.activation.none(),
                  .note = "channels last"};
  if (conv.groups > 1 || pitch != conv.group_out)
    product.y_lines = ProductLines{.batch = {conv.group_out}, .line = pitch};
  if (conv.bias) {
    const Dim stride = conv.bias->strides[0];
    product.bias =
        AddedOperand{.ref = *conv.bias, .batch = {conv.group_out * stride}, .m = 0, .n = stride};
  }
  if (conv.residual) product.residual = added_lines(conv, *conv.residual);
  return product;
}

bool emit_product(LowerContext& ctx, const Convolution& conv, const TensorRef& y) {
  Product product = product_of(ctx, conv, y);
  const bool in_pieces = has_lane_pieces(conv);
  const std::optional<Dim> pitch = pixel_pitch(conv.x);
  if (!conv.window.is_pointwise() || !in_pieces || !pitch)
    return emit_lanes(ctx, product, {.window = conv.window, .in_pieces = in_pieces});
  product.note += ", 1x1";
  product.a.line = *pitch;
  product.a.depth = 1;
  // Other kernels add the residual behind the activation.
  return product.residual_first ? emit_lanes(ctx, FusedProduct{product})
                                : lower_product(ctx, product);
}

}  // namespace

std::string conv_lane_pieces_refusal(const OfferContext&, const ConvProblem& problem) {
  if (!has_lane_pieces(problem.conv)) return "channels that are no whole vectors of four";
  return lanes_problem_refusal(problem);
}

std::string conv_lane_elements_refusal(const OfferContext&, const ConvProblem& problem) {
  if (has_lane_pieces(problem.conv)) return "channels in whole vectors of four";
  return lanes_problem_refusal(problem);
}

double conv_lanes_time(const OfferContext& at, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  return window_lanes_time(at, conv.images * conv.window.out_count(), conv.group_out,
                           depth_of(conv), conv.groups);
}

bool emit_conv_lanes(LowerContext& ctx, const ConvProblem& problem) {
  Convolution conv = of_images(problem.conv);
  if (has_lane_pieces(conv)) conv.x = in_vectors(ctx, conv.x);
  if (conv.residual) conv.residual = ctx.channels_last(*conv.residual);
  TensorRef y = conv.y;
  if (!pixel_pitch(y)) {
    y = ctx.scratch(y.type, "channels_last");
    y.strides = channels_last_strides(y.shape());
  }
  if (!emit_product(ctx, conv, y)) return false;
  if (y.buffer != conv.y.buffer) ctx.copy(y, conv.y);
  return true;
}

}  // namespace rlx
