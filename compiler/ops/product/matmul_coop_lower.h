// SPDX-License-Identifier: Apache-2.0
// The kernel matmul_coop: products on cooperative matrices.
#pragma once

#include <optional>
#include <string>

#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// Why the product cannot be computed so; empty where it can.
std::string coop_refusal(const LowerContext& ctx, const Product& product);
// Emits the dispatch, and the one that joins sums where k is split. Precondition: coop_refusal is
// empty.
void emit_coop(LowerContext& ctx, const Product& product);

// The lines of a are windows of two spatial dims (shaders/vulkan/lib/window_lines.glsl) instead of
// rows of a matrix.
struct WindowLines {
  Window window;
  bool in_pieces =
      false;  // channels are neighbours, each pixel is whole aligned pieces of 16 bytes
};
// The same where product.a.ref is an image [N, C, H, W] and b [n, taps * C] is dense and aligned to
// 16 bytes; a's strides are not read.
void emit_coop(LowerContext& ctx, const Product& product, const WindowLines& lines);

}  // namespace rlx
