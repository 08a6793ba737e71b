// SPDX-License-Identifier: Apache-2.0
// From a convolution to a dispatch of `conv_mma`.
#include "compiler/ops/vision/conv_mma.h"

#include <algorithm>
#include <optional>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/lowering/forms.h"
#include "compiler/ops/vision/conv_mma_tiles.h"
#include "compiler/ops/vision/conv_rows.h"
#include "compiler/support/sampled_sizes.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kStepBytes = 128;  // of a pixel's channels that a step multiplies
constexpr const char* kEpilogue = "epilogue.inc";

// The kernel's forms.
enum class Form : uint8_t { Ring, Patch };

// The result of splitting k needs clusters, which count along x.
Grid grid_of(const Convolution& conv, const ConvTiling& tiling) {
  const int64_t bundled = bundled_groups(conv);
  const Dim groups = ceil_div(pixels_of(conv), tiling.tile.tile_m) *
                     ceil_div(conv.group_out * bundled, tiling.tile.tile_n) *
                     (conv.groups / bundled) * tiling.split;
  if (tiling.split == 1) return split_grid(groups);
  return {.x = groups};
}

struct Operands {
  TensorRef x;
  TensorRef w;
  std::optional<TensorRef> bias;
  std::optional<TensorRef> residual;
  TensorRef y;
};

Operands laid_out(LowerContext& ctx, Form form, const Convolution& conv) {
  const bool ring = form == Form::Ring;
  Operands operands{.x = ring ? ctx.channels_last(conv.x) : conv.x,
                    .w = ring ? ctx.channels_last(conv.w) : conv.w,
                    .bias = conv.bias,
                    .residual = {},
                    .y = conv.y};
  if (conv.residual) operands.residual = ctx.channels_last(*conv.residual);
  const bool bias_fits =
      !conv.bias || (conv.bias->dense() && ctx.alignment(*conv.bias) >= kWidestAccessBytes);
  if (!bias_fits) operands.bias = ctx.state().materialize(*conv.bias, ctx.new_step());
  if (!pixel_pitch(conv.y) || ctx.alignment(conv.y) < kWidestAccessBytes) {
    operands.y = ctx.scratch(conv.y.type, "channels_last");
    operands.y.strides = channels_last_strides(conv.y.shape());
  }
  return operands;
}

bool rounds_to_tf32(const OfferContext& at) {
  return at.products() == ProductPrecision::Tf32;
}

bool is_in_parts(const OfferContext& at, const Convolution& conv) {
  return conv.x.dtype() == DType::f32 && !rounds_to_tf32(at);
}

bool is_weight(const LowerContext& ctx, const TensorRef& ref) {
  return ctx.segment_of(ref) == Segment::Weights;
}

// No tap lies beside the image, whatever its size.
bool has_no_pads(const Window& window) {
  for (size_t d = 0; d < kSpatialDims; ++d) {
    const Dim last =
        (window.out[d] - 1) * window.stride[d] + (window.kernel[d] - 1) * window.dilation[d];
    const Dim spare = window.in[d] - 1 - last;
    if (window.begin[d] != 0 || spare.range().least < 0) return false;
  }
  return true;
}

void define_problem(DispatchBuilder<ConvMmaParams>& dispatch, const LowerContext& ctx,
                    const Convolution& conv, const Operands& operands) {
  const bool early =
      is_weight(ctx, operands.w) && (!operands.bias || is_weight(ctx, *operands.bias));
  define_window(dispatch, conv.window);
  dispatch.size("RLX_IMAGES", conv.images)
      .define("RLX_NO_PADS", has_no_pads(conv.window) ? 1 : 0)
      .define("RLX_X", std::string(name_of(conv.x.dtype())))
      .define("RLX_Y", std::string(name_of(conv.y.dtype())))
      .define("RLX_Y_PITCH", *pixel_pitch(operands.y))
      .define("RLX_PREFETCH", early ? 1 : 0)
      .define("RLX_ACTIVATION", conv.activation.none() ? 0 : 1);
  define_image(dispatch, operands.x.strides);
  if (conv.x.dtype() == DType::f32) dispatch.define("RLX_TF32", rounds_to_tf32(ctx) ? 1 : 0);
  if (!conv.activation.none())
    dispatch.generated(kEpilogue, activation_source(conv.activation, DType::f32));
  if (operands.bias) dispatch.define("RLX_BIAS", std::string(name_of(operands.bias->dtype())));
  if (operands.residual) {
    dispatch.define("RLX_RESIDUAL", 1)
        .define("RLX_RESIDUAL_PITCH", *pixel_pitch(*operands.residual));
  }
}

// `reached`: the operands themselves, or what the kernel makes of its words of them.
void bind(DispatchBuilder<ConvMmaParams>& dispatch, const Operands& operands,
          const Operands& reached, Form form) {
  const uint32_t alignment = form == Form::Ring ? kWidestAccessBytes : 0;
  Dim bytes = byte_size(operands.y.type) + byte_size(operands.w.type) +
              operands.x.byte_range().length_bytes;
  dispatch.read(&ConvMmaParams::x, reached.x, alignment)
      .read(&ConvMmaParams::w, reached.w, alignment);
  if (operands.bias) dispatch.read(&ConvMmaParams::bias, *reached.bias, kWidestAccessBytes);
  if (operands.residual) {
    dispatch.read(&ConvMmaParams::residual, *reached.residual, kWidestAccessBytes);
    bytes += byte_size(operands.residual->type);
    if (operands.residual->strides == operands.y.strides)
      dispatch.allow_in_place(*operands.residual);
  }
  dispatch.write(&ConvMmaParams::y, reached.y, kWidestAccessBytes);
  const Dim depth = element_count(operands.w.shape()) / operands.w.shape()[0];
  dispatch.work(bytes, 2 * element_count(operands.y.shape()) * depth);
}

void define_tile(DispatchBuilder<ConvMmaParams>& dispatch, const ConvTile& tile, int64_t stages,
                 int64_t split) {
  dispatch.define("RLX_TILE_M", tile.tile_m)
      .define("RLX_TILE_N", tile.tile_n)
      .define("RLX_WARPS_M", tile.warps_m)
      .define("RLX_WARPS_N", tile.warps_n)
      .define("RLX_WARPS_K", tile.warps_k)
      .define("RLX_STAGES", stages)
      .define("RLX_SPLIT", split);
}

// At a few values of its sizes, the largest first.
std::vector<ConvProduct> ring_products(const OfferContext& at, const Convolution& conv) {
  const Dim m = pixels_of(conv);
  const bool in_parts = is_in_parts(at, conv);
  const int64_t bundled = bundled_groups(conv);
  return at_sampled_windows(m, [&](const SampledSizes& sizes) {
    return ConvProduct{.m = sizes.value(m),
                       .n = conv.group_out * bundled,
                       .k = depth_of(conv) * bundled,
                       .count = conv.groups / bundled,
                       .element_bytes = element_bytes(conv.x.dtype()),
                       .in_parts = in_parts,
                       .has_residual = conv.residual.has_value()};
  });
}

// At the largest sizes.
std::optional<PatchTiling> patch_tiling(const OfferContext& at, const Convolution& conv) {
  return choose_patch_tiling(largest_of(conv.window), conv.images.bound(), conv.group_in,
                             conv.group_out, element_bytes(conv.x.dtype()), at.device());
}

std::string bundles_text(const Convolution& conv) {
  if (conv.groups == 1) return {};
  return "groups in bundles of " + std::to_string(bundled_groups(conv)) + ", ";
}

// 2^30 / size, rounded up: what lib/conv_ring.cuh divides numbers below `most` by. Floored, the
// product exceeds a quotient by less than one where most * (inverse * size - 2^30) is below 2^30.
std::optional<int64_t> inverse_of(int64_t size, int64_t most) {
  constexpr int64_t kOne = int64_t{1} << 30;
  const int64_t inverse = ceil_div(kOne, size);
  const int64_t excess = inverse * size - kOne;
  const bool is_exact = most < kOne && (excess == 0 || most <= (kOne - 1) / excess);
  return is_exact ? std::optional(inverse) : std::nullopt;
}

// What the kernel divides by.
struct RingInverses {
  int64_t pixels = 0;
  int64_t out_w = 0;
  int64_t channels = 0;
  int64_t tiles_n = 0;
};

// nullopt where sizes cannot be words.
std::optional<RingInverses> ring_inverses(const Convolution& conv, const Operands& operands,
                                          const ConvTiling& tiling) {
  const auto is_fixed = [](const TensorRef& ref) {
    return std::ranges::all_of(ref.strides,
                               [](const Dim& stride) { return !stride.is_free() && stride >= 0; });
  };
  if (conv.groups != 1 || conv.window.rank > 2 || has_free_sizes(conv.window) ||
      conv.images.is_free() || !is_fixed(operands.x) || !is_fixed(operands.y))
    return std::nullopt;
  const int64_t pixels = conv.window.out_count().bound();
  const int64_t rows = conv.images.bound() * pixels + tiling.tile.tile_m;
  const int64_t tiles_n = ceil_div(conv.group_out.bound(), tiling.tile.tile_n);
  const int64_t depth = depth_of(conv) + kStepBytes * tiling.split;
  const auto by_pixels = inverse_of(pixels, rows);
  const auto by_out_w = inverse_of(conv.window.out[2].bound(), pixels);
  const auto by_channels = inverse_of(conv.group_in.bound(), depth);
  const auto by_tiles_n = inverse_of(tiles_n, tiling.groups);
  if (!by_pixels || !by_out_w || !by_channels || !by_tiles_n) return std::nullopt;
  return RingInverses{*by_pixels, *by_out_w, *by_channels, *by_tiles_n};
}

// What lib/conv_ring.cuh is told of words that it does not know; RLX_WORDS.
struct RingFacts {
  int64_t resident = 0;  // steps
  bool has_whole_depth = false;
  bool has_whole_filters = false;
  bool has_whole_units = false;
  bool goes_taps_first = false;
  int64_t least_depth = 0;
};

RingFacts ring_facts(const Convolution& conv, const Operands& operands, const ConvTiling& tiling,
                     const ConvProduct& product, const DeviceModel& device) {
  const bool is_tested = is_almost_alone(tiling, device);
  const int64_t step = kStepBytes / product.element_bytes;
  const int64_t unit = kWidestAccessBytes / product.element_bytes;
  const int64_t steps = conv_steps(product, tiling.split);
  int64_t pitches = pixel_pitch(operands.y)->bound();
  if (operands.residual) pitches |= pixel_pitch(*operands.residual)->bound();
  return {.resident = steps <= kFewConvSteps ? steps : 0,
          .has_whole_depth = !is_tested && product.k % (step * tiling.split) == 0,
          .has_whole_filters = !is_tested && product.n % tiling.tile.tile_n == 0,
          .has_whole_units = (product.n | pitches) % unit == 0,
          .goes_taps_first =
              tiling.tile.by_groups && conv.window.taps() > 1 && conv.group_in.divides_by(step),
          .least_depth = product.in_parts && product.k >= kLeastPartsDepth ? kLeastPartsDepth : 0};
}

// What applies the activation; empty for none. A convolution without one, where nothing is added
// either, shares that of those before it, to which a word says whether it is applied; short ones do
// not wait for more than it takes.
std::string shared_epilogue(const Program& program, const Convolution& conv,
                            const Operands& operands, const RingFacts& facts) {
  if (!conv.activation.none()) return activation_source(conv.activation, DType::f32);
  if (operands.residual || facts.resident > 0) return {};
  for (const Specialization& kernel : program.kernels) {
    const auto epilogue = kernel.generated.find("generated/" + std::string(kEpilogue));
    if (kernel.kernel == KernelId::conv_mma && epilogue != kernel.generated.end())
      return epilogue->second;
  }
  return {};
}

// Defines as words what else are numbers, but for the window. The operands are then what the
// kernel reaches of them.
Operands define_words(DispatchBuilder<ConvMmaParams>& dispatch, const Convolution& conv,
                      const Operands& operands, const RingInverses& inverses,
                      const RingFacts& facts, const std::string& epilogue) {
  SizeWords words;
  const auto word = [&](const char* name, const Dim& size) {
    const Dim number = words.any(size.bound());
    dispatch.size(name, number);
    return number;
  };
  const Window& window = conv.window;
  const Dim images = word("RLX_IMAGES", conv.images);
  const Dim in_h = word("RLX_IN_H", window.in[1]);
  const Dim in_w = word("RLX_IN_W", window.in[2]);
  const Dim out_h = word("RLX_OUT_H", window.out[1]);
  const Dim out_w = word("RLX_OUT_W", window.out[2]);
  word("RLX_BEGIN_H", window.begin[1]);
  word("RLX_BEGIN_W", window.begin[2]);
  word("RLX_STRIDE_H", window.stride[1]);
  word("RLX_STRIDE_W", window.stride[2]);
  const Dim x_n = word("RLX_X_N", operands.x.strides[0]);
  const Dim x_h = word("RLX_X_H", operands.x.strides[2]);
  const Dim x_w = word("RLX_X_W", operands.x.strides[3]);
  const Dim channels = word("RLX_CHANNELS", conv.group_in);
  const Dim filters = word("RLX_FILTERS", conv.group_out);
  const Dim y_pitch = word("RLX_Y_PITCH", *pixel_pitch(operands.y));
  word("RLX_INVERSE_PIXELS", inverses.pixels);
  word("RLX_INVERSE_OUT_W", inverses.out_w);
  word("RLX_INVERSE_CHANNELS", inverses.channels);
  word("RLX_INVERSE_TILES_N", inverses.tiles_n);
  const Dim rows = images * out_h * out_w;
  Operands reach = operands;
  reach.x = reached(
      operands.x, reach_of(images, x_n) + reach_of(in_h, x_h) + reach_of(in_w, x_w) + channels - 1);
  reach.w = reached(operands.w, filters * window.taps() * channels - 1);
  if (operands.bias) reach.bias = reached(*operands.bias, filters - 1);
  reach.y = reached(operands.y, reach_of(rows, y_pitch) + filters - 1);
  if (!operands.residual && facts.resident == 0 && !epilogue.empty()) {
    word("RLX_ACTIVATES", conv.activation.none() ? 0 : 1);
    dispatch.define("RLX_ACTIVATION", 1).generated(kEpilogue, epilogue);
  }
  if (operands.residual) {
    const Dim pitch = word("RLX_RESIDUAL_PITCH", *pixel_pitch(*operands.residual));
    reach.residual = reached(*operands.residual, reach_of(rows, pitch) + filters - 1);
  }
  dispatch.define("RLX_WORDS", 1)
      .define("RLX_RESIDENT", facts.resident)
      .define("RLX_WHOLE_DEPTH", facts.has_whole_depth ? 1 : 0)
      .define("RLX_WHOLE_FILTERS", facts.has_whole_filters ? 1 : 0)
      .define("RLX_WHOLE_UNITS", facts.has_whole_units ? 1 : 0)
      .define("RLX_TAPS_FIRST", facts.goes_taps_first ? 1 : 0)
      .define("RLX_LEAST_DEPTH", facts.least_depth);
  words.give(dispatch);
  return reach;
}

// The operands as the kernel reaches them.
Operands define_ring(DispatchBuilder<ConvMmaParams>& dispatch, LowerContext& ctx,
                     const Convolution& conv, const Convolution& for_tiles,
                     const Operands& operands) {
  const int64_t bundled = bundled_groups(conv);
  dispatch.define("RLX_CHANNELS", conv.group_in * bundled)
      .define("RLX_FILTERS", conv.group_out * bundled);
  if (conv.groups > 1)
    dispatch.define("RLX_BUNDLES", conv.groups / bundled).define("RLX_BUNDLED", bundled);
  const std::vector<ConvProduct> sizes = ring_products(ctx, for_tiles);
  ConvTiling tiling = take_form(ctx, "conv_mma ring", conv_candidates(sizes, ctx.device()));
  std::optional<RingInverses> inverses;
  const auto shared = shared_tiling(sizes.front(), tiling, ctx.device());
  // Warps multiply for so short a time that the address of a tap by words is up to a quarter of it.
  const bool pays = tiling.tile.by_groups || conv.window.taps() == 1;
  if (shared && pays && ctx.word_use() >= WordUse::ForShared)
    inverses = ring_inverses(conv, operands, *shared);
  if (inverses) tiling = *shared;
  define_tile(dispatch, tiling.tile, tiling.stages, tiling.split);
  dispatch.define("RLX_PATCH", 0)
      .define("RLX_WGMMA", tiling.tile.by_groups ? 1 : 0)
      .workgroup({tiling.threads()})
      .grid(grid_of(conv, tiling))
      .estimate([largest = sizes.front(), tiling](const DeviceModel& device) {
        return conv_microseconds(largest, tiling, device);
      })
      .reason("tensor cores, channels last: " + bundles_text(conv) + tiling.text() +
              (inverses ? ", sizes as words" : ""));
  if (!inverses) return operands;
  const RingFacts facts = ring_facts(conv, operands, tiling, sizes.front(), ctx.device());
  return define_words(dispatch, conv, operands, *inverses, facts,
                      shared_epilogue(ctx.program(), conv, operands, facts));
}

// As many as tiling.groups at the largest sizes, no more than there are tiles at others.
Dim patch_groups(const Convolution& conv, const PatchTiling& tiling) {
  const int64_t filter_tiles = ceil_div(conv.group_out, tiling.tile_n);
  const Dim tiles = conv.images * ceil_div(conv.window.out[1], tiling.tile_h) *
                    ceil_div(conv.window.out[2], tiling.tile_w);
  return min(tiles, tiling.groups / filter_tiles) * filter_tiles;
}

void define_patch(DispatchBuilder<ConvMmaParams>& dispatch, const LowerContext& ctx,
                  const Convolution& conv, const Operands& operands) {
  const PatchTiling tiling = patch_tiling(ctx, conv).value();
  define_tile(dispatch,
              {.tile_m = tiling.tile_h * tiling.tile_w,
               .tile_n = tiling.tile_n,
               .warps_m = tiling.warps_m,
               .warps_n = tiling.warps_n},
              1, 1);
  // With free sizes addresses take a few registers more than leave room for the workgroups that the
  // grid counts on.
  if (has_free_sizes(conv.window) && is_half(conv.x.dtype()))
    dispatch.define("RLX_MIN_GROUPS", kPatchGroupsPerProcessor);
  dispatch.define("RLX_PATCH", 1)
      .define("RLX_CHANNELS", conv.group_in)
      .define("RLX_FILTERS", conv.group_out)
      .define("RLX_PATCH_CHANNELS", tiling.patch_channels)
      .define("RLX_TILE_H", tiling.tile_h)
      .define("RLX_TILE_W", tiling.tile_w)
      .size("RLX_X_C", operands.x.strides[1])
      .define("RLX_W_N", operands.w.strides[0])
      .define("RLX_W_C", operands.w.strides[1])
      .define("RLX_W_H", operands.w.strides[2])
      .define("RLX_W_W", operands.w.strides[3])
      .workgroup({tiling.threads()})
      .grid(patch_groups(conv, tiling))
      .reason("tensor cores: " + tiling.text());
}

// What both forms ask.
std::string mma_refusal(const Convolution& conv) {
  const DType x = conv.x.dtype();
  if (!is_half(x) && x != DType::f32) return "operands of " + std::string(name_of(x));
  return conv_matrix_refusal(conv);
}

// f32 in parts is not so fast that few products outweigh copies to channels last and back.
std::string few_products_refusal(const OfferContext& at, const ConvProblem& problem,
                                 double microseconds) {
  constexpr int64_t kManyProducts = 10'000'000;
  const Convolution& conv = problem.conv;
  if (!is_in_parts(at, conv) ||
      (element_count(conv.y.shape()) * depth_of(conv)).bound() >= kManyProducts)
    return {};
  const double copies = 2 * at.device().step_microseconds;
  return conv_implicit_time(at, problem) < microseconds + copies
             ? "f32 of so few products that a kernel without matrix units is faster"
             : "";
}

bool emit(LowerContext& ctx, Form form, const ConvProblem& problem) {
  const Convolution conv = of_images(problem.conv);
  const Operands operands = laid_out(ctx, form, conv);
  {
    auto dispatch = ctx.dispatch<KernelId::conv_mma>();
    define_problem(dispatch, ctx, conv, operands);
    Operands reached = operands;
    if (form == Form::Ring) {
      reached = define_ring(dispatch, ctx, conv, of_images(problem.for_tiles()), operands);
    } else {
      define_patch(dispatch, ctx, conv, operands);
    }
    bind(dispatch, operands, reached, form);
  }
  if (operands.y.buffer != conv.y.buffer) ctx.copy(operands.y, conv.y);
  return true;
}

TensorRef as_image(TensorRef ref) {
  if (ref.shape().size() > 3) return ref;
  ref.strides.insert(ref.strides.begin() + 2, ref.shape()[2] * ref.strides[2]);
  ref.type.shape.insert(ref.type.shape.begin() + 2, 1);
  return ref;
}

}  // namespace

Convolution of_images(Convolution conv) {
  conv.x = as_image(conv.x);
  conv.w = as_image(conv.w);
  if (conv.residual) conv.residual = as_image(*conv.residual);
  conv.y = as_image(conv.y);
  return conv;
}

std::string conv_matrix_refusal(const Convolution& conv) {
  if (conv.w.dtype() != conv.x.dtype()) return "operands of two dtypes";
  if (conv.group_in.is_free() || conv.group_out.is_free()) return "channels that the run gives";
  if (element_count(conv.w.shape()) == 0) return "nothing to add";
  const int64_t largest = std::max({element_count(conv.x.shape()).range().most,
                                    element_count(conv.w.shape()).range().most,
                                    element_count(conv.y.shape()).range().most});
  return largest > kRowLimit ? "more elements than it counts" : "";
}

int64_t bundled_groups(const Convolution& conv) {
  if (conv.groups == 1) return 1;
  const int64_t channel_bytes = conv.group_in.bound() * element_bytes(conv.w.dtype());
  int64_t bundled = 0;
  for (int64_t groups = 1; groups <= conv.groups; ++groups) {
    const bool is_whole =
        conv.groups % groups == 0 && groups * channel_bytes % kWidestAccessBytes == 0;
    if (is_whole && (bundled == 0 || groups * channel_bytes <= kStepBytes)) bundled = groups;
    if (bundled != 0 && groups * channel_bytes > kStepBytes) break;
  }
  return bundled;
}

std::string conv_groups_refusal(const Convolution& conv) {
  constexpr int64_t kLeastCopyBytes = 4;
  if (conv.groups == 1) {
    return has_channel_pieces(conv) ? "" : "channels that are no whole 16-byte pieces";
  }
  if (conv.group_in == 1) return "filters of single channels";
  if (bundled_groups(conv) == 0) return "groups that make no whole 16-byte pieces";
  const bool is_copied = conv.group_in * element_bytes(conv.w.dtype()) % kLeastCopyBytes == 0;
  return is_copied ? "" : "groups of channels that are no whole 4 bytes";
}

bool has_channel_pieces(const Convolution& conv) {
  return conv.group_in * element_bytes(conv.w.dtype()) % kWidestAccessBytes == 0;
}

std::string conv_ring_refusal(const OfferContext& at, const ConvProblem& problem) {
  if (std::string refusal = mma_refusal(problem.conv); !refusal.empty()) return refusal;
  if (std::string refusal = conv_groups_refusal(problem.conv); !refusal.empty()) return refusal;
  const double microseconds = conv_ring_alone_time(at, problem);
  if (std::string refusal = conv_rows_refusal(at, problem, microseconds); !refusal.empty())
    return refusal;
  return few_products_refusal(at, problem, microseconds);
}

double conv_ring_time(const OfferContext& at, const ConvProblem& problem) {
  return choose_conv_tiling(ring_products(at, problem.for_tiles()), at.device()).microseconds;
}

double conv_ring_alone_time(const OfferContext& at, const ConvProblem& problem) {
  const std::vector<ConvProduct> products = ring_products(at, problem.for_tiles());
  const auto alone = [&products](const ConvTiling& tiling) {
    return alone_microseconds(products.front(), tiling);
  };
  return alone(least_excess(conv_candidates(products, at.device()), alone));
}

double conv_ring_time_of(const OfferContext& at, const ConvProblem& largest,
                         const ConvProblem& problem) {
  const ConvTiling tiling = choose_conv_tiling(ring_products(at, largest.conv), at.device());
  const ConvProduct product = ring_products(at, problem.conv).front();
  return conv_microseconds(product, tiling_of_size(product, tiling), at.device());
}

bool emit_conv_ring(LowerContext& ctx, const ConvProblem& problem) {
  return emit(ctx, Form::Ring, problem);
}

std::string conv_patch_refusal(const OfferContext& at, const ConvProblem& problem) {
  if (std::string refusal = mma_refusal(problem.conv); !refusal.empty()) return refusal;
  if (problem.conv.groups != 1) return "several groups";
  if (problem.conv.window.rank == 1) return "rows of pixels, of which a patch holds few";
  if (problem.conv.window.rank > 2) return "volumes";
  if (has_channel_pieces(problem.conv)) return "channels in whole 16-byte pieces";
  if (!patch_tiling(at, problem.conv)) return "patches that shared memory does not hold";
  return few_products_refusal(at, problem, at.device().conv.start + conv_patch_bound(at, problem));
}

double conv_patch_bound(const OfferContext& at, const ConvProblem& problem) {
  constexpr double kPartsSlowdown = 8;  // of f32 in parts against 16-bit types
  const DeviceModel& device = at.device();
  const double products = device.conv.products * 1e6;
  return bound_microseconds(device, work_of(problem.conv),
                            is_in_parts(at, problem.conv) ? products / kPartsSlowdown : products);
}

bool emit_conv_patch(LowerContext& ctx, const ConvProblem& problem) {
  return emit(ctx, Form::Patch, problem);
}

std::string conv_mma_place_refusal(const TensorRef& place) {
  const std::optional<Dim> pitch = pixel_pitch(place);
  if (!pitch) return "matrix units write images channels last";
  const uint32_t bytes = element_bytes(place.dtype());
  if (*pitch * bytes % kWidestAccessBytes != 0 || place.offset_bytes % kWidestAccessBytes != 0)
    return "matrix units write aligned pieces of 16 bytes";
  return {};
}

}  // namespace rlx
