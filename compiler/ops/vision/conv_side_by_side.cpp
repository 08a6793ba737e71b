// SPDX-License-Identifier: Apache-2.0
// Convolutions whose windows stand side by side, as those that cut an image into patches: every
// pixel is read once, so that a copy of x has the windows as rows of a matrix.
#include <algorithm>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/product/matmul_lower.h"
#include "compiler/ops/vision/conv_lower.h"

namespace rlx {
namespace {

// No window reaches into another or beside the image.
bool stand_side_by_side(const Window& window) {
  for (size_t d = 0; d < kSpatialDims; ++d) {
    const bool spreads = window.dilation[d] != 1 && window.kernel[d] != 1;
    const Dim spare = window.in[d] - window.out[d] * window.kernel[d];
    if (window.stride[d] != window.kernel[d] || spreads || window.begin[d] != 0 ||
        spare.range().least < 0)
      return false;
  }
  return true;
}

// x as [images, out.., channels, kernel..].
TensorRef windows_of(const Convolution& conv) {
  const Window& window = conv.window;
  const size_t first = kSpatialDims - window.rank;
  TensorRef windows = conv.x;
  windows.type.shape = {conv.images};
  windows.strides = {conv.x.strides[0]};
  for (size_t d = 0; d < window.rank; ++d) {
    windows.type.shape.push_back(window.out[first + d]);
    windows.strides.push_back(conv.x.strides[2 + d] * window.kernel[first + d]);
  }
  windows.type.shape.push_back(conv.group_in);
  windows.strides.push_back(conv.x.strides[1]);
  for (size_t d = 0; d < window.rank; ++d) {
    windows.type.shape.push_back(window.kernel[first + d]);
    windows.strides.push_back(conv.x.strides[2 + d]);
  }
  return windows;
}

// Lines of pixels of y or the residual, which stand at their pitch.
ProductLines lines_of(const TensorRef& ref) {
  return {.batch = {}, .line = pixel_pitch(ref).value()};
}

// windows, weights and the residual dense; y with a pitch.
Product product_of(const Convolution& conv, const TensorRef& windows, const TensorRef& y) {
  const Dim depth = depth_of(conv);
  Product product{.batch = {},
                  .m = conv.images * conv.window.out_count(),
                  .n = conv.group_out,
                  .k = depth,
                  .a = {.ref = windows, .batch = {}, .line = depth, .depth = 1},
                  .b = {.ref = conv.w, .batch = {}, .line = depth, .depth = 1},
                  .bias = {},
                  .residual = {},
                  .y = y,
                  .activation = conv.activation,
                  .note = "conv of windows side by side"};
  if (lines_of(y).line != conv.group_out) product.y_lines = lines_of(y);
  if (conv.bias) product.bias = AddedOperand{.ref = *conv.bias, .m = 0, .n = conv.bias->strides[0]};
  if (conv.residual)
    product.residual =
        AddedOperand{.ref = *conv.residual, .m = lines_of(*conv.residual).line, .n = 1};
  return product;
}

// As it is before anything is copied.
Product expected_product(Convolution conv) {
  const TensorRef windows = dense_ref({}, windows_of(conv).type);
  conv.w = dense_ref({}, conv.w.type);
  conv.y.strides = channels_last_strides(conv.y.shape());
  if (conv.residual) conv.residual->strides = conv.y.strides;
  return product_of(conv, windows, conv.y);
}

}  // namespace

std::string conv_side_by_side_refusal(const OfferContext& at, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  if (conv.groups != 1) return "several groups";
  if (conv.w.dtype() != conv.x.dtype()) return "operands of two dtypes";
  if (conv.window.taps() == 1) return "windows of single pixels";
  if (!stand_side_by_side(conv.window)) return "windows that do not stand side by side";
  if (depth_of(conv).range().least < 1) return "nothing to add";
  // A product adds its residual behind the activation.
  if (conv.residual && !conv.activation.none()) return "a residual before an activation";
  return product_microseconds(at, expected_product(conv)) ? "" : "no product's kernel";
}

double conv_side_by_side_time(const OfferContext& at, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  const auto x_bytes = static_cast<uint64_t>(byte_size(conv.x.type).bound());
  const double copy = thread_bound_microseconds(at.device(), {.bytes = 2 * x_bytes, .flops = 0});
  return copy + product_microseconds(at, expected_product(conv)).value();
}

bool emit_conv_side_by_side(LowerContext& ctx, const ConvProblem& problem) {
  Convolution conv = problem.conv;
  conv.w = ctx.dense(conv.w);
  if (conv.residual) conv.residual = ctx.channels_last(*conv.residual);
  TensorRef y = conv.y;
  if (!pixel_pitch(y)) {
    y = ctx.scratch(y.type, "channels_last");
    y.strides = channels_last_strides(y.shape());
  }
  if (!lower_product(ctx, product_of(conv, ctx.dense(windows_of(conv)), y))) return false;
  if (y.buffer != conv.y.buffer) ctx.copy(y, conv.y);
  return true;
}

std::string lines_place_refusal(const TensorRef& place) {
  return pixel_pitch(place) ? "" : "windows side by side give images channels last";
}

}  // namespace rlx
