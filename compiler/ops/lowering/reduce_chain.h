// SPDX-License-Identifier: Apache-2.0
// Reductions with an elementwise chain fused into them (Node::region): the node's inputs are the
// chain's, and its last steps are what is reduced, one for each output. Only fusion makes such
// nodes, after every infer.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// operands[0..12] of the reduce kernel; the last one is the centre. Outputs behind the first stand
// in their places, from the last one on.
constexpr size_t kMaxReduceOperands = 13;
// Of a chain: what the kernel keeps for each of four rows fits into registers.
constexpr size_t kMaxReduceResults = 4;

// What the kernel reads instead of a tensor.
struct ReduceChain {
  // The chain's result as if it were dense, its axes in the order in which the largest operand has
  // them in memory; stands for no buffer.
  TensorRef value;
  std::vector<TensorRef> operands;
  std::string
      macros;  // RLX_OPERAND_<k>(i): offset in operand k of the value's element i (by `value`)
  // Sets values[r] for each result r, from RLX_X_KEPT(kept) + RLX_X_REDUCED(reduced).
  std::string prologue;
  // Sets values[4 * r + i], those of this element and its next three; empty where operands do not
  // come in fours.
  std::string prologue_of_four;
  std::vector<bool> in_pieces;  // of each operand: prologue_of_four loads four neighbours at once
  uint64_t steps = 0;
};

// Precondition: the node has a chain.
ReduceChain reduce_chain(const LowerContext& ctx);

// What output `result` of the node reduces, of its chain on host tensors.
Tensor evaluate_reduce_chain(const EvaluateContext& ctx, size_t result);

}  // namespace rlx
