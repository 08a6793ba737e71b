// SPDX-License-Identifier: Apache-2.0
// Index outputs: their dtypes and their writing by the evaluator.
#include "compiler/ops/lowering/index_output.h"

namespace rlx {

bool check_index_dtype(InferContext& ctx) {
  const DType dtype = ctx.attrs().dtype("index_dtype");
  if (dtype == DType::i32 || dtype == DType::i64 || dtype == DType::u32 || dtype == DType::f32) {
    return true;
  }
  return ctx.fail(DiagCode::BadAttribute, "index_dtype is " + std::string(name_of(dtype)) +
                                              ", wanted i32, i64, u32 or f32");
}

void set_index(Tensor& indices, size_t at, int64_t index) {
  if (indices.is_float()) {
    indices.floats[at] = static_cast<double>(index);
  } else {
    indices.integers[at] = indices.type.dtype == DType::u32 ? index & 0xFFFFFFFF : index;
  }
}

}  // namespace rlx
