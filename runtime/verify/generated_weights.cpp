// SPDX-License-Identifier: Apache-2.0
// Verifier: the weights that an init entry fills, and who needs them.
#include <algorithm>

#include "runtime/plan/profiles.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

constexpr uint32_t kAllPrograms = ~uint32_t{0};

}  // namespace

GeneratedWeights::GeneratedWeights(const fb::Plan& plan, Faults& faults) {
  std::vector<bool> begins_state(plan.weights()->size(), false);
  for (const fb::State* state : *plan.states()) {
    if (state->init() == fb::StateInit::Weight)
      begins_state[state->init_weight().value_or(0)] = true;
  }
  for (uint32_t w = 0; w < plan.weights()->size(); ++w) {
    const fb::Weight& weight = *plan.weights()->Get(w);
    if (weight.kind() != fb::WeightKind::Generated || weight.size_bytes() == 0) continue;
    weights_.push_back({.begin = weight.offset_bytes(),
                        .end = weight.offset_bytes() + weight.size_bytes(),
                        .index = w,
                        .programs = begins_state[w] ? kAllPrograms : 0});
  }
  faults.charge(kWorkPerTable * uint64_t{plan.weights()->size()} + work_of_sort(weights_.size()));
  if (faults.full()) return;
  std::sort(weights_.begin(), weights_.end(),
            [](const Weight& a, const Weight& b) { return a.begin < b.begin; });
}

size_t GeneratedWeights::last_before(uint64_t byte, Faults& faults) const {
  faults.charge(work_of_search(weights_.size()));
  const auto after = std::upper_bound(weights_.begin(), weights_.end(), byte,
                                      [](uint64_t at, const Weight& w) { return at < w.begin; });
  return after == weights_.begin() ? weights_.size()
                                   : static_cast<size_t>(after - weights_.begin()) - 1;
}

bool GeneratedWeights::hold(const fb::Value& value, Faults& faults) const {
  const size_t found = last_before(value.offset_bytes(), faults);
  return found < weights_.size() &&
         value.offset_bytes() + value.size_bytes() <= weights_[found].end;
}

bool GeneratedWeights::overlap(const fb::Value& value, Faults& faults) const {
  const uint64_t end = value.offset_bytes() + value.size_bytes();
  if (end == value.offset_bytes()) return false;
  const size_t found = last_before(end - 1, faults);
  return found < weights_.size() && weights_[found].end > value.offset_bytes();
}

void GeneratedWeights::need(const fb::Value& value, uint32_t programs, Faults& faults) {
  const size_t found = last_before(value.offset_bytes(), faults);
  if (found < weights_.size() && value.offset_bytes() < weights_[found].end)
    weights_[found].programs |= programs;
}

GeneratedWeights generated_weights(const PlanParts& parts, Faults& faults) {
  GeneratedWeights weights(parts.plan, faults);
  for (const EntryParts& entry : parts.entries) {
    if (entry.is_init) continue;
    for (uint32_t v = 0; v < entry.value_count() && !faults.full(); ++v) {
      const fb::Value& value = entry.value(v);
      if (value.segment() == fb::Segment::Weights)
        weights.need(value, programs_of(entry.entry), faults);
    }
  }
  return weights;
}

}  // namespace rlx
