// SPDX-License-Identifier: Apache-2.0
// An attention node's inputs under one shape, whatever their layouts (ops.md 5.1).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rlx {

// Input positions.
enum AttentionInput : uint32_t {
  kAttentionQ,
  kAttentionK,
  kAttentionV,
  kAttentionMask,
  kAttentionBias,
  kAttentionKvLen,
  kAttentionQStart,
  kAttentionSinks,
};

// Where element (b, head, s, d) of a tensor stands, in elements: offset + b * batch + head * head +
// s * token + d * dim.
struct HeadsView {
  Dim offset = 0;
  Dim batch = 0;
  Dim head = 0;
  Dim token = 0;
  Dim dim = 0;
};

struct AttentionProblem {
  Dim batch = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  Dim q_tokens = 0;
  Dim kv_tokens = 0;
  int64_t head_dim = 0;
  int64_t v_head_dim = 0;
  std::string packed;  // none, 3hd, gqa
  std::string q_layout;
  std::string kv_layout;
  std::string out_layout;
  bool causal = false;
  bool align_end = true;
  int64_t window_left = -1;
  int64_t window_right = -1;
  double scale = 1;
  double softcap = 0;
};

bool has_free_sizes(const AttentionProblem& problem);
// The problem at a few values of its sizes, the largest first (compiler/support/sampled_sizes.h).
std::vector<AttentionProblem> sampled_problems(const AttentionProblem& problem);
// The most keys that queries which stand together attend to: the window's, or all.
Dim most_keys(const AttentionProblem& problem);
// Reads attributes and sizes; reports what does not fit.
std::optional<AttentionProblem> attention_problem(
    NodeContext& ctx, const std::vector<std::optional<TensorType>>& inputs);
// The shape of y.
Shape attention_output_shape(const AttentionProblem& problem);

// The views of q, k and v (which: 0, 1, 2) in an input of these strides; with packed inputs all
// three are in slot q.
HeadsView attention_view(const AttentionProblem& problem, uint32_t which, const Strides& strides);
HeadsView attention_output_view(const AttentionProblem& problem);
// Strides of a mask or bias by (b, head, query, key), 0 where it is broadcast.
HeadsView attention_mask_view(const AttentionProblem& problem, const Shape& shape,
                              const Strides& strides);

bool evaluate_attention(EvaluateContext& ctx);
class LowerContext;
bool lower_attention(LowerContext& ctx);

}  // namespace rlx
