// SPDX-License-Identifier: Apache-2.0
// Shared parts of the data-movement ops.
#include "compiler/ops/movement.h"

#include <limits>

#include "compiler/support/check.h"

namespace rlx {
namespace {

template <typename T>
void copy_elements(const std::vector<T>& from, int64_t offset, const Strides& strides,
                   const Shape& shape, std::vector<T>& to) {
  Shape index(shape.size(), 0);
  for (T& element : to) {
    element = from.at(static_cast<size_t>(offset));
    for (size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

void copy_strided(const Tensor& from, int64_t offset_elements, const Strides& strides, Tensor& to) {
  copy_elements(from.floats, offset_elements, strides, to.type.shape, to.floats);
  copy_elements(from.integers, offset_elements, strides, to.type.shape, to.integers);
}

bool refuse_block_type(InferContext& ctx, DType dtype) {
  if (block_elements(dtype) == 1) return true;
  return ctx.fail(DiagCode::BadDtype, "input is " + std::string(name_of(dtype)) +
                                          ", wanted a type whose elements can be moved one by one");
}

std::string raw_type(DType dtype) {
  switch (element_bytes(dtype)) {
    case 1:
      return "u8";
    case 2:
      return "u16";
    case 4:
      return "u32";
    default:
      return "i64";
  }
}

std::string index_type(uint64_t count) {
  return count < (uint64_t{1} << 31) ? "rlx_u32" : "rlx_u64";
}

std::string wide_define(const std::string& name, int64_t value) {
  // The lowest value has no literal of its own sign.
  if (value == std::numeric_limits<int64_t>::min()) {
    return "#define " + name + " (-9223372036854775807l - 1l)\n";
  }
  return "#define " + name + " (" + std::to_string(value) + "l)\n";
}

TensorRef shifted(TensorRef x, int64_t elements) {
  const int64_t offset = static_cast<int64_t>(x.offset_bytes) + elements * element_bytes(x.dtype());
  RLX_CHECK(offset >= 0, "view before its buffer");
  x.offset_bytes = static_cast<uint64_t>(offset);
  return x;
}

}  // namespace rlx
