// SPDX-License-Identifier: Apache-2.0
// Shapes and strides of tensors, of sizes that are numbers or depend on symbols.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/dim.h"
#include "compiler/support/dtype.h"

namespace rlx {

using Shape = std::vector<Dim>;    // sizes, all >= 0, rank <= kMaxRank
using Strides = std::vector<Dim>;  // in elements, may be 0 or negative

struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const TensorType&) const = default;
};

Dim element_count(const Shape& shape);  // 1 for rank 0
// Bytes of a dense tensor. The last dim of a block type must hold whole blocks; rank 0 holds one
// element.
Dim byte_size(const TensorType& type);
Strides dense_strides(const Shape& shape);
bool is_dense(const Shape& shape, const Strides& strides);
// NumPy broadcasting; nullopt where the shapes do not agree.
std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b);
// Strides that read a tensor of `shape`/`strides` as `target` (right-aligned, stride 0 where
// broadcast). Precondition: it broadcasts to `target`.
Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target);
// Strides of the same elements under a new shape, where no copy is needed; nullopt otherwise.
// Counts must agree.
std::optional<Strides> reshape_strides(const Shape& shape, const Strides& strides,
                                       const Shape& target);
std::string to_string(const Shape& shape);      // "[2, 3]"
std::string to_string(const TensorType& type);  // "f32[2, 3]"

}  // namespace rlx
