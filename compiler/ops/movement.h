// SPDX-License-Identifier: Apache-2.0
// What the data-movement ops share: views, copies on the host, and raw element types of the device.
#pragma once

#include <string>

#include "compiler/ops/lower_context.h"

namespace rlx {

// to[i] = from[offset + sum(index * stride)] over to's shape; bits are kept, magnitudes are not.
// Both hold one dtype.
void copy_strided(const Tensor& from, int64_t offset_elements, const Strides& strides, Tensor& to);

// A view op's infer has refused block types before: they have no element strides.
bool refuse_block_type(InferContext& ctx, DType dtype);

// "u8", "u16", "u32", "i64": the storage type whose loads and stores keep every bit of an element
// of `dtype`.
std::string raw_type(DType dtype);

// "rlx_u32" where every index below `count` fits 31 bits, else "rlx_u64".
std::string index_type(uint64_t count);

// "#define name <64-bit literal>" for a generated include: GLSL takes such literals only after the
// prelude's extensions.
std::string wide_define(const std::string& name, int64_t value);

// A view of `x` shifted by whole elements.
TensorRef shifted(TensorRef x, int64_t elements);

inline constexpr uint32_t kCopyWorkgroup = 256;

}  // namespace rlx
