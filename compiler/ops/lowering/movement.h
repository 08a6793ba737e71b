// SPDX-License-Identifier: Apache-2.0
// What the data-movement ops share: views, copies on the host, and raw element types of the device.
#pragma once

#include <string>
#include <string_view>

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// to[i] = from[offset + sum(index * stride)] over to's shape; bits are kept, magnitudes are not.
// Both hold one dtype.
void copy_strided(const Tensor& from, int64_t offset_elements, const Strides& strides, Tensor& to);

// A view op's infer has refused block types before: they have no element strides.
bool refuse_block_type(InferContext& ctx, DType dtype);

// True where `dtype` holds the number that attribute `name` gives, floats after rounding; the error
// names the attribute otherwise. Whole numbers beyond 2^53 do not fit a real attribute.
bool check_filling(InferContext& ctx, DType dtype, std::string_view name);
// A number as a host tensor of `dtype` holds it: floats rounded to the dtype, the code of an 8-bit
// float, the bits of a c64 without imaginary part.
double held_number(DType dtype, double value);
// That number as `dtype` holds it, as its text in a kernel, and as an element of a host tensor.
double filling(const AttributeReader& attrs, DType dtype, std::string_view name);
std::string filling_text(const AttributeReader& attrs, DType dtype, std::string_view name);
void set_element(Tensor& tensor, int64_t i, double value);

// "u8", "u16", "u32", "i64": the storage type whose loads and stores keep every bit of an element
// of `dtype`.
std::string raw_type(DType dtype);

// "#define name <64-bit literal>" for a generated include: GLSL takes such literals only after the
// prelude's extensions.
std::string wide_define(const std::string& name, const Dim& value);

// A number for generated code, with the suffix that 64-bit literals want; GLSL takes that behind
// the prelude's extensions alone, as in generated includes.
std::string number_text(const Dim& value);

// A view of `x` shifted by whole elements.
TensorRef shifted(TensorRef x, const Dim& elements);

// Whether two views of one type are the same bytes in the same order: strides of axes of size 1 say
// nothing.
bool is_same_place(const TensorRef& a, const TensorRef& b);

// Copies `view`, of any rank, to output 0, whose elements it holds in row-major order. False, with
// nothing done, where the output's strides do not split into the view's shape.
bool copy_to_output(LowerContext& ctx, const TensorRef& view);

inline constexpr uint32_t kCopyWorkgroup = 256;

}  // namespace rlx
