// SPDX-License-Identifier: Apache-2.0
// The integer types in which kernels count and address.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "compiler/support/dim.h"

namespace rlx {

// What a kernel does with such numbers. The rule is one: a type has 32 bits, as GPUs compute with
// them in one instruction, where the farthest number keeps so far below the type's end that what
// the kernel adds to it fits too; else it has 64.
enum class IndexUse : uint8_t {
  Linear,      // numbers of elements, from 0 on, that threads divide: unsigned, below 2^31
  Offset,      // offsets of strides of either sign, in whole tiles: at most kCountLimit
  Padded,      // offsets and counters that grow by whole workgroups of rows: below 2^30
  Place,       // positions of index tensors, unsigned as Padded; 64 bits are signed, as indices are
  Coordinate,  // sums of a few coordinates of either sign: below 2^29
};

// The largest that one of the sizes may be.
int64_t most_of(std::initializer_list<Dim> sizes);
// True where numbers up to `farthest` (>= 0) need 64 bits.
bool is_wide_index(IndexUse use, int64_t farthest);
// The text of the type for them: "rlx_u32", "rlx_i64", ...
std::string index_type(IndexUse use, int64_t farthest);

}  // namespace rlx
