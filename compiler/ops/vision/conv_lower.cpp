// SPDX-License-Identifier: Apache-2.0
// From a convolution to a product, or to a dispatch of `conv_depthwise` or `conv`.
#include "compiler/ops/vision/conv_lower.h"

#include <algorithm>
#include <limits>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/product/matmul_lower.h"
#include "compiler/ops/product/matmul_tiles.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kConvVectorElements = 4;
constexpr int64_t kSharedBytes = 32768;
// Filters per channel up to which staging the patch anew for each is cheaper than a matrix product
// with K = taps.
constexpr int64_t kMaxMultiplier = 4;

using ConvDispatch = DispatchBuilder<ConvParams>;

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

// ---- what both kernels are told ----

// Whether the pixels of each channel stand one after the other.
bool has_dense_planes(const TensorRef& ref) {
  return pixel_stride(ref) == 1;
}

// From a channel to the next. Strides of axes of size 1 say nothing.
Dim plane_stride(const TensorRef& ref) {
  return ref.shape()[1] == 1 ? Dim(0) : ref.strides[1];
}
Dim image_stride(const TensorRef& ref) {
  return ref.shape()[0] == 1 ? Dim(0) : ref.strides[0];
}

// Where planes do not stand as in a dense tensor (lib/planes.inc).
void define_planes(ConvDispatch& dispatch, const TensorRef& ref, const char* image,
                   const char* channel) {
  if (ref.dense()) return;
  dispatch.size(image, image_stride(ref)).size(channel, plane_stride(ref));
}

std::string index_type_of(const Convolution& conv) {
  const TensorRef::ByteRange range = conv.x.byte_range();
  const Dim x_elements = range.length_bytes / element_bytes(conv.x.dtype());
  const Dim channels = conv.groups * conv.group_out;
  int64_t farthest = most_of({x_elements, element_count(conv.w.shape()), conv.window.out_count(),
                              channels * plane_stride(conv.y)});
  if (conv.residual)
    farthest = std::max(farthest, (channels * plane_stride(*conv.residual)).range().most);
  return index_type(IndexUse::Offset, farthest);
}

void define_common(ConvDispatch& dispatch, const Convolution& conv) {
  const std::array<Dim, kSpatialDims> spatial = spatial_strides(conv.x.strides);
  const DType acc = accumulator_of(conv.x.dtype());
  define_window(dispatch, conv.window);
  dispatch.define("RLX_ACC", std::string(name_of(acc)))
      .define("RLX_INDEX", index_type_of(conv))
      .define("RLX_X", std::string(name_of(conv.x.dtype())))
      .define("RLX_W", std::string(name_of(conv.w.dtype())))
      .define("RLX_Y", std::string(name_of(conv.y.dtype())))
      .size("RLX_IMAGES", conv.images)
      .size("RLX_X_N", conv.x.strides[0])
      .size("RLX_X_C", conv.x.strides[1])
      .size("RLX_X_D", spatial[0])
      .size("RLX_X_H", spatial[1])
      .size("RLX_X_W", spatial[2])
      .define("RLX_ACTIVATION", conv.activation.none() ? 0 : 1);
  define_activation(dispatch, conv.activation, acc);
  if (conv.bias) {
    dispatch.define("RLX_BIAS", std::string(name_of(conv.bias->dtype())))
        .size("RLX_BIAS_M", conv.bias->strides[0])
        .define("RLX_BIAS_N", 0)
        .define("RLX_BIAS_VECTOR", 1);
  }
  if (conv.residual) {
    dispatch.define("RLX_RESIDUAL", std::string(name_of(conv.residual->dtype())))
        .size("RLX_RESIDUAL_M",
              conv.residual->dense() ? conv.window.out_count() : plane_stride(*conv.residual))
        .define("RLX_RESIDUAL_N", 1)
        .define("RLX_RESIDUAL_VECTOR", 1)
        .define("RLX_RESIDUAL_FIRST", 1);
    define_planes(dispatch, *conv.residual, "RLX_RESIDUAL_IMAGE", "RLX_RESIDUAL_PLANE");
  }
  define_planes(dispatch, conv.y, "RLX_Y_N", "RLX_Y_C");
}

void bind_common(ConvDispatch& dispatch, const Convolution& conv, uint32_t w_alignment,
                 uint32_t y_alignment) {
  Dim bytes = byte_size(conv.y.type);
  if (depth_of(conv) > 0) {
    dispatch.read(&ConvParams::x, conv.x).read(&ConvParams::w, conv.w, w_alignment);
    bytes += conv.x.byte_range().length_bytes + byte_size(conv.w.type);
  }
  if (conv.bias) {
    dispatch.read(&ConvParams::bias, *conv.bias);
    bytes += conv.bias->byte_range().length_bytes;
  }
  if (conv.residual) {
    dispatch.read(&ConvParams::residual, *conv.residual);
    bytes += byte_size(conv.residual->type);
  }
  dispatch.write(&ConvParams::y, conv.y, y_alignment);
  dispatch.work(bytes, 2 * element_count(conv.y.shape()) * depth_of(conv));
}

// ---- depthwise ----

struct DepthwiseTile {
  int64_t h = 1;
  int64_t w = 1;
  uint32_t threads = 64;
};

int64_t staged_elements(const Window& window, const DepthwiseTile& tile) {
  const int64_t patch_h =
      (tile.h - 1) * window.stride[1] + (window.kernel[1] - 1) * window.dilation[1] + 1;
  const int64_t patch_w =
      (tile.w - 1) * window.stride[2] + (window.kernel[2] - 1) * window.dilation[2] + 1;
  if (patch_h > kSharedBytes || patch_w > kSharedBytes) return kSharedBytes;
  return patch_h * patch_w + window.taps();
}

// The largest tile whose patch fits into shared memory; none where not even a small one does.
std::optional<DepthwiseTile> depthwise_tile(const Convolution& conv) {
  const Window& window = conv.window;
  const int64_t height = window.out[1].bound();
  const int64_t width = window.out[2].bound();
  const int64_t capacity = kSharedBytes / element_bytes(accumulator_of(conv.x.dtype()));
  DepthwiseTile tile{.h = std::min<int64_t>(height, 32), .w = std::min<int64_t>(width, 32)};
  if (height == 1) tile.w = std::min<int64_t>(width, 512);
  while (staged_elements(window, tile) > capacity) {
    if (tile.h * tile.w <= 16) return std::nullopt;
    int64_t& longer = tile.h >= tile.w ? tile.h : tile.w;
    longer = ceil_div(longer, 2);
  }
  const int64_t outputs = tile.h * tile.w;
  tile.threads = outputs >= 512 ? 256 : (outputs >= 128 ? 128 : 64);
  return tile;
}

void lower_depthwise(LowerContext& ctx, const Convolution& conv, const DepthwiseTile& tile) {
  const Window& window = conv.window;
  const Dim channels = conv.groups * conv.group_out;
  const Dim tiles = ceil_div(window.out[1], tile.h) * ceil_div(window.out[2], tile.w);
  const Dim groups = tiles * channels * conv.images;
  auto dispatch = ctx.dispatch<KernelId::conv_depthwise>();
  define_common(dispatch, conv);
  dispatch.workgroup({tile.threads, 1, 1})
      .size("RLX_CHANNELS", channels)
      .size("RLX_MULTIPLIER", conv.group_out)
      .define("RLX_TILE_H", tile.h)
      .define("RLX_TILE_W", tile.w)
      .define("RLX_Y_VECTOR", 1)
      .grid(split_grid(groups))
      .reason("depthwise conv: " + std::to_string(tile.h) + "x" + std::to_string(tile.w) +
              " tile, " + std::to_string(groups.bound()) + " workgroups");
  bind_common(dispatch, conv, 0, 0);
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
  define_common(dispatch, conv);
  define_tile(dispatch, tile);
  dispatch.define("RLX_GROUPS", conv.groups)
      .size("RLX_GROUP_IN", conv.group_in)
      .size("RLX_GROUP_OUT", conv.group_out)
      .define("RLX_W_VECTOR", w_vectors ? "DEPTH" : "1")
      .define("RLX_Y_VECTOR", y_vectors ? kConvVectorElements : 1)
      .grid(split_grid(tiles * conv.groups))
      .reason("implicit product: " + choice.text());
  bind_common(dispatch, conv, w_vectors ? w_bytes : 0, y_vectors ? y_bytes : 0);
}

// The convolution with the layouts that these kernels read; reports sizes beyond their counts.
std::optional<Convolution> in_planes(LowerContext& ctx, Convolution conv) {
  conv.w = ctx.dense(conv.w);
  if (conv.residual && !has_dense_planes(*conv.residual)) conv.residual = ctx.dense(*conv.residual);
  const Dim columns = conv.images * conv.window.out_count();
  const Dim tiles = ceil_div(columns, 16) * ceil_div(conv.group_out, 16);
  const Dim channels = conv.groups * conv.group_out;
  const std::array<Dim, kSpatialDims>& in = conv.window.in;
  if (most_of({columns, tiles, depth_of(conv), channels, in[0], in[1], in[2]}) <= kCountLimit)
    return conv;
  ctx.fail(DiagCode::UnsupportedOp, "a convolution of " + to_string(columns) + " output pixels, " +
                                        to_string(channels) + " channels and depth " +
                                        to_string(depth_of(conv)) +
                                        " exceeds the kernels' 32-bit counts");
  return std::nullopt;
}

}  // namespace

bool has_free_sizes(const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  return conv.images.is_free() || conv.group_in.is_free() || conv.group_out.is_free() ||
         has_free_sizes(conv.window);
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

std::string planes_place_refusal(const TensorRef& place) {
  if (!has_dense_planes(place)) return "conv writes planes of dense pixels here";
  if (most_of({place.strides[0], place.strides[1]}) > kCountLimit)
    return "conv writes within 32-bit strides";
  return {};
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

std::string conv_depthwise_refusal(const OfferContext&, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  if (conv.group_in != 1) return "filters of several channels";
  if (conv.group_out > kMaxMultiplier)
    return "more than " + std::to_string(kMaxMultiplier) + " filters per channel";
  if (conv.window.rank > 2) return "three spatial dims";
  return depthwise_tile(conv) ? "" : "patches that shared memory does not hold";
}

double conv_depthwise_bound(const OfferContext& at, const ConvProblem& problem) {
  return thread_bound_microseconds(at.device(), work_of(problem.conv));
}

bool emit_conv_depthwise(LowerContext& ctx, const ConvProblem& problem) {
  const std::optional<Convolution> conv = in_planes(ctx, problem.conv);
  if (conv) lower_depthwise(ctx, *conv, depthwise_tile(*conv).value());
  return conv.has_value();
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
