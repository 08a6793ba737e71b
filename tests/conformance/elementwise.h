// SPDX-License-Identifier: Apache-2.0
// What the tables of elementwise cases share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/case.h"

namespace rlx::test {

inline constexpr DType kFloatDTypes[] = {DType::f32, DType::f16, DType::bf16};
inline constexpr DType kIntegerDTypes[] = {DType::i8,  DType::u8,  DType::i16,
                                           DType::i32, DType::u32, DType::i64};

// Edges of a dtype; bool has only its two values.
inline CaseTensor edges_of(DType dtype, Shape shape) {
  CaseTensor plain = tensor(dtype, std::move(shape));
  return dtype == DType::bool_ ? plain : plain.edges();
}

struct UnaryOp {
  std::string name;
  Tolerance tolerance = Tolerance::Exact;
  std::string attributes = "{}";
};

// Every op of ops.md 2.1 from float to float, some with attributes that are not the defaults.
std::vector<UnaryOp> unary_float_ops();

}  // namespace rlx::test
