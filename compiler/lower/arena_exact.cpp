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
//   within the capacity; an item that was passed over will be lifted by another unplaced one, and
//   where none is left that could, the branch ends;
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

// Per item: those live together with it.
using Neighbours = std::vector<std::vector<uint32_t>>;

Neighbours find_neighbours(const Problem& problem) {
  Neighbours neighbours(problem.items.size());
  for (uint32_t a = 0; a < problem.items.size(); ++a) {
    for (uint32_t b = 0; b < a; ++b) {
      const Item& x = problem.items[a];
      const Item& y = problem.items[b];
      if (x.first_section > y.last_section || y.first_section > x.last_section) continue;
      neighbours[a].push_back(b);
      neighbours[b].push_back(a);
    }
  }
  return neighbours;
}

class ExactSearch {
 public:
  // `order`: the items, those with the lowest ranks first.
  ExactSearch(const Problem& problem, const Neighbours& neighbours, std::span<const uint32_t> order,
              uint64_t capacity, uint64_t budget)
      : problem_(problem),
        neighbours_(neighbours),
        capacity_(capacity),
        budget_(budget),
        rank_(problem.items.size(), 0),
        placed_(problem.items.size(), false),
        floor_(problem.items.size(), 0),
        offset_(problem.items.size(), 0),
        section_low_(problem.section_load.size(), 0),
        section_rest_(problem.section_load.size(), 0) {
    uint32_t next = 1;
    for (const uint32_t item : order) rank_[item] = next++;
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
      const std::vector<FloorChange> changes = place(item);
      std::vector<uint32_t> rest;
      rest.reserve(items.size() - 1);
      for (const uint32_t other : items) {
        if (other != item) rest.push_back(other);
      }
      const Verdict verdict = solve_groups(rest, {.offset = offset_[item], .rank = rank_[item]});
      // Floors go back even after success: a sibling group may still fail, and then another item is
      // tried here.
      placed_[item] = false;
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
      const uint64_t low = lowest_offset(index, last);
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

  // Whether the item's turn is still to come by the order of the branch.
  [[nodiscard]] bool in_order(uint32_t item, Last last) const {
    return floor_[item] > last.offset || (floor_[item] == last.offset && rank_[item] > last.rank);
  }

  // A lower bound of where the unplaced item will stand. One that was passed over must be lifted by
  // another unplaced one, which itself stands at or above the last placed item.
  uint64_t lowest_offset(uint32_t item, Last last) {
    if (in_order(item, last)) return floor_[item];
    uint64_t lowest = capacity_ + 1;
    for (const uint32_t other : neighbours_[item]) {
      if (placed_[other]) continue;
      lowest = std::min(lowest, std::max(floor_[other], last.offset) + problem_.items[other].size);
    }
    spent_ += neighbours_[item].size();
    return lowest;
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
      if (!in_order(item, last) || floor >= lowest_top) continue;
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
  std::vector<FloorChange> place(uint32_t item) {
    offset_[item] = floor_[item];
    placed_[item] = true;
    const uint64_t top = floor_[item] + problem_.items[item].size;
    std::vector<FloorChange> changes;
    for (const uint32_t other : neighbours_[item]) {
      if (placed_[other] || floor_[other] >= top) continue;
      changes.push_back({.item = other, .before = floor_[other]});
      floor_[other] = top;
    }
    spent_ += neighbours_[item].size();
    return changes;
  }

  const Problem& problem_;
  const Neighbours& neighbours_;
  uint64_t capacity_;
  uint64_t budget_;
  uint64_t spent_ = 0;
  std::vector<uint32_t> rank_;
  std::vector<bool> placed_;
  std::vector<uint64_t> floor_;   // of unplaced items
  std::vector<uint64_t> offset_;  // of placed items
  std::vector<uint64_t> section_low_;
  std::vector<uint64_t> section_rest_;
};

}  // namespace

namespace {

// Ranks decide which branch is looked into first, and so whether a layout is found in time: what
// one order misses, another one often finds at once.
std::vector<std::vector<uint32_t>> rank_orders(const Problem& problem) {
  return {order_by_duration(problem), order_by_area(problem), order_by_size(problem),
          order_by_breadth(problem)};
}

// One search after the other by each order, with an equal share of the budget each, until one is
// decided. `offsets` is that of a layout found.
struct Attempt {
  Verdict verdict = Verdict::OutOfBudget;
  uint64_t spent = 0;
  std::vector<uint64_t> offsets;
};
Attempt attempt(const Problem& problem, const Neighbours& neighbours,
                const std::vector<std::vector<uint32_t>>& orders, uint64_t capacity,
                uint64_t budget) {
  Attempt result;
  for (const std::vector<uint32_t>& order : orders) {
    ExactSearch search(problem, neighbours, order, capacity, budget / orders.size());
    result.verdict = search.run();
    result.spent += search.spent();
    if (result.verdict == Verdict::Found) result.offsets = search.offsets();
    if (result.verdict != Verdict::OutOfBudget) break;
  }
  return result;
}

}  // namespace

Placement search_exactly(const Problem& problem, Placement best, uint64_t budget) {
  if (problem.items.empty() || problem.items.size() > kMostItems) return best;
  const Neighbours neighbours = find_neighbours(problem);
  const std::vector<std::vector<uint32_t>> orders = rank_orders(problem);
  // `impossible` is the largest height that is known not to do, or that was given up.
  uint64_t impossible = problem.lower_bound - 1;
  uint64_t capacity = std::min(problem.wanted, best.height - 1);
  uint64_t share = budget / 2;  // half for what is wanted, then half of what is left each time
  while (best.height > problem.wanted && impossible + 1 < best.height && share > 0) {
    Attempt made = attempt(problem, neighbours, orders, capacity, share);
    budget -= std::min(budget, made.spent);
    if (made.verdict == Verdict::Found) {
      best.offsets = std::move(made.offsets);
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
