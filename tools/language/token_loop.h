// SPDX-License-Identifier: Apache-2.0
// The loop around a language model: a prompt in chunks, then one token after another, over caches
// that stay from prompt to prompt.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "tools/language/chunks.h"
#include "tools/language/model_plan.h"

namespace rlx::language {

// Which rows of the caches a later prompt that begins with the same tokens may keep.
enum class Reuse : uint8_t {
  Exact,  // whole chunks that it would be cut into itself: logits do not depend on the past
  Rows,  // those that prompts made by entries of more than kFewRows tokens: nor do they here, where
         // a row has the same bits in all such entries
  Fast,  // those that single tokens made too
};

class TokenLoop {
 public:
  // Over a session that nobody else uses meanwhile, and that outlives the loop. Its caches are
  // taken for empty. `queue_depth`: of the session's options.
  TokenLoop(ModelPlan model, rlx_session* session, Reuse reuse, uint32_t queue_depth = 1);

  // Brings the caches to hold exactly these tokens; next() and read_logits() then tell what follows
  // them. Refused with nothing changed: no token at all, more than the context holds, ids outside
  // the vocabulary.
  Status read_prompt(std::span<const int32_t> ids);
  // Starts the run of one more token, behind those that are held; refused where the context is
  // full. One submit, no allocation.
  Status feed(int32_t id);
  // Most runs of one call of step().
  [[nodiscard]] uint32_t most_steps() const;
  // Feeds `id` and the likeliest tokens behind it, as many runs as `following` has room for, at
  // most most_steps() and what the context has left, each token taken on the device from the run
  // before; `following` gets those that were chosen, of which the last is not yet fed. The same
  // bits as of feed() and next(). One submit per token, one wait.
  Status step(int32_t id, std::span<int32_t> following);
  // Most drafts of one call of verify(), here and now: a run reaches no row behind the context.
  [[nodiscard]] uint32_t most_drafts() const;
  // Feeds `id` and the drafts behind it in one run. `following`, with room for one more than there
  // are drafts, gets those of them that are the likeliest tokens, up to the first that is not, and
  // the likeliest token behind them, `count` in all; the last of them is not yet fed, and nothing
  // else of the drafts is held.
  Status verify(int32_t id, std::span<const int32_t> drafts, std::span<int32_t> following,
                uint32_t& count);
  // Waits for the run, if one is under way; the likeliest token, by the entry's argmax. Behind
  // verify() there is none, and no logits.
  Status next(int32_t& id);
  // The same, and the logits of all tokens; as many as the vocabulary has.
  Status read_logits(std::span<float> logits);
  // Forgets all tokens but the first `count`, which is no more than are held; before anything is
  // read, a token must be fed. The same feeds as before then give the same bits.
  void rewind(uint32_t count);

  // Rows of all caches for the tokens held, dense, one cache after the other. Waits.
  Status save_rows(std::vector<std::byte>& rows);
  // Sets the caches to what another loop of the same plan saved. `prompt_rows` and the way of reuse
  // as of that loop.
  Status restore_rows(std::span<const int32_t> ids, uint32_t prompt_rows,
                      std::span<const std::byte> rows);

  // Those whose rows the caches hold.
  [[nodiscard]] std::span<const int32_t> held() const { return held_; }
  // How many of the first rows were made by prompts alone, and may be kept; exactly: in the chunks
  // into which a prompt of so many tokens is cut.
  [[nodiscard]] uint32_t prompt_rows() const;
  // Of the last prompt: tokens whose rows were there already, and runs for the others.
  [[nodiscard]] uint32_t kept_tokens() const { return kept_tokens_; }
  [[nodiscard]] uint32_t prompt_runs() const { return prompt_runs_; }
  [[nodiscard]] const ModelPlan& model() const { return model_; }

 private:
  Status check_prompt(std::span<const int32_t> ids) const;
  [[nodiscard]] uint32_t equal_rows(std::span<const int32_t> ids) const;
  std::vector<Chunk> cut_prompt(std::span<const int32_t> ids);
  void note_made(const Chunk& chunk);
  Status run_chunk(const Chunk& chunk, std::span<const int32_t> ids);
  Status set(uint32_t entry, const char* name, const int32_t* data, std::span<const uint64_t> dims);
  Status set_row(uint32_t entry, uint32_t count);
  Status set_step(int32_t id);

  ModelPlan model_;
  rlx_session* session_;
  Reuse reuse_;
  std::vector<uint32_t> sizes_;  // of prompts' chunks, most tokens first
  std::vector<int32_t> held_;    // has room for the whole context
  std::vector<int32_t> padded_;  // has room for the largest chunk and for drafts
  std::vector<int32_t> chosen_;  // behind each token of verify()
  uint32_t prompt_rows_ = 0;
  std::vector<Chunk> made_;  // of prompts, none of whose rows was computed again since
  uint32_t kept_tokens_ = 0;
  uint32_t prompt_runs_ = 0;
  uint32_t ran_ = 0;            // the entry whose outputs are there
  bool decode_is_set_ = false;  // the inputs of `decode` that never change
  uint32_t queue_depth_;
  std::optional<std::array<int32_t, 2>> on_device_;  // token and position of the step to come
};

}  // namespace rlx::language
