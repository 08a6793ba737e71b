// SPDX-License-Identifier: Apache-2.0
// The graph of a decoder: one entry per number of tokens, over shared weights and caches.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/import/gguf/hyperparameters.h"
#include "compiler/import/gguf/weight_set.h"
#include "compiler/import/source_graph.h"

namespace rlx::gguf {

struct DecoderOptions {
  int64_t context = 1;                 // rows of the caches
  std::vector<int64_t> chunks;         // tokens of each entry
  std::optional<int64_t> verify = {};  // tokens of the entry that verifies drafts
  DType cache = DType::f32;
};

// Tokens that the state step.ring holds: of position p at place p % kRingTokens.
inline constexpr int64_t kRingTokens = 64;

// Everything of the graph but its params. Each entry reads ids i32[1, tokens], the position of the
// first of them, how many of them count (those behind are padding), and the row whose logits are
// wanted; it writes the caches and gives logits f32[1, vocabulary] and next i32[1], the best of
// them. Where an entry takes one token, another one, `step`, takes it and its position from the
// states step.token and step.position, gives next, and leaves it there and in step.ring. The entry
// that verifies drafts reads ids, position and count, and gives next i32[tokens]: what follows each
// of the tokens. Faults of tensors are reported through `weights`; the graph means nothing then.
void add_decoder(const Hyperparameters& model, const DecoderOptions& options, WeightSet& weights,
                 SourceGraph& graph);

}  // namespace rlx::gguf
