// SPDX-License-Identifier: Apache-2.0
// Exact packing under a given capacity: branch and bound over canonical layouts.
//
// A layout is canonical when no item could be put at a lower offset with all others left where they
// are; every layout that fits can be made canonical without growing. Taken in the order of (offset,
// rank), each item of a canonical layout stands on the highest of the earlier items that it
// conflicts with (its floor). So the search only decides which item comes next:
//   - offsets never decrease along a branch, and equal offsets take ranks in ascending order;
//   - an item whose floor is at or above a place where another unplaced item fits whole is not
//   next: that one goes below it;
//   - of equal items only the first unplaced one is tried;
//   - in each section, the lowest possible offset of what is unplaced plus its total size must stay
//   within the capacity;
//   - when the unplaced items fall apart into groups with no common section, each group is searched
//   by itself.
#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/lower/arena_problem.h"

namespace rlx::arena {
namespace {

constexpr size_t kMostItems = 2000;  // the recursion is as deep as there are items

enum class Verdict : uint8_t { Found, Impossible, OutOfBudget };

class ExactSearch {
 public:
  ExactSearch(const Problem& problem, uint64_t capacity, uint64_t budget)
      : problem_(problem),
        capacity_(capacity),
        budget_(budget),
        floor_(problem.items.size(), 0),
        offset_(problem.items.size(), 0),
        section_low_(problem.section_load.size(), 0),
        section_rest_(problem.section_load.size(), 0) {
    rank_items();
  }

  Verdict run() {
    std::vector<uint32_t> all(problem_.items.size());
    std::iota(all.begin(), all.end(), 0u);
    std::stable_sort(all.begin(), all.end(), [&](uint32_t a, uint32_t b) {
      return problem_.items[a].first_section < problem_.items[b].first_section;
    });
    return solve_groups(all, {});
  }
  [[nodiscard]] uint64_t spent() const { return spent_; }
  [[nodiscard]] const std::vector<uint64_t>& offsets() const { return offset_; }

 private:
  // The last placed item's place in the canonical order.
  struct Last {
    uint64_t offset = 0;
    uint32_t rank = 0;  // ranks begin at 1
  };
  struct FloorChange {
    uint32_t item;
    uint64_t before;
  };

  void rank_items() {
    rank_.resize(problem_.items.size());
    uint32_t next = 1;
    for (const uint32_t item : order_by_area(problem_)) rank_[item] = next++;
  }

  // Searches each group of `items` (sorted by first section) that shares no section with the
  // others.
  Verdict solve_groups(const std::vector<uint32_t>& items, Last last) {
    size_t begin = 0;
    while (begin < items.size()) {
      uint32_t reach = problem_.items[items[begin]].last_section;
      size_t end = begin + 1;
      while (end < items.size() && problem_.items[items[end]].first_section <= reach) {
        reach = std::max(reach, problem_.items[items[end]].last_section);
        ++end;
      }
      const Verdict verdict =
          solve(std::vector<uint32_t>(items.begin() + static_cast<ptrdiff_t>(begin),
                                      items.begin() + static_cast<ptrdiff_t>(end)),
                last);
      if (verdict != Verdict::Found) return verdict;
      begin = end;
    }
    return Verdict::Found;
  }

  Verdict solve(const std::vector<uint32_t>& items, Last last) {
    if (!fits(items, last)) return Verdict::Impossible;
    if (spent_ > budget_) return Verdict::OutOfBudget;
    for (const uint32_t item : candidates(items, last)) {
      const std::vector<FloorChange> changes = place(item, items);
      std::vector<uint32_t> rest;
      rest.reserve(items.size() - 1);
      for (const uint32_t other : items) {
        if (other != item) rest.push_back(other);
      }
      const Verdict verdict = solve_groups(rest, {.offset = offset_[item], .rank = rank_[item]});
      // Floors go back even after success: a sibling group may still fail, and then another item is
      // tried here.
      for (const FloorChange& change : changes) floor_[change.item] = change.before;
      if (verdict != Verdict::Impossible) return verdict;
    }
    return Verdict::Impossible;
  }

  // Whether, by the load of each section, the items may still fit above what is placed.
  bool fits(const std::vector<uint32_t>& items, Last last) {
    uint32_t begin = problem_.items[items.front()].first_section;
    uint32_t end = begin;
    for (const uint32_t item : items) end = std::max(end, problem_.items[item].last_section);
    std::fill(section_low_.begin() + begin, section_low_.begin() + end + 1, capacity_);
    std::fill(section_rest_.begin() + begin, section_rest_.begin() + end + 1, 0);
    for (const uint32_t index : items) {
      const Item& item = problem_.items[index];
      const uint64_t low = std::max(floor_[index], last.offset);
      if (low > capacity_ || item.size > capacity_ - low) return false;
      for (uint32_t section = item.first_section; section <= item.last_section; ++section) {
        section_low_[section] = std::min(section_low_[section], low);
        section_rest_[section] += item.size;
      }
      spent_ += item.last_section - item.first_section + 4u;
    }
    spent_ += end - begin + 1u;
    for (uint32_t section = begin; section <= end; ++section) {
      if (section_rest_[section] > capacity_ - section_low_[section]) return false;
    }
    return true;
  }

  bool equal_items(uint32_t a, uint32_t b) const {
    const Item& x = problem_.items[a];
    const Item& y = problem_.items[b];
    return x.size == y.size && x.first_section == y.first_section &&
           x.last_section == y.last_section;
  }

  // What may come next, the lowest floor first.
  std::vector<uint32_t> candidates(const std::vector<uint32_t>& items, Last last) const {
    uint64_t lowest_top = capacity_ + 1;
    for (const uint32_t item : items) {
      lowest_top = std::min(lowest_top, floor_[item] + problem_.items[item].size);
    }
    std::vector<uint32_t> chosen;
    for (const uint32_t item : items) {
      const uint64_t floor = floor_[item];
      const bool in_order =
          floor > last.offset || (floor == last.offset && rank_[item] > last.rank);
      if (!in_order || floor >= lowest_top) continue;
      // Equal items share first_section, so they stand close together; the one with the lowest rank
      // goes first.
      const bool twin_first = std::any_of(chosen.begin(), chosen.end(), [&](uint32_t other) {
        return equal_items(item, other) && floor_[other] == floor;
      });
      if (!twin_first) chosen.push_back(item);
    }
    std::sort(chosen.begin(), chosen.end(), [&](uint32_t a, uint32_t b) {
      if (floor_[a] != floor_[b]) return floor_[a] < floor_[b];
      return rank_[a] < rank_[b];
    });
    return chosen;
  }

  // Puts the item on its floor and raises the floors of the unplaced items that it conflicts with.
  std::vector<FloorChange> place(uint32_t item, const std::vector<uint32_t>& unplaced) {
    offset_[item] = floor_[item];
    const uint64_t top = floor_[item] + problem_.items[item].size;
    const Item& placed = problem_.items[item];
    std::vector<FloorChange> changes;
    for (const uint32_t other : unplaced) {
      const Item& candidate = problem_.items[other];
      const bool together = candidate.first_section <= placed.last_section &&
                            placed.first_section <= candidate.last_section;
      if (other == item || !together || floor_[other] >= top) continue;
      changes.push_back({.item = other, .before = floor_[other]});
      floor_[other] = top;
    }
    spent_ += unplaced.size();
    return changes;
  }

  const Problem& problem_;
  uint64_t capacity_;
  uint64_t budget_;
  uint64_t spent_ = 0;
  std::vector<uint32_t> rank_;
  std::vector<uint64_t> floor_;   // of unplaced items
  std::vector<uint64_t> offset_;  // of placed items
  std::vector<uint64_t> section_low_;
  std::vector<uint64_t> section_rest_;
};

}  // namespace

Placement search_exactly(const Problem& problem, Placement best, uint64_t budget) {
  if (problem.items.empty() || problem.items.size() > kMostItems) return best;
  // `impossible` is the largest height that is known not to do, or that was given up.
  uint64_t impossible = problem.lower_bound - 1;
  uint64_t capacity = std::min(problem.wanted, best.height - 1);
  uint64_t share = budget / 2;  // half for what is wanted, then half of what is left each time
  while (best.height > problem.wanted && impossible + 1 < best.height && share > 0) {
    ExactSearch search(problem, capacity, share);
    const Verdict verdict = search.run();
    budget -= std::min(budget, search.spent());
    if (verdict == Verdict::Found) {
      best.offsets = search.offsets();
      best.height = 0;
      for (size_t i = 0; i < problem.items.size(); ++i) {
        best.height = std::max(best.height, best.offsets[i] + problem.items[i].size);
      }
    } else {
      impossible = capacity;
    }
    capacity = impossible + (best.height - impossible) / 2;
    if (capacity <= impossible) break;
    share = budget / 2;
  }
  return best;
}

}  // namespace rlx::arena
