// SPDX-License-Identifier: Apache-2.0
// Inputs of fused_dequant_matmul, in their order.
#pragma once

#include <cstddef>

namespace rlx {

struct FusedDequantInput {
  static constexpr size_t kX = 0;
  static constexpr size_t kW = 1;
  static constexpr size_t kW2 = 2;
  static constexpr size_t kW3 = 3;
  static constexpr size_t kGamma = 4;
  static constexpr size_t kBias = 5;
  static constexpr size_t kResidual = 6;
  static constexpr size_t kCount = 7;
};

}  // namespace rlx
