// SPDX-License-Identifier: Apache-2.0
// auto_promote (ops.md 0.3): which operands of an elementwise op are cast so that all have one
// dtype.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/support/dtype.h"

namespace rlx {

// The dtype to which operands of two dtypes are cast: of one kind the wider; signed beside unsigned
// the narrowest signed one that holds both, i64 at most; f16 beside bf16 f32; an integer or bool
// beside a float that float; bool beside an integer that integer; any of these beside c64 c64.
// nullopt for storage types beside others.
std::optional<DType> promoted(DType a, DType b);

struct Promotion {
  size_t input = 0;
  DType to = DType::f32;
};

// The casts in front of a node whose inputs have these dtypes (nullopt: a missing input). Empty
// where the dtypes agree already, have nothing in common, or the op takes different ones.
std::vector<Promotion> promotions(std::string_view op,
                                  const std::vector<std::optional<DType>>& inputs);

}  // namespace rlx
