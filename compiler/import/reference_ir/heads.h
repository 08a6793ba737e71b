// SPDX-License-Identifier: Apache-2.0
// How operators of attention of the reference IR lay out their heads. It guesses them from sizes;
// here they are told by the rank, and where a rank has two, by the attribute `layout`.
#pragma once

#include <optional>
#include <string>

#include "compiler/import/reference_ir/alias.h"

namespace rlx::reference_ir {

// One operand with heads as an operator of rlx takes it.
struct Heads {
  ValueId value;
  std::string layout;  // bsd, bshd, bhsd
};

// Of input i with heads of `head_dim` columns and, in queries, `heads` heads. Rank 3 is [B, S, H D]
// where the last size says so, and otherwise [B H, S, D] of B = `batch` (null: what `heads` divide
// the first size to).
Heads heads_of(AliasNode& node, size_t i, int64_t heads, int64_t head_dim,
               std::optional<int64_t> batch = std::nullopt);

// A result of heads in the layout of input i, in that input's own shape.
ValueId as_input(AliasNode& node, ValueId result, size_t i);

}  // namespace rlx::reference_ir
