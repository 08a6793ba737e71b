// SPDX-License-Identifier: Apache-2.0
// Loops over several strided tensors of one shape, with as few loops as their strides allow.
#pragma once

#include <vector>

#include "compiler/support/shape.h"

namespace rlx {

struct LoopNest {
  Shape sizes;                   // outermost first, no size 1
  std::vector<Strides> strides;  // per tensor, one stride per loop
};

// Drops axes of size 1 and joins neighbours that every tensor steps through evenly. `strides`: one
// list per tensor.
LoopNest coalesce_loops(const Shape& shape, const std::vector<Strides>& strides);

}  // namespace rlx
