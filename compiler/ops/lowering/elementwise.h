// SPDX-License-Identifier: Apache-2.0
// What the elementwise ops share: operand checks, broadcasting loops of the evaluator, expression
// templates.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/op_def.h"

namespace rlx {

// The dtypes an elementwise op takes. Element: every type but blocks; the 8-bit floats are in it
// alone, c64 also in the sets that name it.
enum class DTypeSet : uint8_t {
  Float,
  FloatOrComplex,
  Integer,
  Bool,
  Number,
  NumberOrBool,
  NumberOrComplex,
  NumberBoolOrComplex,
  Element
};
bool contains(DTypeSet set, DType dtype);
// Checks input i against a set; the error names the dtype and what was wanted.
bool check_dtype(InferContext& ctx, size_t i, DTypeSet set);
// Checks that the present inputs from `first` on have one dtype.
bool check_equal_dtypes(InferContext& ctx, size_t first = 0);
// The broadcast shape of all present inputs, or a diagnostic.
std::optional<Shape> infer_broadcast(InferContext& ctx);

// Calls visit(o, indices) for each element o of `shape`, where indices[k] is the element of operand
// k that broadcasts to it.
void for_each_broadcast(const Shape& shape, const std::vector<const Shape*>& operands,
                        const std::function<void(int64_t, const int64_t*)>& visit);

// True where the op's expression for f64 needs nothing but lib/scalar; others call lib/math64.
bool has_plain_double_form(std::string_view op);

// The value modulo 2^n as integer dtype holds it; bool: value != 0.
int64_t wrap_integer(DType dtype, int64_t value);
// Element as f64, whatever the tensor holds.
double real_at(const Tensor& tensor, int64_t i);

// Fills a template: "$0" is operand 0, "{alpha}" the float attribute alpha, "{0.5}" a number, both
// as literals of operand 0's dtype,
// "{bits}" the width of the result's dtype as an int.
std::string fill_template(std::string_view text, const ScalarContext& ctx);

// Values of the op's float attributes, in the order of `attrs`, rounded to the type that `dtype`
// computes in (f64, else f32), as kernels hold them; other types of attributes give 0.
std::vector<double> float_attributes(std::span<const AttrSpec> attrs, const AttributeReader& reader,
                                     DType dtype);

}  // namespace rlx
