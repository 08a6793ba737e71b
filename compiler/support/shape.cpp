// SPDX-License-Identifier: Apache-2.0
// Shape and stride arithmetic.
#include "compiler/support/shape.h"

#include <algorithm>

#include "compiler/support/check.h"

namespace rlx {

Dim element_count(const Shape& shape) {
  Dim count = 1;
  int64_t at_bound = 1;
  for (const Dim& dim : shape) {
    RLX_CHECK(dim >= 0 && !__builtin_mul_overflow(at_bound, dim.bound(), &at_bound),
              "shape " + to_string(shape));
    count *= dim;
  }
  return count;
}

Dim byte_size(const TensorType& type) {
  const Dim count = element_count(type.shape);
  RLX_CHECK(count.divides_by(block_elements(type.dtype)), "whole blocks in " + to_string(type));
  return count / block_elements(type.dtype) * block_bytes(type.dtype);
}

Strides dense_strides(const Shape& shape) {
  Strides strides(shape.size());
  Dim stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= max(shape[i], 1);
  }
  return strides;
}

bool is_dense(const Shape& shape, const Strides& strides) {
  Dim expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= max(shape[i], 1);
  }
  return true;
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const Dim y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  RLX_CHECK(shape.size() <= target.size(), to_string(shape) + " to " + to_string(target));
  Strides result(target.size(), 0);
  const size_t lead = target.size() - shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    RLX_CHECK(shape[i] == target[lead + i] || shape[i] == 1,
              to_string(shape) + " to " + to_string(target));
    if (shape[i] == target[lead + i] && shape[i] != 1) result[lead + i] = strides[i];
  }
  return result;
}

std::optional<Strides> reshape_strides(const Shape& shape, const Strides& strides,
                                       const Shape& target) {
  RLX_CHECK(element_count(shape) == element_count(target),
            to_string(shape) + " to " + to_string(target));
  if (element_count(shape) == 0) return dense_strides(target);
  Shape from;
  Strides from_strides;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    from.push_back(shape[i]);
    from_strides.push_back(strides[i]);
  }
  Strides result(target.size(), 1);
  size_t from_first = 0;
  size_t to_first = 0;
  while (from_first < from.size() && to_first < target.size()) {
    // Grow the two groups of dims until they hold as many elements.
    size_t from_end = from_first + 1;
    size_t to_end = to_first + 1;
    Dim from_count = from[from_first];
    Dim to_count = target[to_first];
    while (from_count != to_count) {
      // Counts that the run gives may compare either way while one divides the other.
      const bool may_grow_from = from_end < from.size();
      const bool may_grow_to = to_end < target.size();
      if (!may_grow_from && !may_grow_to) return std::nullopt;
      const bool grow_from = may_grow_from && (!may_grow_to || from_count < to_count);
      if (grow_from) {
        from_count *= from[from_end++];
      } else {
        to_count *= target[to_end++];
      }
    }
    for (size_t i = from_first; i + 1 < from_end; ++i) {
      if (from_strides[i] != from_strides[i + 1] * from[i + 1]) return std::nullopt;
    }
    Dim stride = from_strides[from_end - 1];
    for (size_t i = to_end; i-- > to_first;) {
      result[i] = stride;
      stride *= target[i];
    }
    from_first = from_end;
    to_first = to_end;
  }
  return result;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += to_string(shape[i]);
  }
  return text + "]";
}

std::string to_string(const TensorType& type) {
  return std::string(name_of(type.dtype)) + to_string(type.shape);
}

}  // namespace rlx
