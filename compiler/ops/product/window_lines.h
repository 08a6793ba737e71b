// SPDX-License-Identifier: Apache-2.0
// Products whose left lines are windows of images, as convolutions give them to product kernels.
#pragma once

#include "compiler/ops/lowering/conv_window.h"

namespace rlx {

// The lines of a are windows of two or three spatial dims instead of rows of a matrix; their depths
// count taps (d, h, w), each with all channels.
struct WindowLines {
  Window window;
  // Channels are neighbours, each pixel is whole aligned pieces: of 16 bytes for matmul_coop
  // (shaders/vulkan/lib/window_lines.glsl), of four elements for matmul_lanes.
  bool in_pieces = false;
  // More than 1 (matmul_coop): the entries of the product's batch are bundles of so many groups of
  // channels, and b [n, k / bundled] has each filter's own group alone.
  int64_t bundled = 1;
  // Of an alternate (matmul_coop): tiles are chosen for the most lines alone.
  bool is_part = false;
};

}  // namespace rlx
