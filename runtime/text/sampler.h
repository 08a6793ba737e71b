// SPDX-License-Identifier: Apache-2.0
// The choice of the next token from a model's logits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/include/rlx_text.h"

namespace rlx {

// One choice after the other; of one thread at a time.
//
// Arithmetic is in doubles by IEEE operations alone (portable_math.h), sums go in the order of ids
// or of ranks, equal ranks by id: equal logits, options and draws give equal tokens on every
// machine.
//
// A draw is that of ops.md 12.1 (Gumbel-max): the largest z + g(id) with g = -ln(-ln v(w)), w the
// word id mod 4 of Philox's block id / 4 under `seed`, with the counter (id / 4, high half of the
// draw, low half of the draw, 0).
class Sampler {
 public:
  static Status create(uint32_t token_count, const rlx_text_sampling& sampling,
                       std::unique_ptr<Sampler>& sampler);

  Status accept(int32_t id);
  // Allocates nothing.
  Status choose(std::span<const float> logits, int32_t& id);
  void reset(uint64_t draw);

 private:
  struct Candidate {
    double z = 0;
    double surprise = 0;  // of locally typical sampling
    int32_t id = 0;
  };

  Sampler(uint32_t token_count, const rlx_text_sampling& sampling);
  [[nodiscard]] double penalised(double z, uint32_t id) const;
  void note(int32_t id);
  // Fills the candidates, without what has no chance; false: there are none.
  bool load(std::span<const float> logits);
  void keep_infinite();
  [[nodiscard]] const Candidate& best() const;
  void apply_temperature();
  void cut_top_k();
  void cut_top_p();
  void cut_min_p();
  void cut_typical();
  // Keeps the first candidates by `is_before` whose probabilities reach `share`.
  template <class IsBefore>
  void keep_first(double share, const IsBefore& is_before);
  [[nodiscard]] double total_weight(double largest) const;
  [[nodiscard]] int32_t draw() const;

  const uint32_t token_count_;
  const rlx_text_sampling sampling_;
  std::vector<Candidate> candidates_;
  std::vector<uint32_t> counts_;  // by id, among the last tokens; empty without penalties
  std::vector<int32_t> last_;     // a ring
  uint64_t accepted_ = 0;
  uint64_t draw_ = 0;
};

}  // namespace rlx
