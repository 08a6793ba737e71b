// SPDX-License-Identifier: Apache-2.0
// Large products of 16-bit operands, plain or as a gated pair, by the matmul_wgmma kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// y = act(a * b + bias) + residual, or act(a * b + bias) * (a * second + second_bias) + residual.
struct TiledProduct {
  Product product;  // in the normal form of lower_product: batch dims merged and folded
  std::optional<ProductOperand> second = {};
  std::optional<AddedOperand> second_bias = {};
};

// What the choice of tiles depends on.
struct TiledSize {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool gated = false;
  bool residual = false;
  bool heavy_activation = false;  // tens of operations per element: erf, tanh
};

// Why the kernel cannot take the product, or gains nothing by its size; empty where it can.
std::string wgmma_refusal(const LowerContext& ctx, const TiledProduct& tiled);
// Whether products of lines and rows that are dense and aligned, alone or in a pair, are for the
// kernel.
bool wgmma_takes(const Target& target, int64_t m, int64_t n, int64_t k, DType dtype);
// An activation of tens of operations per element, as TiledSize has it.
bool is_heavy_activation(const std::string& op);
// What the kernel is expected to take on a device of the target's model.
double wgmma_microseconds(const Target& target, const TiledSize& size);
TiledSize tiled_size(const TiledProduct& tiled);
// Emits the one dispatch. Precondition: no refusal.
void emit_wgmma(LowerContext& ctx, const TiledProduct& tiled);

}  // namespace rlx
