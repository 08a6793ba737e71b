// SPDX-License-Identifier: Apache-2.0
// From a convolution to a product over the windows of channels-last images.
#include "compiler/ops/vision/conv_wgmma.h"

#include <optional>
#include <utility>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/product/matmul_wgmma.h"
#include "compiler/ops/vision/conv_mma.h"

namespace rlx {
namespace {

// The tensor as it will stand: channels last, if it must be copied.
TensorRef standing_channels_last(const OfferContext& at, const TensorRef& ref) {
  if (pixel_pitch(ref) && at.alignment(ref) >= kWidestAccessBytes) return ref;
  TensorRef standing = ref;
  standing.strides = channels_last_strides(ref.shape());
  standing.offset_bytes = 0;
  return standing;
}

// Lines of pixels; precondition: channels last.
AddedOperand residual_lines(const TensorRef& residual) {
  return {.ref = residual, .batch = {}, .m = *pixel_pitch(residual), .n = 1};
}

// All operands channels last.
WindowProduct window_product(const Convolution& conv) {
  const int64_t depth = depth_of(conv);
  const int64_t channels = conv.group_in;
  Product product{.batch = {},
                  .m = pixels_of(conv),
                  .n = conv.group_out,
                  .k = depth,
                  .a = {.ref = conv.x, .batch = {}, .line = *pixel_pitch(conv.x), .depth = 1},
                  .b = {.ref = conv.w, .batch = {}, .line = depth, .depth = 1},
                  .y = conv.y,
                  .y_lines = ProductLines{.batch = {}, .line = *pixel_pitch(conv.y)},
                  .activation = conv.activation,
                  .residual_first = true,
                  .note = "windows of images channels last"};
  if (conv.bias) product.bias = AddedOperand{.ref = *conv.bias, .batch = {}, .m = 0, .n = 1};
  if (conv.residual) product.residual = residual_lines(*conv.residual);
  return {.fused = {.product = std::move(product)},
          .window = conv.window,
          .images = conv.images,
          .channels = channels};
}

// The product as it will be, before anything is copied.
WindowProduct expected_product(const OfferContext& at, const Convolution& given) {
  Convolution conv = of_images(given);
  conv.x = standing_channels_last(at, conv.x);
  conv.w.strides = channels_last_strides(conv.w.shape());
  conv.w.offset_bytes = 0;
  conv.y = standing_channels_last(at, conv.y);
  if (conv.residual) conv.residual = standing_channels_last(at, *conv.residual);
  return window_product(conv);
}

}  // namespace

std::string conv_wgmma_refusal(const OfferContext& at, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  if (!is_half(conv.x.dtype())) return "operands of " + std::string(name_of(conv.x.dtype()));
  if (std::string refusal = conv_matrix_refusal(conv); !refusal.empty()) return refusal;
  if (conv.window.rank > 2) return "volumes";
  if (conv.groups != 1) return "several groups";
  if (conv.bias && !conv.bias->dense()) return "a bias that is no dense vector";
  return wgmma_window_refusal(at, expected_product(at, conv));
}

double conv_wgmma_time(const OfferContext& at, const ConvProblem& problem) {
  return wgmma_window_time(at, expected_product(at, problem.for_tiles()));
}

double conv_wgmma_time_of(const OfferContext& at, const ConvProblem& largest,
                          const ConvProblem& problem) {
  return wgmma_window_time_of(at, expected_product(at, largest.conv),
                              expected_product(at, problem.conv));
}

bool emit_conv_wgmma(LowerContext& ctx, const ConvProblem& problem) {
  Convolution conv = of_images(problem.conv);
  conv.x = ctx.channels_last(conv.x);
  conv.w = ctx.channels_last(conv.w);
  if (conv.residual) conv.residual = ctx.channels_last(*conv.residual);
  const TensorRef y = conv.y;
  if (!pixel_pitch(y) || ctx.alignment(y) < kWidestAccessBytes) {
    conv.y = ctx.scratch(y.type, "channels_last");
    conv.y.strides = channels_last_strides(y.shape());
  }
  if (!emit_wgmma_window(ctx, window_product(conv), expected_product(ctx, problem.for_tiles())))
    return false;
  if (conv.y.buffer != y.buffer) ctx.copy(conv.y, y);
  return true;
}

}  // namespace rlx
