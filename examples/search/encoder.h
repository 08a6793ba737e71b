// SPDX-License-Identifier: Apache-2.0
// A plan that embeds sentences, with its tokenizer, over the C APIs of librlx and librlx_text.
#pragma once

#include <rlx_text.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "batches.h"

namespace search {

using Tokens = std::vector<int64_t>;

class Encoder {
 public:
  // Opens a plan with a tokenizer and one entry that takes input_ids and attention_mask, i64[rows,
  // tokens], both sizes free from 1 on, and gives sentence_embedding, f32[rows, width]. Throws
  // std::runtime_error with the library's sentence.
  Encoder(const std::string& plan, const std::string& device);

  [[nodiscard]] size_t width() const { return width_; }
  [[nodiscard]] size_t max_tokens() const { return limits_.tokens; }
  [[nodiscard]] std::string device_name() const;

  // The ids of a text between those that begin and end one: of its front alone where there are more
  // than max_tokens().
  [[nodiscard]] Tokens tokens_of(std::string_view text) const;

  // One row of `width` numbers per sentence.
  std::vector<float> embed(std::span<const Tokens> sentences);

 private:
  struct Close {
    void operator()(rlx_plan* plan) const { rlx_plan_close(plan); }
    void operator()(rlx_device* device) const { rlx_device_close(device); }
    void operator()(rlx_session* session) const { rlx_session_close(session); }
    void operator()(rlx_text* text) const { rlx_text_close(text); }
  };

  void read_entry();
  void read_text();
  size_t free_size(uint32_t input, uint32_t axis);
  // Two sessions take turns: one is made ready while the other runs.
  struct Lane {
    std::unique_ptr<rlx_session, Close> session;
    std::optional<Batch> batch = {};  // under way
  };
  void set_input(Lane& lane, const char* name, const std::vector<int64_t>& values);
  void start(Lane& lane, const Batch& batch, std::span<const Tokens> sentences);
  void finish(Lane& lane, std::vector<float>& embeddings);

  std::unique_ptr<rlx_plan, Close> plan_;
  std::unique_ptr<rlx_device, Close> device_;
  std::array<Lane, 2> lanes_;
  std::unique_ptr<rlx_text, Close> text_;
  bool adds_end_ = false;
  Limits limits_;
  size_t width_ = 0;
};

}  // namespace search
