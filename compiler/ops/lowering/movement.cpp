// SPDX-License-Identifier: Apache-2.0
// Shared parts of the data-movement ops.
#include "compiler/ops/lowering/movement.h"

#include <cmath>
#include <limits>

#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/support/blocks.h"
#include "compiler/support/check.h"
#include "compiler/support/complex_bits.h"

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

bool check_filling(InferContext& ctx, DType dtype, std::string_view name) {
  const std::string text = std::string(name_of(dtype));
  if (block_elements(dtype) != 1) {
    return ctx.fail(DiagCode::BadDtype,
                    "blocks of " + text + " are not filled, wanted a type of single elements");
  }
  const double value = ctx.attrs().real(name);
  if (!is_integer(dtype)) return true;
  const IntegerRange range = integer_range(dtype);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const bool fits = value == std::trunc(value) && value >= static_cast<double>(range.lowest) &&
                    value <= static_cast<double>(range.highest);
  if (fits && std::fabs(value) <= kExact) return true;
  return ctx.fail(DiagCode::BadAttribute,
                  std::string(name) + " " + std::to_string(value) + " is no value of " + text +
                      (fits ? " that a real attribute holds exactly" : ""),
                  fits ? "give it as a constant" : "");
}

double held_number(DType dtype, double value) {
  if (dtype == DType::bool_) return value != 0 ? 1 : 0;  // NaN is true
  if (is_float8(dtype)) return float8_from_double(dtype, value, true);
  if (dtype == DType::c64) return static_cast<double>(complex_to_bits(value));
  return is_float(dtype) ? round_to(dtype, value) : value;
}

double filling(const AttributeReader& attrs, DType dtype, std::string_view name) {
  return held_number(dtype, attrs.real(name));
}

std::string filling_text(const AttributeReader& attrs, DType dtype, std::string_view name) {
  return literal(dtype, filling(attrs, dtype, name));
}

void set_element(Tensor& tensor, int64_t i, double value) {
  if (tensor.is_float()) {
    tensor.floats[static_cast<size_t>(i)] = value;
  } else {
    tensor.integers[static_cast<size_t>(i)] = static_cast<int64_t>(value);
  }
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

std::string wide_define(const std::string& name, const Dim& number) {
  if (number.is_free()) return "#define " + name + " (rlx_i64(" + size_text(number) + "))\n";
  const int64_t value = number.bound();
  // The lowest value has no literal of its own sign.
  if (value == std::numeric_limits<int64_t>::min()) {
    return "#define " + name + " (-9223372036854775807l - 1l)\n";
  }
  return "#define " + name + " (" + std::to_string(value) + "l)\n";
}

bool copy_to_output(LowerContext& ctx, const TensorRef& view) {
  TensorRef y = ctx.output(0);
  auto strides = reshape_strides(y.shape(), y.strides, view.shape());
  if (!strides) return false;
  y.type = view.type;
  y.strides = std::move(*strides);
  ctx.copy(view, y);
  return true;
}

std::string number_text(const Dim& number) {
  if (number.is_free()) return size_text(number);
  const int64_t value = number.bound();
  const bool narrow = value >= -0x7FFFFFFF && value <= 0x7FFFFFFF;
  return std::to_string(value) + (narrow ? "" : "l");
}

TensorRef shifted(TensorRef x, const Dim& elements) {
  x.offset_bytes += elements * element_bytes(x.dtype());
  RLX_CHECK(x.offset_bytes >= 0, "view before its buffer");
  return x;
}

bool is_same_place(const TensorRef& a, const TensorRef& b) {
  if (a.buffer != b.buffer || a.offset_bytes != b.offset_bytes) return false;
  for (size_t axis = 0; axis < a.shape().size(); ++axis) {
    if (a.shape()[axis] != 1 && a.strides[axis] != b.strides[axis]) return false;
  }
  return true;
}

}  // namespace rlx
