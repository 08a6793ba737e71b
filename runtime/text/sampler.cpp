// SPDX-License-Identifier: Apache-2.0
// The choice of the next token from a model's logits.
#include "runtime/text/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/text.h"
#include "runtime/text/portable_math.h"
#include "schema/philox.h"

namespace rlx {
namespace {

constexpr uint32_t kMostPenaltyTokens = 1u << 20;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Whether a number lies in [0, most]; NaN does not.
Status check_number(std::string_view name, float value, float most) {
  if (value >= 0 && value <= most) return {};
  return {RLX_INVALID_ARGUMENT, text_of("argument sampling has ", name, " ", std::to_string(value),
                                        ", wanted 0 to ", most == 1 ? "1" : "any finite number")};
}

bool has_penalties(const rlx_text_sampling& sampling) {
  const float repetition = sampling.repetition_penalty;
  return (repetition != 0 && repetition != 1) || sampling.presence_penalty != 0 ||
         sampling.frequency_penalty != 0;
}

Status check_penalties(const rlx_text_sampling& sampling) {
  if (!std::isfinite(sampling.presence_penalty) || !std::isfinite(sampling.frequency_penalty)) {
    return {RLX_INVALID_ARGUMENT, "argument sampling has a penalty that is no finite number"};
  }
  if (has_penalties(sampling) && sampling.penalty_tokens == 0) {
    return {
        RLX_INVALID_ARGUMENT,
        "argument sampling has penalties, and penalty_tokens 0: say how many of the last tokens "
        "they are for"};
  }
  if (sampling.penalty_tokens <= kMostPenaltyTokens) return {};
  return {RLX_INVALID_ARGUMENT, text_of("argument sampling has penalty_tokens ",
                                        sampling.penalty_tokens, ", at most ", kMostPenaltyTokens)};
}

Status check_sampling(const rlx_text_sampling& sampling) {
  constexpr float kMost = std::numeric_limits<float>::max();
  RLX_RETURN_IF_ERROR(check_number("temperature", sampling.temperature, kMost));
  RLX_RETURN_IF_ERROR(check_number("top_p", sampling.top_p, 1));
  RLX_RETURN_IF_ERROR(check_number("min_p", sampling.min_p, 1));
  RLX_RETURN_IF_ERROR(check_number("typical_p", sampling.typical_p, 1));
  RLX_RETURN_IF_ERROR(check_number("repetition_penalty", sampling.repetition_penalty, kMost));
  RLX_RETURN_IF_ERROR(check_penalties(sampling));
  // A caller in C may have any number there.
  uint32_t order = 0;
  static_assert(sizeof(sampling.order) == sizeof(order));
  std::memcpy(&order, &sampling.order, sizeof(order));
  if (order <= RLX_TEXT_TEMPERATURE_LAST) return {};
  return {RLX_INVALID_ARGUMENT,
          text_of("argument sampling has order ", order, ", which is no rlx_text_order")};
}

bool is_cut(float share) {
  return share > 0 && share < 1;
}

// The larger z first, of equal ones the smaller id.
struct Better {
  template <class Candidate>
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.z != b.z ? a.z > b.z : a.id < b.id;
  }
};

double gumbel(uint32_t word) {
  return -portable_log(-portable_log(double{philox_open_uniform(word)}));
}

}  // namespace

Status Sampler::create(uint32_t token_count, const rlx_text_sampling& sampling,
                       std::unique_ptr<Sampler>& sampler) {
  RLX_RETURN_IF_ERROR(check_sampling(sampling));
  sampler.reset(new Sampler(token_count, sampling));
  return {};
}

Sampler::Sampler(uint32_t token_count, const rlx_text_sampling& sampling)
    : token_count_(token_count), sampling_(sampling) {
  candidates_.reserve(token_count);
  if (!has_penalties(sampling)) return;
  counts_.resize(token_count);
  last_.resize(sampling.penalty_tokens);
}

void Sampler::reset(uint64_t draw) {
  std::fill(counts_.begin(), counts_.end(), 0);
  accepted_ = 0;
  draw_ = draw;
}

void Sampler::note(int32_t id) {
  if (last_.empty()) return;
  int32_t& oldest = last_[accepted_ % last_.size()];
  if (accepted_ >= last_.size()) --counts_[static_cast<uint32_t>(oldest)];
  oldest = id;
  ++counts_[static_cast<uint32_t>(id)];
  ++accepted_;
}

Status Sampler::accept(int32_t id) {
  if (id < 0 || static_cast<uint32_t>(id) >= token_count_) {
    return {RLX_INVALID_ARGUMENT,
            text_of("there is no token ", id, ", the text has ", token_count_)};
  }
  note(id);
  return {};
}

double Sampler::penalised(double z, uint32_t id) const {
  const uint32_t count = counts_.empty() ? 0 : counts_[id];
  if (count == 0) return z;
  const double repetition = sampling_.repetition_penalty == 0 ? 1 : sampling_.repetition_penalty;
  z = z > 0 ? z / repetition : z * repetition;
  return z - (double{sampling_.frequency_penalty} * count + double{sampling_.presence_penalty});
}

bool Sampler::load(std::span<const float> logits) {
  candidates_.clear();
  bool has_infinite = false;
  for (uint32_t id = 0; id < token_count_; ++id) {
    const double z = penalised(double{logits[id]}, id);
    if (!(z > -kInfinity)) continue;  // nor NaN
    has_infinite = has_infinite || z == kInfinity;
    candidates_.push_back({.z = z, .id = static_cast<int32_t>(id)});
  }
  if (has_infinite) keep_infinite();
  return !candidates_.empty();
}

// Beside a chance that is infinite no other is one.
void Sampler::keep_infinite() {
  std::erase_if(candidates_, [](const Candidate& candidate) { return candidate.z < kInfinity; });
  for (Candidate& candidate : candidates_) candidate.z = 0;
}

const Sampler::Candidate& Sampler::best() const {
  return *std::min_element(candidates_.begin(), candidates_.end(), Better());
}

void Sampler::apply_temperature() {
  for (Candidate& candidate : candidates_) candidate.z /= double{sampling_.temperature};
}

double Sampler::total_weight(double largest) const {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += portable_exp(candidate.z - largest);
  return total;
}

template <class IsBefore>
void Sampler::keep_first(double share, const IsBefore& is_before) {
  const auto is_behind = [&](const Candidate& a, const Candidate& b) { return is_before(b, a); };
  const double largest = best().z;
  const double wanted = share * total_weight(largest);
  std::make_heap(candidates_.begin(), candidates_.end(), is_behind);
  auto end = candidates_.end();
  for (double sum = 0; end != candidates_.begin() && (sum < wanted || end == candidates_.end());) {
    std::pop_heap(candidates_.begin(), end, is_behind);
    --end;
    sum += portable_exp(end->z - largest);
  }
  candidates_.erase(candidates_.begin(), end);
  std::reverse(candidates_.begin(), candidates_.end());
}

void Sampler::cut_top_k() {
  const uint32_t count = sampling_.top_k;
  if (count == 0 || count >= candidates_.size()) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + count, candidates_.end(), Better());
  candidates_.resize(count);
  std::sort(candidates_.begin(), candidates_.end(), Better());
}

void Sampler::cut_top_p() {
  if (is_cut(sampling_.top_p)) keep_first(double{sampling_.top_p}, Better());
}

void Sampler::cut_min_p() {
  if (sampling_.min_p == 0) return;
  const double largest = best().z;
  std::erase_if(candidates_, [&](const Candidate& candidate) {
    return portable_exp(candidate.z - largest) < double{sampling_.min_p};
  });
}

// Those first whose surprise -ln p is nearest to the expected one, the entropy.
void Sampler::cut_typical() {
  if (!is_cut(sampling_.typical_p)) return;
  const double largest = best().z;
  const double total = total_weight(largest);
  const double log_total = portable_log(total);
  double entropy = 0;
  for (Candidate& candidate : candidates_) {
    candidate.surprise = log_total - (candidate.z - largest);
    entropy += portable_exp(candidate.z - largest) / total * candidate.surprise;
  }
  for (Candidate& candidate : candidates_) {
    candidate.surprise = std::fabs(candidate.surprise - entropy);
  }
  keep_first(double{sampling_.typical_p}, [](const Candidate& a, const Candidate& b) {
    return a.surprise != b.surprise ? a.surprise < b.surprise : a.id < b.id;
  });
}

int32_t Sampler::draw() const {
  constexpr double kMostGumbel = 17;  // -ln(-ln(1 - 2^-24)) is 16.64
  const Candidate* chosen = nullptr;
  double best_score = -kInfinity;
  for (const Candidate& candidate : candidates_) {
    if (candidate.z + kMostGumbel < best_score) continue;
    const auto id = static_cast<uint32_t>(candidate.id);
    const PhiloxWords words =
        philox({id / 4, static_cast<uint32_t>(draw_ >> 32), static_cast<uint32_t>(draw_), 0},
               philox_key(sampling_.seed));
    const double score = candidate.z + gumbel(words[id % 4]);
    const bool is_better = chosen == nullptr || score > best_score ||
                           (score == best_score && candidate.id < chosen->id);
    if (!is_better) continue;
    chosen = &candidate;
    best_score = score;
  }
  return chosen->id;
}

Status Sampler::choose(std::span<const float> logits, int32_t& id) {
  if (logits.size() < token_count_) {
    return {RLX_INVALID_ARGUMENT, text_of("there are ", logits.size(), " logits, the text has ",
                                          token_count_, " tokens")};
  }
  if (!load(logits)) {
    id = 0;
  } else if (sampling_.temperature == 0) {
    id = best().id;
  } else {
    const bool is_first = sampling_.order == RLX_TEXT_TEMPERATURE_FIRST;
    if (is_first) apply_temperature();
    cut_top_k();
    if (!is_first) cut_typical();
    cut_top_p();
    cut_min_p();
    if (is_first) cut_typical();
    if (!is_first) apply_temperature();
    id = draw();
  }
  note(id);
  ++draw_;
  return {};
}

}  // namespace rlx
