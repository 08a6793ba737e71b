// SPDX-License-Identifier: Apache-2.0
// Strides of channels-last values.
#include "compiler/ops/lowering/channels_last.h"

#include "compiler/support/check.h"

namespace rlx {

Strides channels_last_strides(const Shape& shape) {
  RLX_CHECK(shape.size() == 4, "channels last of " + to_string(shape));
  return {shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1]};
}

std::optional<Dim> pixel_pitch(const TensorRef& ref) {
  const Shape& shape = ref.shape();
  if (shape.size() != 4) return std::nullopt;
  if (shape[1] > 1 && ref.strides[1] != 1) return std::nullopt;
  const TensorType pixels{ref.dtype(), {shape[0], shape[2], shape[3]}};
  const Strides strides = {ref.strides[0], ref.strides[2], ref.strides[3]};
  const auto rows = reshape_strides(pixels.shape, strides, {element_count(pixels.shape)});
  if (!rows) return std::nullopt;
  // A single pixel has no neighbour.
  return element_count(pixels.shape) == 1 ? shape[1] : rows->front();
}

std::optional<Dim> pixel_stride(const TensorRef& ref) {
  const Shape spatial(ref.shape().begin() + 2, ref.shape().end());
  const Strides strides(ref.strides.begin() + 2, ref.strides.end());
  if (element_count(spatial) == 1) return Dim(1);
  const auto flat = reshape_strides(spatial, strides, {element_count(spatial)});
  if (!flat) return std::nullopt;
  return flat->front();
}

}  // namespace rlx
