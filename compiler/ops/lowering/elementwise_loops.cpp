// SPDX-License-Identifier: Apache-2.0
// Loops over several strided tensors of one shape, with as few loops as their strides allow.
#include "compiler/ops/lowering/elementwise_loops.h"

namespace rlx {

LoopNest coalesce_loops(const Shape& shape, const std::vector<Strides>& strides) {
  LoopNest nest;
  nest.strides.resize(strides.size());
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    bool joins = !nest.sizes.empty();
    for (size_t k = 0; k < strides.size() && joins; ++k) {
      joins = nest.strides[k].back() == strides[k][axis] * shape[axis];
    }
    if (joins) {
      nest.sizes.back() *= shape[axis];
    } else {
      nest.sizes.push_back(shape[axis]);
    }
    for (size_t k = 0; k < strides.size(); ++k) {
      if (joins) {
        nest.strides[k].back() = strides[k][axis];
      } else {
        nest.strides[k].push_back(strides[k][axis]);
      }
    }
  }
  return nest;
}

}  // namespace rlx
