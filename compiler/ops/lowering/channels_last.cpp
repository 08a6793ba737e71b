// SPDX-License-Identifier: Apache-2.0
// Strides of channels-last values.
#include "compiler/ops/lowering/channels_last.h"

#include "compiler/support/check.h"

namespace rlx {

Strides channels_last_strides(const Shape& shape) {
  RLX_CHECK(shape.size() >= 3, "channels last of " + to_string(shape));
  Strides strides(shape.size(), 1);
  Dim step = shape[1];
  for (size_t d = shape.size() - 1; d >= 2; --d) {
    strides[d] = step;
    step = step * shape[d];
  }
  strides[0] = step;
  return strides;
}

std::optional<Dim> pixel_pitch(const TensorRef& ref) {
  const Shape& shape = ref.shape();
  if (shape.size() < 3) return std::nullopt;
  if (shape[1] > 1 && ref.strides[1] != 1) return std::nullopt;
  Shape pixels = shape;
  Strides strides = ref.strides;
  pixels.erase(pixels.begin() + 1);
  strides.erase(strides.begin() + 1);
  const auto rows = reshape_strides(pixels, strides, {element_count(pixels)});
  if (!rows) return std::nullopt;
  // A single pixel has no neighbour.
  return element_count(pixels) == 1 ? shape[1] : rows->front();
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
