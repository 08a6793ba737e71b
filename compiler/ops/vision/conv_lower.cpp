// SPDX-License-Identifier: Apache-2.0
// From a convolution to a product, or to a dispatch of `conv`.
#include "compiler/ops/vision/conv_lower.h"

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/product/matmul_lower.h"
#include "compiler/ops/product/matmul_tiles.h"
#include "compiler/ops/vision/conv_dispatch.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kConvVectorElements = 4;

// ---- a 1x1 window that moves by single steps is a matrix product ----

Product pointwise_product(const Convolution& conv, const Dim& pixel) {
  const Dim image_stride = conv.x.strides[0];
  const Dim channel_stride = conv.x.strides[1];
  const Dim group_weights = conv.group_out * conv.group_in;
  Product product{
      .batch = {conv.images, conv.groups},
      .m = conv.group_out,
      .n = conv.window.out_count(),
      .k = conv.group_in,
      .a = {.ref = conv.w, .batch = {0, group_weights}, .line = conv.group_in, .depth = 1},
      .b = {.ref = conv.x,
            .batch = {image_stride, conv.group_in * channel_stride},
            .line = pixel,
            .depth = channel_stride},
      .bias = {},
      .residual = {},
      .y = conv.y,
      .activation = conv.activation,
      .note = "1x1 conv"};
  if (!conv.y.dense()) {
    const Dim line = conv.y.strides[1];
    product.y_lines = {.batch = {conv.y.strides[0], conv.group_out * line}, .line = line};
  }
  if (conv.bias) {
    const Dim stride = conv.bias->strides[0];
    product.bias =
        AddedOperand{.ref = *conv.bias, .batch = {0, conv.group_out * stride}, .m = stride, .n = 0};
  }
  if (conv.residual) {
    const Dim line = conv.residual->strides[1];
    product.residual = AddedOperand{.ref = *conv.residual,
                                    .batch = {conv.residual->strides[0], conv.group_out * line},
                                    .m = line,
                                    .n = 1};
  }
  return product;
}

// ---- implicit product ----

TileChoice implicit_tile(const OfferContext& at, const Convolution& conv) {
  const ProductSize size{.m = conv.group_out.bound(),
                         .n = (conv.images * conv.window.out_count()).bound(),
                         .k = depth_of(conv).bound(),
                         .batches = conv.groups};
  return choose_tile(
      size, {.allow_splits = false, .acc_bytes = element_bytes(accumulator_of(conv.x.dtype()))},
      at.device());
}

void lower_implicit(LowerContext& ctx, const Convolution& conv) {
  const Dim pixels = conv.window.out_count();
  const TileChoice choice = implicit_tile(ctx, conv);
  const TileShape& tile = choice.tile;
  const Dim tiles = ceil_div(conv.group_out, tile.m) * ceil_div(conv.images * pixels, tile.n);
  const bool half_or_single = accumulator_of(conv.x.dtype()) == DType::f32;
  const uint32_t w_bytes = 4 * element_bytes(conv.w.dtype());
  const uint32_t y_bytes = 4 * element_bytes(conv.y.dtype());
  const bool w_vectors = half_or_single && depth_of(conv).divides_by(kConvVectorElements) &&
                         ctx.alignment(conv.w) >= w_bytes;
  const bool y_vectors = half_or_single && pixels.divides_by(kConvVectorElements) &&
                         ctx.alignment(conv.y) >= y_bytes &&
                         plane_stride(conv.y).divides_by(kConvVectorElements) &&
                         image_stride(conv.y).divides_by(kConvVectorElements);
  auto dispatch = ctx.dispatch<KernelId::conv>();
  define_convolution(dispatch, conv);
  define_planar_epilogue(dispatch, conv);
  define_tile(dispatch, tile);
  dispatch.define("RLX_GROUPS", conv.groups)
      .size("RLX_GROUP_IN", conv.group_in)
      .size("RLX_GROUP_OUT", conv.group_out)
      .define("RLX_W_VECTOR", w_vectors ? "DEPTH" : "1")
      .define("RLX_Y_VECTOR", y_vectors ? kConvVectorElements : 1)
      .grid(split_grid(tiles * conv.groups))
      .reason("implicit product: " + choice.text());
  bind_convolution(dispatch, conv, {.w = w_vectors ? w_bytes : 0, .y = y_vectors ? y_bytes : 0});
}

}  // namespace

bool has_free_sizes(const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  return conv.images.is_free() || conv.group_in.is_free() || conv.group_out.is_free() ||
         has_free_sizes(conv.window);
}

Dim pixels_of(const Convolution& conv) {
  return conv.images * conv.window.out_count();
}

std::optional<Dim> sizing(const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  const Dim pixels = pixels_of(conv);
  const bool is_sized = pixels.is_free() && !conv.group_in.is_free() && !conv.group_out.is_free();
  return is_sized ? std::optional(pixels) : std::nullopt;
}

ConvProblem at_size(const ConvProblem& problem, int64_t most) {
  const SizesAt at(pixels_of(problem.conv), most);
  ConvProblem fixed = problem;
  Convolution& conv = fixed.conv;
  at.fix(conv.images);
  for (auto* sizes : {&conv.window.in, &conv.window.begin, &conv.window.end, &conv.window.out})
    for (Dim& size : *sizes) at.fix(size);
  for (TensorRef* ref : {&conv.x, &conv.w, &conv.y}) at.fix(*ref);
  for (std::optional<TensorRef>* ref : {&conv.bias, &conv.residual})
    if (*ref) at.fix(**ref);
  return fixed;
}

ConvProblem for_sizes(const ConvProblem& problem, const ServedSizes& served) {
  ConvProblem part = problem;
  const int64_t most = served.most.value_or(served.size.bound());
  part.part = {.pixels = within(served), .largest = at_size(problem, most).conv};
  return part;
}

Dim depth_of(const Convolution& conv) {
  return conv.group_in * conv.window.taps();
}

StepWork work_of(const Convolution& conv) {
  const Dim bytes = byte_size(conv.y.type) + byte_size(conv.x.type) + byte_size(conv.w.type) +
                    (conv.residual ? byte_size(conv.residual->type) : Dim(0));
  const Dim flops = 2 * element_count(conv.y.shape()) * depth_of(conv);
  return {.bytes = static_cast<uint64_t>(bytes.bound()),
          .flops = static_cast<uint64_t>(flops.bound())};
}

std::string conv_product_refusal(const OfferContext& at, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  if (!conv.window.is_pointwise()) return "a window that is more than the pixel itself";
  // A product adds its residual behind the activation.
  if (conv.residual && !conv.activation.none()) return "a residual before an activation";
  const std::optional<Dim> pixel = pixel_stride(conv.x);
  if (!pixel) return "pixels that do not step alike";
  return product_microseconds(at, pointwise_product(conv, *pixel)) ? "" : "no product's kernel";
}

double conv_product_time(const OfferContext& at, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  return product_microseconds(at, pointwise_product(conv, *pixel_stride(conv.x))).value();
}

bool emit_conv_product(LowerContext& ctx, const ConvProblem& problem) {
  const std::optional<Convolution> conv = in_planes(ctx, problem.conv);
  return conv && lower_product(ctx, pointwise_product(*conv, *pixel_stride(conv->x)));
}

std::string conv_implicit_refusal(const OfferContext&, const ConvProblem&) {
  return {};
}

double conv_implicit_time(const OfferContext& at, const ConvProblem& problem) {
  return at.device().step_microseconds + implicit_tile(at, problem.conv).microseconds;
}

bool emit_conv_implicit(LowerContext& ctx, const ConvProblem& problem) {
  const std::optional<Convolution> conv = in_planes(ctx, problem.conv);
  if (conv) lower_implicit(ctx, *conv);
  return conv.has_value();
}

}  // namespace rlx
