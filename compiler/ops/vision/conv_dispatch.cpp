// SPDX-License-Identifier: Apache-2.0
// What the kernels of convolutions without matrix units are told alike.
#include "compiler/ops/vision/conv_dispatch.h"

#include <algorithm>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {
namespace {

// Whether the pixels of each channel stand one after the other.
bool has_dense_planes(const TensorRef& ref) {
  return pixel_stride(ref) == 1;
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

}  // namespace

Dim plane_stride(const TensorRef& ref) {
  return ref.shape()[1] == 1 ? Dim(0) : ref.strides[1];
}
Dim image_stride(const TensorRef& ref) {
  return ref.shape()[0] == 1 ? Dim(0) : ref.strides[0];
}

void define_convolution(ConvDispatch& dispatch, const Convolution& conv) {
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
}

void define_planar_epilogue(ConvDispatch& dispatch, const Convolution& conv) {
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

Dim bytes_of(const Convolution& conv) {
  Dim bytes = byte_size(conv.y.type);
  if (depth_of(conv) > 0) bytes += conv.x.byte_range().length_bytes + byte_size(conv.w.type);
  if (conv.bias) bytes += conv.bias->byte_range().length_bytes;
  if (conv.residual) bytes += byte_size(conv.residual->type);
  return bytes;
}

Dim flops_of(const Convolution& conv) {
  return 2 * element_count(conv.y.shape()) * depth_of(conv);
}

void bind_convolution(ConvDispatch& dispatch, const Convolution& conv,
                      const ConvAlignments& alignments) {
  if (depth_of(conv) > 0)
    dispatch.read(&ConvParams::x, conv.x, alignments.x).read(&ConvParams::w, conv.w, alignments.w);
  if (conv.bias) dispatch.read(&ConvParams::bias, *conv.bias, alignments.bias);
  if (conv.residual) dispatch.read(&ConvParams::residual, *conv.residual, alignments.residual);
  dispatch.write(&ConvParams::y, conv.y, alignments.y);
  dispatch.work(bytes_of(conv), flops_of(conv));
}

bool check_counts(LowerContext& ctx, const Convolution& conv) {
  const Dim columns = conv.images * conv.window.out_count();
  const Dim tiles = ceil_div(columns, 16) * ceil_div(conv.group_out, 16);
  const Dim channels = conv.groups * conv.group_out;
  const std::array<Dim, kSpatialDims>& in = conv.window.in;
  if (most_of({columns, tiles, depth_of(conv), channels, in[0], in[1], in[2]}) <= kCountLimit)
    return true;
  return ctx.fail(DiagCode::UnsupportedOp, "a convolution of " + to_string(columns) +
                                               " output pixels, " + to_string(channels) +
                                               " channels and depth " + to_string(depth_of(conv)) +
                                               " exceeds the kernels' 32-bit counts");
}

bool has_channel_vectors(const TensorRef& ref) {
  for (size_t i = 0; i < ref.strides.size(); ++i) {
    if (ref.shape()[i] == 1) continue;
    if (i == 1 ? ref.strides[i] != 1 : !ref.strides[i].divides_by(kChannelVector)) return false;
  }
  return ref.shape()[1].divides_by(kChannelVector);
}

uint32_t channel_vector_bytes(const TensorRef& ref) {
  return static_cast<uint32_t>(kChannelVector) * element_bytes(ref.dtype());
}

std::optional<Convolution> in_planes(LowerContext& ctx, Convolution conv) {
  conv.w = ctx.dense(conv.w);
  if (conv.residual && !has_dense_planes(*conv.residual)) conv.residual = ctx.dense(*conv.residual);
  if (!check_counts(ctx, conv)) return std::nullopt;
  return conv;
}

std::string planes_place_refusal(const TensorRef& place) {
  if (!has_dense_planes(place)) return "conv writes planes of dense pixels here";
  if (most_of({place.strides[0], place.strides[1]}) > kCountLimit)
    return "conv writes within 32-bit strides";
  return {};
}

}  // namespace rlx
