// SPDX-License-Identifier: Apache-2.0
// What the elementwise ops share: operand checks, broadcasting loops of the evaluator, expression
// templates.
#include "compiler/ops/lowering/elementwise.h"

#include <cctype>
#include <charconv>

#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

std::string_view text_of(DTypeSet set) {
  static constexpr std::array<std::string_view, 9> kTexts = {
      "f32, f16, bf16 or f64",
      "f32, f16, bf16, f64 or c64",
      "an integer dtype",
      "bool",
      "a float or integer dtype",
      "a float, integer or bool dtype",
      "a float or integer dtype or c64",
      "a float, integer or bool dtype or c64",
      "a type whose elements can be taken one by one"};
  return kTexts.at(static_cast<size_t>(set));
}

double parse_number(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  RLX_CHECK(result.ec == std::errc() && result.ptr == text.data() + text.size(),
            "number in an expression template: " + std::string(text));
  return value;
}

std::string fill_braces(std::string_view name, const ScalarContext& ctx) {
  if (name == "bits") return std::to_string(element_bytes(ctx.result_dtype()) * 8);
  const bool number = std::isdigit(static_cast<unsigned char>(name.front())) || name.front() == '-';
  return literal(ctx.operand_dtype(0), number ? parse_number(name) : ctx.attrs().real(name));
}

}  // namespace

bool contains(DTypeSet set, DType dtype) {
  switch (set) {
    case DTypeSet::Float:
      return is_float(dtype);
    case DTypeSet::FloatOrComplex:
      return is_float(dtype) || dtype == DType::c64;
    case DTypeSet::Integer:
      return is_integer(dtype);
    case DTypeSet::Bool:
      return dtype == DType::bool_;
    case DTypeSet::Number:
      return is_float(dtype) || is_integer(dtype);
    case DTypeSet::NumberOrBool:
      return is_float(dtype) || is_integer(dtype) || dtype == DType::bool_;
    case DTypeSet::NumberOrComplex:
      return is_float(dtype) || is_integer(dtype) || dtype == DType::c64;
    case DTypeSet::NumberBoolOrComplex:
      return contains(DTypeSet::NumberOrComplex, dtype) || dtype == DType::bool_;
    case DTypeSet::Element:
      return block_elements(dtype) == 1;
  }
  return false;
}

bool check_dtype(InferContext& ctx, size_t i, DTypeSet set) {
  const DType dtype = ctx.dtype(i);
  if (contains(set, dtype)) return true;
  return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(i) + " has dtype " +
                                          std::string(name_of(dtype)) + ", wanted " +
                                          std::string(text_of(set)));
}

bool check_equal_dtypes(InferContext& ctx, size_t first) {
  for (size_t i = first + 1; i < ctx.input_count(); ++i) {
    if (!ctx.has_input(i) || ctx.dtype(i) == ctx.dtype(first)) continue;
    return ctx.fail(DiagCode::BadDtype,
                    "input " + std::to_string(first) + " has dtype " +
                        std::string(name_of(ctx.dtype(first))) + " and input " + std::to_string(i) +
                        " has " + std::string(name_of(ctx.dtype(i))) + ", wanted equal dtypes",
                    "insert a cast");
  }
  return true;
}

std::optional<Shape> infer_broadcast(InferContext& ctx) {
  Shape shape = ctx.shape(0);
  for (size_t i = 1; i < ctx.input_count(); ++i) {
    if (!ctx.has_input(i)) continue;
    const std::optional<Shape> both = broadcast_shapes(shape, ctx.shape(i));
    if (!both) {
      ctx.fail(DiagCode::BadShape, "shape " + to_string(ctx.shape(i)) + " of input " +
                                       std::to_string(i) + " does not broadcast with " +
                                       to_string(shape) + " of the inputs before it");
      return std::nullopt;
    }
    shape = *both;
  }
  return shape;
}

void for_each_broadcast(const Shape& shape, const std::vector<const Shape*>& operands,
                        const std::function<void(int64_t, const int64_t*)>& visit) {
  std::vector<Strides> strides;
  for (const Shape* operand : operands) {
    strides.push_back(broadcast_strides(*operand, dense_strides(*operand), shape));
  }
  std::vector<int64_t> indices(operands.size(), 0);
  std::vector<int64_t> position(shape.size(), 0);
  const int64_t count = element_count(shape);
  for (int64_t i = 0; i < count; ++i) {
    visit(i, indices.data());
    for (size_t axis = shape.size(); axis-- > 0;) {
      ++position[axis];
      const bool wraps = position[axis] == shape[axis];
      for (size_t k = 0; k < operands.size(); ++k) {
        indices[k] += strides[k][axis] - (wraps ? strides[k][axis] * shape[axis] : 0);
      }
      if (!wraps) break;
      position[axis] = 0;
    }
  }
}

int64_t wrap_integer(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::i8:
      return static_cast<int8_t>(value);
    case DType::u8:
      return static_cast<uint8_t>(value);
    case DType::i16:
      return static_cast<int16_t>(value);
    case DType::i32:
      return static_cast<int32_t>(value);
    case DType::u32:
      return static_cast<uint32_t>(value);
    case DType::bool_:
      return value != 0 ? 1 : 0;
    default:
      return value;
  }
}

double real_at(const Tensor& tensor, int64_t i) {
  const auto index = static_cast<size_t>(i);
  return tensor.is_float() ? tensor.floats[index] : static_cast<double>(tensor.integers[index]);
}

std::string fill_template(std::string_view text, const ScalarContext& ctx) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$') {
      result += ctx.operand(static_cast<size_t>(text[++i] - '0'));
    } else if (text[i] == '{') {
      const size_t end = text.find('}', i);
      result += fill_braces(text.substr(i + 1, end - i - 1), ctx);
      i = end;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::vector<double> float_attributes(std::span<const AttrSpec> attrs, const AttributeReader& reader,
                                     DType dtype) {
  std::vector<double> values;
  for (const AttrSpec& spec : attrs) {
    const double written = spec.type == AttrType::Float ? reader.real(spec.name) : 0;
    values.push_back(dtype == DType::f64 ? written
                                         : static_cast<double>(static_cast<float>(written)));
  }
  return values;
}

}  // namespace rlx
