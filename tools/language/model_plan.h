// SPDX-License-Identifier: Apache-2.0
// What makes a plan a language model's: entries that take tokens and give the next one, and caches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace rlx::language {

// An entry with the inputs ids i32[1,tokens], position i32[], count i32[] (how many of the ids are
// not padding), last i32[1] (the row whose logits are wanted), and the outputs
// logits f32[1,vocabulary] and next i32[1] (the id of the largest).
struct TokenEntry {
  uint32_t entry = 0;
  uint32_t tokens = 0;
};

// A state f[1,groups,context,width]: row r of axis kRowAxis is token r's.
struct Cache {
  std::string name;
  uint32_t dtype = 0;
  std::vector<uint64_t> dims;
  uint64_t row_bytes = 0;  // of all groups
};
inline constexpr uint32_t kRowAxis = 2;

// The entry `verify` has the inputs ids, position and count and the output next i32[tokens]: the
// likeliest token behind each.
struct ModelPlan {
  TokenEntry decode;                // of one token
  std::vector<TokenEntry> prompts;  // of several: most tokens first, each number once
  uint32_t context_tokens = 0;      // rows of the caches
  uint32_t vocabulary = 0;          // logits of a row
  std::vector<Cache> caches;
  std::optional<TokenEntry> verify;  // of several tokens; the largest
  std::optional<uint32_t> step;      // the entry that takes its token from a state
  uint32_t ring_tokens = 0;          // places of the state of those that it chose
};

// States of the entry `step`: i32[1,1] the token to come, i32[] how many are held, i32[1,places]
// those that steps chose, position p at place p % places.
inline constexpr const char* kStepToken = "step.token";
inline constexpr const char* kStepPosition = "step.position";
inline constexpr const char* kStepRing = "step.ring";

// Finds the entries by their inputs and outputs. Refused: a plan without an entry of one token,
// entries of different vocabularies, and states that are no caches of one number of rows.
Status describe_model(const rlx_plan* plan, ModelPlan& model);

// What a caller got wrong: RLX_INVALID_ARGUMENT with the sentence.
Status refused(std::string message);
// The status of a call of rlx.h with this thread's sentence for it.
Status status_of(rlx_status code);

}  // namespace rlx::language
