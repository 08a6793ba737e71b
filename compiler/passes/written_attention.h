// SPDX-License-Identifier: Apache-2.0
// Attention as models write it out: products, scales, masks and softmax.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace rlx {

// q, k or v behind the views and factors between it and its product. `axes` says what each axis is:
// b batch, h head, s token, d element; n: batch and head in one.
struct WrittenHeads {
  ValueId value{};
  std::string axes;
};

// Keys or values before each head was repeated for the heads of q that share it.
struct RepeatedHeads {
  WrittenHeads heads;
  int64_t count = 1;  // of kv heads
};
// `heads` looked through one such repetition, as repeat_interleave, or expand or tile between
// views, writes it; nullopt where there is none.
std::optional<RepeatedHeads> before_repeats(const Graph& graph, const WrittenHeads& heads);

// Something between the product of q and k and the softmax that is no factor.
struct WrittenMask {
  ValueId value{};    // added to the scores; or the condition of a where, by which keys count
  double factor = 1;  // of what is added
  bool is_condition = false;
  bool is_inverted = false;  // keys count where the condition does not hold
  double replacement = 0;    // the score of a key that does not count
  Shape scores;              // where it stands
};

// softmax(mask(cap(scale * q k^T))) v; with sinks the softmax has one column more, which v does not
// see. Sizes agree; batch and heads are told apart as far as the
// graph does.
struct WrittenAttention {
  WrittenHeads q;
  WrittenHeads k;
  WrittenHeads v;
  Dim batch = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  Dim q_tokens = 0;
  Dim kv_tokens = 0;
  int64_t head_dim = 0;
  int64_t v_head_dim = 0;
  double scale = 1;
  double softcap = 0;
  std::vector<WrittenMask> masks;  // from the softmax on upwards
  std::optional<ValueId> sinks;    // the column: expands to [batch, head, token, 1]
  NodeId product{};                // with v
  ValueId result{};                // what stands for the whole
  bool is_by_token = false;        // result is [batch, token, head, dim], else [batch, head, ...]
};

// The attention whose softmax a node is; nullopt where it is none, or where a value between is read
// elsewhere.
std::optional<WrittenAttention> written_attention(const Module& module, const Graph& graph,
                                                  const Node& softmax);

}  // namespace rlx
