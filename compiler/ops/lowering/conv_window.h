// SPDX-License-Identifier: Apache-2.0
// Sliding windows of conv and pool: `stride`, `pads`, `dilation` over one to three spatial dims
// (ops.md 9).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ops/op_def.h"

namespace rlx {

inline constexpr size_t kSpatialDims = 3;

// Dims before the given ones are of size 1: a 1-d window is a 3-d window of depth and height 1.
// Size: Dim, or a number. What does the most where it is least, as a kernel, is a number always:
// results are largest where the symbols are.
template <typename Size>
struct WindowOf {
  using Sizes = std::array<Size, kSpatialDims>;

  size_t rank = 0;  // spatial dims that the op has
  Sizes in{1, 1, 1};
  std::array<int64_t, kSpatialDims> kernel{1, 1, 1};
  std::array<int64_t, kSpatialDims> stride{1, 1, 1};
  Sizes begin{0, 0, 0};  // pads
  Sizes end{0, 0, 0};
  std::array<int64_t, kSpatialDims> dilation{1, 1, 1};
  Sizes out{1, 1, 1};

  [[nodiscard]] Size in_count() const { return in[0] * in[1] * in[2]; }
  [[nodiscard]] Size out_count() const { return out[0] * out[1] * out[2]; }
  [[nodiscard]] int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  // Output pixels are input pixels.
  [[nodiscard]] bool is_pointwise() const {
    return taps() == 1 && in == out && stride == decltype(stride){1, 1, 1} &&
           begin == Sizes{0, 0, 0};
  }
  // Sizes of the spatial dims that the op has.
  [[nodiscard]] Shape out_shape() const {
    return {out.end() - static_cast<int64_t>(rank), out.end()};
  }
};

using Window = WindowOf<Dim>;
using FixedWindow = WindowOf<int64_t>;

// For loops over numbers, which free sizes are not.
FixedWindow numbers_of(const Window& window);
// The window where the symbols are largest.
FixedWindow largest_of(const Window& window);
bool has_free_sizes(const Window& window);

enum class WindowRounding : uint8_t { Floor, Ceil };

// Reads the attributes for spatial sizes `in` and `kernel` and computes `out`. Reports wrong list
// lengths and windows that do not fit.
std::optional<Window> read_window(NodeContext& ctx, const Shape& in, const Ints& kernel,
                                  WindowRounding rounding);

// The size itself, which is no result's where it is below 1: a run that gives such a free size is
// refused, as the expression's parts are.
Dim size_of_result(const Dim& size);

// Strides of the three spatial dims of x [N, C, spatial..], 0 for dims that it lacks.
std::array<Dim, kSpatialDims> spatial_strides(const Strides& strides);

// "RLX_IN_D", "RLX_IN_H", "RLX_IN_W" and the same for KERNEL, STRIDE, BEGIN, DILATION and OUT.
template <typename Params>
void define_window(DispatchBuilder<Params>& dispatch, const Window& window) {
  constexpr std::array<const char*, kSpatialDims> kDims = {"_D", "_H", "_W"};
  for (size_t d = 0; d < kSpatialDims; ++d) {
    dispatch.size(std::string("RLX_IN") + kDims[d], window.in[d])
        .define(std::string("RLX_KERNEL") + kDims[d], window.kernel[d])
        .define(std::string("RLX_STRIDE") + kDims[d], window.stride[d])
        .size(std::string("RLX_BEGIN") + kDims[d], window.begin[d])
        .define(std::string("RLX_DILATION") + kDims[d], window.dilation[d])
        .size(std::string("RLX_OUT") + kDims[d], window.out[d]);
  }
}

// Where the window of an image begins and goes on: "RLX_X_N", "RLX_X_H", "RLX_X_W", and of volumes
// [N, C, D, H, W] "RLX_X_D" beside "RLX_VOLUMES" 1. Images have two spatial dims or three.
template <typename Params>
void define_image(DispatchBuilder<Params>& dispatch, const Strides& strides) {
  const std::array<Dim, kSpatialDims> spatial = spatial_strides(strides);
  dispatch.size("RLX_X_N", strides[0]).size("RLX_X_H", spatial[1]).size("RLX_X_W", spatial[2]);
  if (strides.size() == 2 + kSpatialDims)
    dispatch.define("RLX_VOLUMES", 1).size("RLX_X_D", spatial[0]);
}

}  // namespace rlx
