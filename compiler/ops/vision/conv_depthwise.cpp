// SPDX-License-Identifier: Apache-2.0
// From a depthwise convolution to a dispatch of `conv_depthwise` or `conv_depthwise_channels`.
#include <algorithm>

#include "compiler/dispatch/size_words.h"
#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/product/matmul_lower.h"
#include "compiler/ops/vision/conv_dispatch.h"
#include "compiler/ops/vision/conv_mma.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kSharedBytes = 32768;

// ---- planes: a workgroup per tile of a channel ----

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
  define_convolution(dispatch, conv);
  define_planar_epilogue(dispatch, conv);
  dispatch.workgroup({tile.threads, 1, 1})
      .size("RLX_CHANNELS", channels)
      .size("RLX_MULTIPLIER", conv.group_out)
      .define("RLX_TILE_H", tile.h)
      .define("RLX_TILE_W", tile.w)
      .define("RLX_Y_VECTOR", 1)
      .grid(split_grid(groups))
      .reason("depthwise conv: " + std::to_string(tile.h) + "x" + std::to_string(tile.w) +
              " tile, " + std::to_string(groups.bound()) + " workgroups");
  bind_convolution(dispatch, conv, {});
}

// ---- channels last: a thread per tile of a few channels ----

constexpr uint32_t kChannelThreads = 128;
// Columns of a row of x that a thread holds in registers, by four channels.
constexpr int64_t kHeldColumns = 28;

struct ChannelTile {
  int64_t h = 2;
  int64_t w = 2;
};

int64_t columns_of(const Window& window, int64_t width) {
  return (width - 1) * window.stride[2] + (window.kernel[2] - 1) * window.dilation[2] + 1;
}

// 2 x 2 outputs were fastest on an H200 for windows of 3 to 7 taps; narrower where the image is,
// or where registers do not hold so many columns. None where they do not hold one output's.
std::optional<ChannelTile> channel_tile(const Window& window) {
  const ChannelTile tile{.h = std::min<int64_t>(window.out[1].bound(), 2),
                         .w = std::min<int64_t>(window.out[2].bound(), 2)};
  if (columns_of(window, tile.w) <= kHeldColumns) return tile;
  if (columns_of(window, 1) <= kHeldColumns) return ChannelTile{.h = tile.h, .w = 1};
  return std::nullopt;
}

// What the kernel reads and writes by whole vectors.
Convolution in_channels(LowerContext& ctx, Convolution conv) {
  const Shape& filters = conv.w.shape();
  Strides taps_first(filters.size(), 1);
  Dim step = filters[0];
  for (size_t axis = filters.size(); axis-- > 2; step = step * filters[axis])
    taps_first[axis] = step;
  taps_first[1] = step;
  const auto fits = [&](const TensorRef& ref) {
    return has_channel_vectors(ref) && ctx.alignment(ref) >= channel_vector_bytes(ref);
  };
  const auto packed = [&](const TensorRef& ref) {
    return ctx.state().materialize_as(ref, channels_last_strides(ref.shape()), "channels_last",
                                      ctx.new_step());
  };
  // The stride of an axis of size 1 says nothing.
  Strides stored = conv.w.strides;
  stored[1] = taps_first[1];
  if (stored != taps_first || ctx.alignment(conv.w) < kWidestAccessBytes)
    conv.w = ctx.state().materialize_as(conv.w, taps_first, "taps_first", ctx.new_step());
  if (!fits(conv.x)) conv.x = packed(conv.x);
  if (conv.residual && !fits(*conv.residual)) conv.residual = packed(*conv.residual);
  if (!fits(conv.y)) {
    conv.y = ctx.scratch(conv.y.type, "channels_last");
    conv.y.strides = channels_last_strides(conv.y.shape());
  }
  return conv;
}

bool has_bias_vectors(const LowerContext& ctx, const Convolution& conv) {
  return conv.bias && conv.bias->dense() &&
         ctx.alignment(*conv.bias) >= channel_vector_bytes(*conv.bias);
}

void define_channel_epilogue(ConvDispatch& dispatch, const LowerContext& ctx,
                             const Convolution& conv) {
  const bool has_depth = conv.window.rank == kSpatialDims;
  const std::array<Dim, kSpatialDims> y = spatial_strides(conv.y.strides);
  dispatch.define("RLX_Y_VECTOR", 4)
      .size("RLX_Y_N", conv.y.strides[0])
      .size("RLX_Y_H", y[1])
      .size("RLX_Y_W", y[2]);
  if (has_depth) dispatch.define("RLX_VOLUMES", 1).size("RLX_Y_D", y[0]);
  if (conv.bias) {
    dispatch.define("RLX_BIAS", std::string(name_of(conv.bias->dtype())))
        .define("RLX_BIAS_M", 0)
        .size("RLX_BIAS_N", conv.bias->strides[0])
        .define("RLX_BIAS_VECTOR", has_bias_vectors(ctx, conv) ? 4 : 1);
  }
  if (conv.residual) {
    const std::array<Dim, kSpatialDims> residual = spatial_strides(conv.residual->strides);
    dispatch.define("RLX_RESIDUAL", std::string(name_of(conv.residual->dtype())))
        .define("RLX_RESIDUAL_M", 0)
        .define("RLX_RESIDUAL_N", 1)
        .define("RLX_RESIDUAL_VECTOR", 4)
        .define("RLX_RESIDUAL_FIRST", 1)
        .size("RLX_RESIDUAL_IMAGE", conv.residual->strides[0])
        .size("RLX_RESIDUAL_H", residual[1])
        .size("RLX_RESIDUAL_W", residual[2]);
    if (has_depth) dispatch.size("RLX_RESIDUAL_D", residual[0]);
  }
}

// Threads that the kernel numbers below what it divides by sizes without integers' division.
constexpr int64_t kFewThreads = int64_t{1} << 21;

// What the kernel is told of sizes: numbers, or words, by which depthwise convolutions of other
// sizes run the same instance.
struct ChannelSizes {
  Convolution conv;
  Dim channels;
};

ChannelSizes in_words(SizeWords& words, const Convolution& conv) {
  ChannelSizes sizes{.conv = conv, .channels = words.word(conv.groups)};
  Convolution& worded = sizes.conv;
  worded.images = words.word(conv.images);
  for (Dim& size : worded.window.in) size = words.word(size);
  for (Dim& size : worded.window.out) size = words.word(size);
  const auto put = [&](TensorRef& ref) {
    for (Dim& stride : ref.strides) stride = words.word(stride);
  };
  put(worded.x);
  put(worded.y);
  if (worded.residual) put(*worded.residual);
  return sizes;
}

// The views, replaced by what the kernel reaches of them.
Convolution with_reaches(const ChannelSizes& sizes) {
  Convolution conv = sizes.conv;
  const auto image = [&](const TensorRef& ref, const Window::Sizes& spatial) {
    const std::array<Dim, kSpatialDims> strides = spatial_strides(ref.strides);
    Dim reach = reach_of(conv.images, ref.strides[0]) + (sizes.channels - 1);
    for (size_t d = 0; d < kSpatialDims; ++d) reach += reach_of(spatial[d], strides[d]);
    return reached(ref, reach);
  };
  const Window& window = conv.window;
  conv.x = image(conv.x, window.in);
  conv.y = image(conv.y, window.out);
  if (conv.residual) conv.residual = image(*conv.residual, window.out);
  conv.w = reached(conv.w, sizes.channels * window.taps() - 1);
  if (conv.bias) conv.bias = reached(*conv.bias, reach_of(sizes.channels, conv.bias->strides[0]));
  return conv;
}

bool takes_words(const LowerContext& ctx, const Convolution& conv, const Dim& threads) {
  const auto steps_on = [](const TensorRef& ref) {
    return std::all_of(ref.strides.begin(), ref.strides.end(),
                       [](const Dim& stride) { return !stride.is_free() && stride >= 0; });
  };
  // GPUs compute addresses for longer than they wait: ConvNeXt would take 10 % more on an H200.
  const bool pays = ctx.device().is_cpu() || ctx.word_use() == WordUse::Always;
  return pays && !has_free_sizes(conv.window) && !conv.images.is_free() && threads > 0 &&
         threads < kFewThreads && steps_on(conv.x) && steps_on(conv.y) &&
         (!conv.bias || steps_on(*conv.bias)) && (!conv.residual || steps_on(*conv.residual));
}

void lower_channels(LowerContext& ctx, const Convolution& conv, const ChannelTile& tile) {
  const Window& window = conv.window;
  const Dim tiles =
      window.out[0] * ceil_div(window.out[1], tile.h) * ceil_div(window.out[2], tile.w);
  const Dim threads = tiles * conv.images * (conv.groups / kChannelVector);
  const bool in_size_words = takes_words(ctx, conv, threads);
  SizeWords words;
  const ChannelSizes sizes =
      in_size_words ? in_words(words, conv) : ChannelSizes{.conv = conv, .channels = conv.groups};
  auto dispatch = ctx.dispatch<KernelId::conv_depthwise_channels>();
  define_convolution(dispatch, sizes.conv);
  define_channel_epilogue(dispatch, ctx, sizes.conv);
  if (in_size_words) dispatch.define("RLX_FEW_THREADS", 1);
  words.give(dispatch);
  dispatch.workgroup({kChannelThreads, 1, 1})
      .size("RLX_CHANNELS", sizes.channels)
      .define("RLX_TILE_H", tile.h)
      .define("RLX_TILE_W", tile.w)
      .grid(split_grid(ceil_div(threads, kChannelThreads)))
      .reason("depthwise conv, channels last: a thread per " + std::to_string(tile.h) + "x" +
              std::to_string(tile.w) + " outputs of " + std::to_string(kChannelVector) +
              " channels" + (in_size_words ? ", sizes as words" : ""));
  bind_convolution(dispatch, in_size_words ? with_reaches(sizes) : conv,
                   {.x = channel_vector_bytes(conv.x),
                    .w = channel_vector_bytes(conv.w),
                    .bias = has_bias_vectors(ctx, conv) ? channel_vector_bytes(*conv.bias) : 0,
                    .residual = conv.residual ? channel_vector_bytes(*conv.residual) : 0,
                    .y = channel_vector_bytes(conv.y)});
  dispatch.work(bytes_of(conv), flops_of(conv));
  if (conv.residual && conv.residual->strides == conv.y.strides)
    dispatch.allow_in_place(*conv.residual);
}

}  // namespace

std::string conv_depthwise_refusal(const OfferContext&, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  if (conv.group_in != 1) return "filters of several channels";
  if (conv.group_out > kMostFiltersPerChannel)
    return "more than " + std::to_string(kMostFiltersPerChannel) + " filters per channel";
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

std::string conv_channels_refusal(const OfferContext&, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  if (conv.group_in != 1) return "filters of several channels";
  if (conv.group_out != 1) return "several filters per channel";
  if (conv.window.rank < 2) return "rows of pixels";
  if (conv.x.dtype() == DType::f64) return "operands of f64";
  if (!has_channel_vectors(conv.y)) return "channels that are no vectors of neighbours in y";
  const Window& window = conv.window;
  for (const Dim& size : window.in)
    if (size.range().least < 1) return "empty images";
  const Dim pitch = pixel_pitch(conv.x).value_or(conv.groups);
  if ((window.in[2] * pitch).range().most > kRowLimit)
    return "rows of more elements than it counts";
  return channel_tile(window) ? "" : "windows wider than a thread's registers";
}

bool emit_conv_channels(LowerContext& ctx, const ConvProblem& problem) {
  if (!check_counts(ctx, problem.conv)) return false;
  const ChannelTile tile = channel_tile(problem.conv.window).value();
  const Convolution conv = in_channels(ctx, problem.conv);
  lower_channels(ctx, conv, tile);
  if (conv.y.buffer != problem.conv.y.buffer) ctx.copy(conv.y, problem.conv.y);
  return true;
}

}  // namespace rlx
