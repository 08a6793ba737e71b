// SPDX-License-Identifier: Apache-2.0
// A plan that embeds sentences, over librlx's C API.
#pragma once

#include <rlx.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "batches.h"

namespace search {

using Tokens = std::vector<int64_t>;

class Encoder {
 public:
  // Opens a plan each of whose entries takes input_ids and attention_mask, i64[rows, tokens], and
  // gives sentence_embedding, f32[rows, width]. `filler`: a sentence for rows that no sentence
  // needs, at most as long as the shortest entry. Throws std::runtime_error with the library's
  // sentence.
  Encoder(const std::string& plan, const std::string& device, Tokens filler);

  [[nodiscard]] size_t width() const { return width_; }
  [[nodiscard]] size_t max_tokens() const { return max_tokens_; }
  [[nodiscard]] std::string device_name() const;

  // One row of `width` numbers per sentence.
  std::vector<float> embed(std::span<const Tokens> sentences);

 private:
  struct Close {
    void operator()(rlx_plan* plan) const { rlx_plan_close(plan); }
    void operator()(rlx_device* device) const { rlx_device_close(device); }
    void operator()(rlx_session* session) const { rlx_session_close(session); }
  };

  Bucket read_bucket(uint32_t entry);
  void set_input(const Bucket& bucket, const char* name, const std::vector<int64_t>& values);
  void run(const Batch& batch, std::span<const Tokens> sentences, std::vector<float>& embeddings);

  Tokens filler_;
  std::unique_ptr<rlx_plan, Close> plan_;
  std::unique_ptr<rlx_device, Close> device_;
  std::unique_ptr<rlx_session, Close> session_;
  std::vector<Bucket> buckets_;
  size_t width_ = 0;
  size_t max_tokens_ = 0;
};

}  // namespace search
