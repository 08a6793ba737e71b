// SPDX-License-Identifier: Apache-2.0
// Choosing one form for sizes that a run gives: sizes are tried at a few values of their symbols.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "compiler/support/check.h"
#include "compiler/support/dim.h"

namespace rlx {

// Every symbol at its largest value halved `halvings` times, but not below its smallest.
class SampledSizes {
 public:
  explicit SampledSizes(uint32_t halvings) : halvings_(halvings) {}
  [[nodiscard]] int64_t value(const Dim& size) const;

 private:
  uint32_t halvings_;
};

// Whether no symbol of the size is at its bound more than twice what it is at least, as where a
// range is cut.
bool is_narrow(const Dim& size);

// What make(at) gives for `sizes` at their bound, at half of it and so on, as long as a size still
// changes and none is 0; once for fixed sizes.
template <typename Make>
auto at_sampled_sizes(const std::vector<Dim>& sizes, const Make& make) {
  constexpr uint32_t kMostHalvings = 31;
  std::vector<std::invoke_result_t<Make, const SampledSizes&>> made;
  std::vector<int64_t> last;
  for (uint32_t halvings = 0; halvings <= kMostHalvings; ++halvings) {
    const SampledSizes at(halvings);
    std::vector<int64_t> values;
    values.reserve(sizes.size());
    for (const Dim& size : sizes) values.push_back(at.value(size));
    const bool empty = std::find(values.begin(), values.end(), 0) != values.end();
    if (halvings > 0 && (values == last || empty)) break;
    made.push_back(make(at));
    last = std::move(values);
  }
  return made;
}

// The same for lines that are windows of images, but that the bound alone decides where it is
// narrow: tiles of windows lose more at a bound that they were not chosen for than they gain at
// smaller images (tests/bench/results/2026-11-27-h200-free.md).
template <typename Make>
auto at_sampled_windows(const Dim& lines, const Make& make) {
  using Made = std::vector<std::invoke_result_t<Make, const SampledSizes&>>;
  return is_narrow(lines) ? Made{make(SampledSizes(0))} : at_sampled_sizes({lines}, make);
}

// Candidates at the same sizes; the first size of the candidate whose time exceeds the least time
// at a size by the smallest factor, taken where that factor is largest; of equal ones the first.
template <typename Choice, typename Time>
const Choice& least_excess(const std::vector<std::vector<Choice>>& candidates, const Time& time) {
  RLX_CHECK(!candidates.empty() && !candidates.front().empty(), "a candidate");
  std::vector<double> least(candidates.front().size(), std::numeric_limits<double>::infinity());
  for (const std::vector<Choice>& candidate : candidates) {
    for (size_t i = 0; i < least.size(); ++i) least[i] = std::min(least[i], time(candidate[i]));
  }
  const std::vector<Choice>* best = nullptr;
  double best_excess = std::numeric_limits<double>::infinity();
  for (const std::vector<Choice>& candidate : candidates) {
    double excess = 0;
    for (size_t i = 0; i < least.size(); ++i) {
      excess = std::max(excess, time(candidate[i]) / least[i]);
    }
    if (best == nullptr || excess < best_excess) {
      best = &candidate;
      best_excess = excess;
    }
  }
  return best->front();
}

}  // namespace rlx
