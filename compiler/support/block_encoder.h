// SPDX-License-Identifier: Apache-2.0
// Blocks from numbers, as GGML makes them without an importance matrix: the same bits (its
// reference quantizers of 2026-10). The arithmetic is f32, in their order, and must not be
// contracted.
#pragma once

#include <cstddef>
#include <span>

#include "compiler/support/dtype.h"

namespace rlx {

// True of the block types that encode_blocks makes.
bool can_encode(DType dtype);

// `values` are whole blocks of finite numbers, `blocks` the bytes for them. False where numbers
// were too large for the type's scales: the blocks do not stand for them then.
[[nodiscard]] bool encode_blocks(DType dtype, std::span<const float> values,
                                 std::span<std::byte> blocks);

}  // namespace rlx
