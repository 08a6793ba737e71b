// SPDX-License-Identifier: Apache-2.0
// What the ops on block-typed weights share: the defines of lib/blocks.inc and decoding on the
// host.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/support/blocks.h"

namespace rlx {

// Types whose elements share scales (ops.md 0.10), other than 8-bit floats.
inline bool is_block_type(DType dtype) {
  return block_elements(dtype) != 1;
}

// Elements that a thread decodes at once (lib/blocks.inc).
inline constexpr int64_t kPieceElements = 32;

// Bytes to whose multiple every block of a dense tensor is aligned; the loads rely on it.
inline uint32_t block_alignment(DType dtype) {
  return std::gcd(block_bytes(dtype), 16u);
}

// The specializations of lib/blocks.inc.
template <typename Params>
void define_blocks(DispatchBuilder<Params>& dispatch, DType dtype) {
  dispatch.define("RLX_W_" + std::string(name_of(dtype)), 1)
      .define("RLX_W_ELEMENTS", block_elements(dtype))
      .define("RLX_W_BYTES", block_bytes(dtype));
}

// Every element of a block-typed tensor, row-major, as the sum of its two terms.
std::vector<BlockElement> decode_blocks(const Tensor& tensor);

}  // namespace rlx
