// SPDX-License-Identifier: Apache-2.0
// The core of a packing problem: what is left when the items that fit wherever the others stand are
// set aside.
//
// Let an item of size s conflict with k others of total size t. Placed after them, it finds at most
// k + 1 gaps below the wanted height w, w - t units wide together at least; where that is more than
// k + 1 gaps of s - 1 units could hold, one of them holds the item. Sizes count in units of the
// greatest common divisor of all that is connected with the item by conflicts, because packers put
// items on top of each other and so leave gaps of whole units. Setting one item aside lessens k and
// t of its neighbours, and where small items are gone, the unit grows.
#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/lower/arena_problem.h"

namespace rlx::arena {
namespace {

class Peeler {
 public:
  explicit Peeler(const Problem& problem)
      : problem_(problem),
        unit_(problem.items.size(), 1),
        beside_size_(problem.items.size(), 0),
        beside_count_(problem.items.size(), 0),
        is_aside_(problem.items.size(), false) {
    for (uint32_t item = 0; item < problem.items.size(); ++item) {
      problem.for_each_conflict(item, [&](uint32_t other) {
        beside_size_[item] += problem_.items[other].size;
        ++beside_count_[item];
      });
    }
  }

  void run() {
    constexpr int kMostRounds = 8;  // a unit that grows at least doubles
    size_t known = 0;
    for (int round = 0; round < kMostRounds; ++round) {
      find_units();
      peel();
      if (aside_.size() == known) return;
      known = aside_.size();
    }
  }

  [[nodiscard]] std::vector<uint32_t> left() const {
    std::vector<uint32_t> items;
    for (uint32_t item = 0; item < problem_.items.size(); ++item) {
      if (!is_aside_[item]) items.push_back(item);
    }
    return items;
  }
  [[nodiscard]] const std::vector<uint32_t>& aside() const { return aside_; }

 private:
  // Units of all items left, by the groups that share no section with each other.
  void find_units() {
    std::vector<uint32_t> items = left();
    std::stable_sort(items.begin(), items.end(), [&](uint32_t a, uint32_t b) {
      return problem_.items[a].first_section < problem_.items[b].first_section;
    });
    size_t begin = 0;
    while (begin < items.size()) {
      uint32_t reach = problem_.items[items[begin]].last_section;
      uint64_t unit = 0;
      size_t end = begin;
      while (end < items.size() && problem_.items[items[end]].first_section <= reach) {
        reach = std::max(reach, problem_.items[items[end]].last_section);
        unit = std::gcd(unit, problem_.items[items[end]].size);
        ++end;
      }
      for (; begin < end; ++begin) unit_[items[begin]] = unit;
    }
  }

  void peel() {
    std::vector<uint32_t> waiting = left();
    for (size_t next = 0; next < waiting.size(); ++next) {
      const uint32_t item = waiting[next];
      if (is_aside_[item] || !fits_anywhere(item)) continue;
      is_aside_[item] = true;
      aside_.push_back(item);
      problem_.for_each_conflict(item, [&](uint32_t other) {
        if (is_aside_[other]) return;
        const bool fitted = fits_anywhere(other);
        beside_size_[other] -= problem_.items[item].size;
        --beside_count_[other];
        if (!fitted && fits_anywhere(other)) waiting.push_back(other);
      });
    }
  }

  [[nodiscard]] bool fits_anywhere(uint32_t item) const {
    const uint64_t wanted = problem_.wanted / unit_[item];
    const uint64_t size = problem_.items[item].size / unit_[item];
    const uint64_t beside = beside_size_[item] / unit_[item];
    return beside < wanted && (wanted - beside - 1) / (beside_count_[item] + 1) >= size - 1;
  }

  const Problem& problem_;
  std::vector<uint64_t> unit_;
  std::vector<uint64_t> beside_size_;   // per item: of those left that it conflicts with
  std::vector<uint64_t> beside_count_;  // and how many they are
  std::vector<bool> is_aside_;
  std::vector<uint32_t> aside_;
};

}  // namespace

Core make_core(const Problem& problem) {
  Peeler peeler(problem);
  peeler.run();
  Core core{.problem = {}, .items = peeler.left(), .aside = peeler.aside()};
  std::vector<ArenaItem> items;
  for (const uint32_t item : core.items) {
    const Item& left = problem.items[item];
    items.push_back({.bytes = left.size, .first = left.first_section, .last = left.last_section});
  }
  core.problem = make_problem(items, 1);
  core.problem.wanted = problem.wanted;
  return core;
}

Placement place_aside(const Problem& problem, const Core& core, const Placement& placement) {
  Placement whole{.offsets = std::vector<uint64_t>(problem.items.size(), 0),
                  .height = placement.height};
  for (size_t i = 0; i < core.items.size(); ++i)
    whole.offsets[core.items[i]] = placement.offsets[i];
  const std::vector<uint32_t> last_first(core.aside.rbegin(), core.aside.rend());
  return place_behind(problem, core.items, std::move(whole), last_first);
}

}  // namespace rlx::arena
