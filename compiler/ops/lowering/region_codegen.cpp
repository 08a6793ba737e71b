// SPDX-License-Identifier: Apache-2.0
// Generated elementwise code: chains of scalar steps as text valid in GLSL and CUDA C++.
#include "compiler/ops/lowering/region_codegen.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/blocks.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

std::string hex(uint32_t word) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08Xu", word);
  return text;
}

// Decimal text that reads back as exactly this float.
std::string float_literal(float value) {
  if (!std::isfinite(value)) return "rlx_from_bits(" + hex(std::bit_cast<uint32_t>(value)) + ")";
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
  std::string result = text;
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  result += "f";
  return std::signbit(value) ? "(" + result + ")" : result;
}

std::string double_literal(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  return "rlx_f64_of(" + hex(static_cast<uint32_t>(bits)) + ", " +
         hex(static_cast<uint32_t>(bits >> 32)) + ")";
}

}  // namespace

std::string_view compute_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return "rlx_f32";
    case DType::f64:
      return "rlx_f64";
    case DType::i8:
    case DType::u8:
    case DType::i16:
    case DType::i32:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return "rlx_i32";
    case DType::u32:
      return "rlx_u32";
    case DType::i64:
    case DType::c64:
      return "rlx_i64";
    case DType::bool_:
      return "rlx_bool";
    default:
      RLX_CHECK(false, "compute type of " + std::string(name_of(dtype)));
  }
}

std::string literal(DType dtype, double value) {
  if (dtype == DType::f64) return double_literal(value);
  if (is_float(dtype)) return float_literal(static_cast<float>(value));
  return integer_literal(dtype, static_cast<int64_t>(value));
}

std::string integer_literal(DType dtype, int64_t value) {
  const std::string_view type = compute_type(dtype);
  if (type == "rlx_bool") return value != 0 ? "true" : "false";
  if (type == "rlx_u32") return std::to_string(static_cast<uint32_t>(value)) + "u";
  if (type == "rlx_i32") {
    if (value == std::numeric_limits<int32_t>::min()) return "rlx_i32(0x80000000u)";
    return value < 0 ? "(" + std::to_string(value) + ")" : std::to_string(value);
  }
  RLX_CHECK(type == "rlx_i64", "integer literal of " + std::string(name_of(dtype)));
  if (value >= -0x7FFFFFFF && value <= 0x7FFFFFFF) return "rlx_i64(" + std::to_string(value) + ")";
  const auto bits = static_cast<uint64_t>(value);
  return "rlx_i64((rlx_u64(" + hex(static_cast<uint32_t>(bits >> 32)) + ") << 32) | rlx_u64(" +
         hex(static_cast<uint32_t>(bits)) + "))";
}

std::string truth_expression(DType dtype, const std::string& x) {
  if (dtype == DType::bool_) return x;
  if (dtype == DType::c64) return "rlx_complex_truth(" + x + ")";
  if (is_float8(dtype)) return "((" + x + " & 0x7F) != 0)";
  if (is_float(dtype)) return "rlx_truth(" + x + ")";
  return "(" + x + " != " + integer_literal(dtype, 0) + ")";
}

std::string wrapped(DType dtype, const std::string& expression) {
  if (dtype != DType::i8 && dtype != DType::u8 && dtype != DType::i16) return expression;
  return "rlx_wrap_" + std::string(name_of(dtype)) + "(" + expression + ")";
}

std::string coordinate_name(uint32_t axis_from_end) {
  return "at" + std::to_string(axis_from_end);
}

std::string scalar_expression(std::string_view op, const Attributes& attributes,
                              std::vector<std::string> operands, std::vector<DType> operand_dtypes,
                              DType result, std::set<uint32_t>* coordinates) {
  const OpDef* def = find_op(op);
  RLX_CHECK(def != nullptr && def->scalar != nullptr, "scalar form of " + std::string(op));
  const ScalarContext ctx(*def, attributes, std::move(operands), std::move(operand_dtypes), result);
  std::string text = wrapped(result, def->scalar(ctx));
  const std::vector<std::string> unread = ctx.attrs().unread();
  RLX_CHECK(unread.empty(), std::string(op) + " does not use its attribute " + unread.front());
  const std::set<uint32_t> positions = positions_read(op, attributes);
  RLX_CHECK(positions.empty() || coordinates != nullptr,
            std::string(op) + " asks where its element stands");
  if (coordinates != nullptr) coordinates->insert(positions.begin(), positions.end());
  return text;
}

GeneratedChain generate_chain(std::span<const RegionStep> steps,
                              const std::vector<std::string>& inputs,
                              const std::vector<DType>& input_dtypes, const std::string& prefix) {
  RLX_CHECK(!steps.empty(), "a chain without steps");
  GeneratedChain chain;
  std::vector<std::string> names = inputs;
  std::vector<DType> dtypes = input_dtypes;
  for (size_t j = 0; j < steps.size(); ++j) {
    const RegionStep& step = steps[j];
    std::vector<std::string> operands;
    std::vector<DType> operand_dtypes;
    for (uint32_t operand : step.operands) {
      operands.push_back(names.at(operand));
      operand_dtypes.push_back(dtypes.at(operand));
    }
    const std::string name = prefix + std::to_string(j);
    chain.text += "const " + std::string(compute_type(step.dtype)) + " " + name + " = " +
                  scalar_expression(step.op, step.attributes, std::move(operands),
                                    std::move(operand_dtypes), step.dtype, &chain.coordinates) +
                  ";\n";
    names.push_back(name);
    dtypes.push_back(step.dtype);
  }
  chain.result = names.back();
  chain.dtype = dtypes.back();
  return chain;
}

bool is_activation(std::string_view op) {
  if (op == "none" || op == "identity") return true;
  const OpDef* def = find_op(op);
  if (def == nullptr || def->scalar == nullptr || is_positional(op)) return false;
  if (def->inputs.minimum != 1 || (def->inputs.maximum != 1 && op != "clamp")) return false;
  return op != "cast" && op != "logical_not" && op != "bitwise_not" && op != "is_nan" &&
         op != "is_inf";
}

std::string activation_expression(const std::string& op, const Attributes& attributes,
                                  const std::string& variable) {
  RLX_CHECK(is_activation(op), "activation " + op);
  if (op == "none" || op == "identity") return variable;
  return scalar_expression(op, attributes, {variable}, {DType::f32}, DType::f32);
}

}  // namespace rlx
