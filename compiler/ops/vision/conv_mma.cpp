// SPDX-License-Identifier: Apache-2.0
// From a convolution to a dispatch of `conv_mma`.
#include "compiler/ops/vision/conv_mma.h"

#include <algorithm>
#include <limits>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/vision/conv_coop.h"
#include "compiler/ops/vision/conv_mma_tiles.h"

namespace rlx {
namespace {

constexpr uint32_t kChannelPieceBytes = 16;  // of channels, copied at once
constexpr int64_t kRowLimit = std::numeric_limits<int32_t>::max() - (1 << 24);

bool is_one_group(const Node& node) {
  const auto found = node.attributes.find("groups");
  return found == node.attributes.end() || std::get<int64_t>(found->second) == 1;
}

// The result of splitting k needs clusters, which count along x.
Extent3 grid_of(const ConvTiling& tiling) {
  if (tiling.split == 1) return split_grid(static_cast<uint64_t>(tiling.groups));
  return {static_cast<uint32_t>(tiling.groups), 1, 1};
}

// Every place of the padded image.
bool counts_in_32_bits(const Window& window) {
  for (size_t d = 0; d < kSpatialDims; ++d) {
    if (window.in[d] + window.begin[d] + window.end[d] > kRowLimit) return false;
  }
  return true;
}

// Where cooperative matrices would cost more than they save: beside convolutions of several groups,
// whose kernels write [N, C, H, W], and for rows of pixels [N, C, W], which nobody stores channels
// last, where their copies outweigh the product.
bool stays_dense(const Graph& graph, const Node& node, const Window& window, bool pieces) {
  if (window.rank == 2) return (window.is_pointwise() || !pieces) && is_beside_groups(graph, node);
  constexpr int64_t kLeastProducts = 100'000'000;
  const int64_t outputs = element_count(graph.value(node.outputs[0]).type.shape);
  const Shape& w = graph.value(*node.inputs[1]).type.shape;
  return window.is_pointwise() || outputs * (w[1] * window.taps()) < kLeastProducts;
}

struct Operands {
  TensorRef x;
  TensorRef w;
  std::optional<TensorRef> bias;
  std::optional<TensorRef> residual;
  TensorRef y;
};

Operands laid_out(LowerContext& ctx, ConvMmaForm form, const Convolution& conv) {
  const bool ring = form == ConvMmaForm::Ring;
  Operands operands{.x = ring ? ctx.channels_last(conv.x) : conv.x,
                    .w = ring ? ctx.channels_last(conv.w) : conv.w,
                    .bias = conv.bias,
                    .residual = {},
                    .y = conv.y};
  if (conv.residual) operands.residual = ctx.channels_last(*conv.residual);
  const bool bias_fits =
      !conv.bias || (conv.bias->dense() && ctx.alignment(*conv.bias) >= kChannelPieceBytes);
  if (!bias_fits) operands.bias = ctx.state().materialize(*conv.bias, ctx.new_step());
  if (!pixel_pitch(conv.y) || ctx.alignment(conv.y) < kChannelPieceBytes) {
    operands.y = ctx.scratch(conv.y.type, "channels_last");
    operands.y.strides = channels_last_strides(conv.y.shape());
  }
  return operands;
}

bool is_weight(const LowerContext& ctx, const TensorRef& ref) {
  return ctx.segment_of(ref) == Segment::Weights;
}

void define_problem(DispatchBuilder<ConvMmaParams>& dispatch, const LowerContext& ctx,
                    const Convolution& conv, const Operands& operands) {
  const bool early =
      is_weight(ctx, operands.w) && (!operands.bias || is_weight(ctx, *operands.bias));
  define_window(dispatch, conv.window);
  dispatch.define("RLX_IMAGES", conv.images)
      .define("RLX_CHANNELS", conv.group_in)
      .define("RLX_FILTERS", conv.group_out)
      .define("RLX_X", std::string(name_of(conv.x.dtype())))
      .define("RLX_Y", std::string(name_of(conv.y.dtype())))
      .define("RLX_X_N", operands.x.strides[0])
      .define("RLX_X_H", operands.x.strides[2])
      .define("RLX_X_W", operands.x.strides[3])
      .define("RLX_Y_PITCH", *pixel_pitch(operands.y))
      .define("RLX_PREFETCH", early ? 1 : 0)
      .define("RLX_ACTIVATION", conv.activation.none() ? 0 : 1);
  if (!conv.activation.none())
    dispatch.generated("epilogue.inc", activation_source(conv.activation, DType::f32));
  if (operands.bias) dispatch.define("RLX_BIAS", std::string(name_of(operands.bias->dtype())));
  if (operands.residual) {
    dispatch.define("RLX_RESIDUAL", 1)
        .define("RLX_RESIDUAL_PITCH", *pixel_pitch(*operands.residual));
  }
}

void bind(DispatchBuilder<ConvMmaParams>& dispatch, const Operands& operands, ConvMmaForm form) {
  const uint32_t alignment = form == ConvMmaForm::Ring ? kChannelPieceBytes : 0;
  uint64_t bytes = byte_size(operands.y.type) + byte_size(operands.w.type) +
                   operands.x.byte_range().length_bytes;
  dispatch.read(&ConvMmaParams::x, operands.x, alignment)
      .read(&ConvMmaParams::w, operands.w, alignment);
  if (operands.bias) dispatch.read(&ConvMmaParams::bias, *operands.bias, kChannelPieceBytes);
  if (operands.residual) {
    dispatch.read(&ConvMmaParams::residual, *operands.residual, kChannelPieceBytes);
    bytes += byte_size(operands.residual->type);
    if (operands.residual->strides == operands.y.strides)
      dispatch.allow_in_place(*operands.residual);
  }
  dispatch.write(&ConvMmaParams::y, operands.y, kChannelPieceBytes);
  const auto outputs = static_cast<uint64_t>(element_count(operands.y.shape()));
  const auto depth =
      static_cast<uint64_t>(element_count(operands.w.shape()) / operands.w.shape()[0]);
  dispatch.work(bytes, 2 * outputs * depth);
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

void define_ring(DispatchBuilder<ConvMmaParams>& dispatch, const LowerContext& ctx,
                 const Convolution& conv) {
  const ConvProduct product{.m = conv.images * conv.window.out_count(),
                            .n = conv.group_out,
                            .k = conv.group_in * conv.window.taps(),
                            .element_bytes = element_bytes(conv.x.dtype()),
                            .has_residual = conv.residual.has_value()};
  const ConvTiling tiling = choose_conv_tiling(product, ctx.target().device);
  define_tile(dispatch, tiling.tile, tiling.stages, tiling.split);
  dispatch.define("RLX_PATCH", 0)
      .define("RLX_WGMMA", tiling.tile.by_groups ? 1 : 0)
      .workgroup({tiling.threads()})
      .grid(grid_of(tiling))
      .estimate([product, tiling](const DeviceModel& device) {
        return conv_microseconds(product, tiling, device);
      })
      .reason("tensor cores, channels last: " + tiling.text());
}

void define_patch(DispatchBuilder<ConvMmaParams>& dispatch, const LowerContext& ctx,
                  const Convolution& conv, const Operands& operands) {
  const PatchTiling tiling =
      choose_patch_tiling(conv.window, conv.images, conv.group_in, conv.group_out,
                          element_bytes(conv.x.dtype()), ctx.target().device)
          .value();
  define_tile(dispatch,
              {.tile_m = tiling.tile_h * tiling.tile_w,
               .tile_n = tiling.tile_n,
               .warps_m = tiling.warps_m,
               .warps_n = tiling.warps_n},
              1, 1);
  dispatch.define("RLX_PATCH", 1)
      .define("RLX_PATCH_CHANNELS", tiling.patch_channels)
      .define("RLX_TILE_H", tiling.tile_h)
      .define("RLX_TILE_W", tiling.tile_w)
      .define("RLX_X_C", operands.x.strides[1])
      .define("RLX_W_N", operands.w.strides[0])
      .define("RLX_W_C", operands.w.strides[1])
      .define("RLX_W_H", operands.w.strides[2])
      .define("RLX_W_W", operands.w.strides[3])
      .workgroup({tiling.threads()})
      .grid(static_cast<uint64_t>(tiling.groups))
      .reason("tensor cores: " + tiling.text());
}

}  // namespace

ConvMmaForm conv_mma_form(const Target& target, ProductPrecision products, const Graph& graph,
                          const Node& node) {
  const bool coop = target.offers(KernelId::matmul_coop);
  if (node.op != "conv" || !(coop || target.offers(KernelId::conv_mma)) || !is_one_group(node))
    return ConvMmaForm::None;
  const TensorType& x = graph.value(*node.inputs[0]).type;
  const TensorType& w = graph.value(*node.inputs[1]).type;
  const TensorType& y = graph.value(node.outputs[0]).type;
  const bool typed = x.dtype == DType::f16 || x.dtype == DType::bf16 ||
                     (x.dtype == DType::f32 && products == ProductPrecision::Tf32 && !coop);
  const bool ranked = x.shape.size() == 4 || (coop && x.shape.size() == 3);
  if (!typed || w.dtype != x.dtype || !ranked) return ConvMmaForm::None;
  const int64_t largest =
      std::max({element_count(x.shape), element_count(w.shape), element_count(y.shape)});
  if (element_count(y.shape) == 0 || element_count(w.shape) == 0 || largest > kRowLimit)
    return ConvMmaForm::None;
  const bool pieces = w.shape[1] * element_bytes(w.dtype) % kChannelPieceBytes == 0;
  if (!coop && pieces) return ConvMmaForm::Ring;
  Diagnostics diagnostics;
  NodeContext ctx(*find_op("conv"), node, diagnostics);
  const std::optional<Window> window = conv_window(ctx, x.shape, w.shape);
  if (!window) return ConvMmaForm::None;
  if (coop) {
    if (stays_dense(graph, node, *window, pieces) || !counts_in_32_bits(*window))
      return ConvMmaForm::None;
    return pieces ? ConvMmaForm::Pieces : ConvMmaForm::Elements;
  }
  const bool patched = choose_patch_tiling(*window, x.shape[0], w.shape[1], w.shape[0],
                                           element_bytes(x.dtype), target.device)
                           .has_value();
  return patched ? ConvMmaForm::Patch : ConvMmaForm::None;
}

std::string conv_mma_place_refusal(ConvMmaForm form, const TensorRef& place) {
  if (on_cooperative_matrices(form)) return "cooperative matrices write dense results";
  const std::optional<int64_t> pitch = pixel_pitch(place);
  if (!pitch) return "matrix units write images channels last";
  const uint32_t bytes = element_bytes(place.dtype());
  if (*pitch * bytes % kChannelPieceBytes != 0 || place.offset_bytes % kChannelPieceBytes != 0)
    return "matrix units write aligned pieces of 16 bytes";
  return {};
}

bool lower_conv_mma(LowerContext& ctx, ConvMmaForm form, const Convolution& conv) {
  const Operands operands = laid_out(ctx, form, conv);
  {
    auto dispatch = ctx.dispatch<KernelId::conv_mma>();
    define_problem(dispatch, ctx, conv, operands);
    bind(dispatch, operands, form);
    if (form == ConvMmaForm::Ring) {
      define_ring(dispatch, ctx, conv);
    } else {
      define_patch(dispatch, ctx, conv, operands);
    }
  }
  if (operands.y.buffer != conv.y.buffer) ctx.copy(operands.y, conv.y);
  return true;
}

}  // namespace rlx
