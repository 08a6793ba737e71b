// SPDX-License-Identifier: Apache-2.0
// The packer of problems that are too large for the others: one sweep through time.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "compiler/lower/arena_problem.h"

namespace rlx::arena {
namespace {

// Gaps below the height, none beside another.
class Gaps {
 public:
  // The lowest of the tightest gaps that hold `size`, or a place at the end of the arena.
  uint64_t take(uint64_t size) {
    const auto fit = by_size_.lower_bound({size, 0});
    if (fit != by_size_.end()) {
      const uint64_t offset = fit->second;
      const uint64_t left = fit->first - size;
      remove(gaps_.find(offset));
      if (left > 0) add(offset + size, left);
      return offset;
    }
    uint64_t offset = height_;
    if (!gaps_.empty()) {
      const auto last = std::prev(gaps_.end());
      if (last->first + last->second == height_) {
        offset = last->first;
        remove(last);
      }
    }
    height_ = offset + size;
    return offset;
  }

  void give_back(uint64_t offset, uint64_t size) {
    const auto after = gaps_.lower_bound(offset);
    if (after != gaps_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        offset = before->first;
        size += before->second;
        remove(before);
      }
    }
    const auto behind = gaps_.find(offset + size);
    if (behind != gaps_.end()) {
      size += behind->second;
      remove(behind);
    }
    add(offset, size);
  }

  [[nodiscard]] uint64_t height() const { return height_; }

 private:
  void add(uint64_t offset, uint64_t size) {
    gaps_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void remove(std::map<uint64_t, uint64_t>::iterator gap) {
    by_size_.erase({gap->second, gap->first});
    gaps_.erase(gap);
  }

  std::map<uint64_t, uint64_t> gaps_;                // offset -> size
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // size, offset
  uint64_t height_ = 0;
};

}  // namespace

Placement place_by_time(const Problem& problem) {
  std::vector<uint32_t> starts(problem.items.size());
  std::iota(starts.begin(), starts.end(), 0u);
  std::vector<uint32_t> ends = starts;
  std::stable_sort(starts.begin(), starts.end(), [&](uint32_t a, uint32_t b) {
    const Item& first = problem.items[a];
    const Item& second = problem.items[b];
    if (first.first_section != second.first_section)
      return first.first_section < second.first_section;
    return first.size > second.size;
  });
  std::stable_sort(ends.begin(), ends.end(), [&](uint32_t a, uint32_t b) {
    return problem.items[a].last_section < problem.items[b].last_section;
  });
  Placement placement{.offsets = std::vector<uint64_t>(problem.items.size(), 0)};
  Gaps gaps;
  size_t dead = 0;
  for (const uint32_t item : starts) {
    for (; problem.items[ends[dead]].last_section < problem.items[item].first_section; ++dead)
      gaps.give_back(placement.offsets[ends[dead]], problem.items[ends[dead]].size);
    placement.offsets[item] = gaps.take(problem.items[item].size);
  }
  placement.height = gaps.height();
  return placement;
}

}  // namespace rlx::arena
