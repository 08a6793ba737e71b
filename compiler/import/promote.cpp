// SPDX-License-Identifier: Apache-2.0
// Rules of auto_promote.
#include "compiler/import/promote.h"

#include <algorithm>
#include <iterator>

namespace rlx {
namespace {

// Elementwise ops with operands of one dtype (ops.md 2.2, 2.3).
constexpr std::string_view kPromotedOps[] = {
    "add",         "sub",   "mul",   "div",         "floor_div",  "mod",         "fmod",
    "pow",         "max",   "min",   "atan2",       "eq",         "ne",          "lt",
    "le",          "gt",    "ge",    "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left",
    "shift_right", "where", "clamp", "prelu",       "fma"};

bool is_signed(DType dtype) {
  return dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
}

bool is_number(DType dtype) {
  return is_float(dtype) || is_integer(dtype) || dtype == DType::bool_;
}

DType wider(DType a, DType b) {
  return element_bytes(b) > element_bytes(a) ? b : a;
}

DType promoted_integers(DType a, DType b) {
  if (is_signed(a) == is_signed(b)) return wider(a, b);
  const DType with_sign = is_signed(a) ? a : b;
  const uint32_t unsigned_bytes = element_bytes(is_signed(a) ? b : a);
  if (element_bytes(with_sign) > unsigned_bytes) return with_sign;
  return unsigned_bytes == 1 ? DType::i16 : DType::i64;
}

}  // namespace

std::optional<DType> promoted(DType a, DType b) {
  if (a == b) return a;
  if ((a == DType::c64 && is_number(b)) || (b == DType::c64 && is_number(a))) return DType::c64;
  if (!is_number(a) || !is_number(b)) return std::nullopt;
  if (is_float(a) && is_float(b)) {
    const bool halves = element_bytes(a) == 2 && element_bytes(b) == 2;
    return halves ? DType::f32 : wider(a, b);
  }
  if (is_float(a) || is_float(b)) return is_float(a) ? a : b;
  if (a == DType::bool_ || b == DType::bool_) return a == DType::bool_ ? b : a;
  return promoted_integers(a, b);
}

std::vector<Promotion> promotions(std::string_view op,
                                  const std::vector<std::optional<DType>>& inputs) {
  if (std::find(std::begin(kPromotedOps), std::end(kPromotedOps), op) == std::end(kPromotedOps))
    return {};
  // A float's integral power needs no cast of the exponent, and is more exact without.
  const bool integral_power = op == "pow" && inputs.size() == 2 && inputs[0] && inputs[1] &&
                              is_float(*inputs[0]) && is_integer(*inputs[1]);
  if (integral_power) return {};
  const size_t first = op == "where" ? 1 : 0;  // the condition stays what it is
  std::optional<DType> common;
  for (size_t i = first; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    common = common ? promoted(*common, *inputs[i]) : inputs[i];
    if (!common) return {};
  }
  std::vector<Promotion> casts;
  for (size_t i = first; i < inputs.size(); ++i) {
    if (inputs[i] && *inputs[i] != *common) casts.push_back({.input = i, .to = *common});
  }
  return casts;
}

}  // namespace rlx
