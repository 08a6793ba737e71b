// SPDX-License-Identifier: Apache-2.0
// The packing problem as the packers see it: sizes in units of the alignment, time cut into
// sections. Internal to the arena.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/lower/arena.h"

namespace rlx::arena {

// An item whose size is not 0. A section begins where some item begins; two items are live together
// exactly when they have a section in common, so sections stand for waves without loss.
struct Item {
  uint64_t size = 0;  // in units of the alignment
  uint32_t first_section = 0;
  uint32_t last_section = 0;
};

inline bool conflict(const Item& a, const Item& b) {
  return a.first_section <= b.last_section && b.first_section <= a.last_section;
}

struct Problem {
  std::vector<Item> items;
  std::vector<uint64_t> section_load;  // per section: sum of live sizes
  uint64_t lower_bound = 0;            // largest section load
  uint64_t wanted = 0;                 // a height that ends the search; at least lower_bound
  uint64_t total = 0;                  // sum of all sizes
  uint64_t conflict_pairs = 0;
  // Where conflicts are few, each item has the list of the items that it conflicts with; else
  // `listed` is false and the lists are absent, because looking through all items is as fast then
  // and takes no memory.
  bool listed = false;
  std::vector<uint32_t>
      conflict_first;               // item -> where its conflicts begin; one more entry than items
  std::vector<uint32_t> conflicts;  // items live together with the item, ascending

  [[nodiscard]] std::span<const uint32_t> conflicts_of(uint32_t item) const {
    return std::span(conflicts).subspan(conflict_first[item],
                                        conflict_first[item + 1] - conflict_first[item]);
  }
  // Calls visit(other) for each item that is live together with `item`, ascending.
  template <typename Visit>
  void for_each_conflict(uint32_t item, Visit visit) const {
    if (listed) {
      for (const uint32_t other : conflicts_of(item)) visit(other);
      return;
    }
    for (uint32_t other = 0; other < items.size(); ++other) {
      if (other != item && conflict(items[item], items[other])) visit(other);
    }
  }
  // Elementary operations of one placement of all items.
  [[nodiscard]] uint64_t placement_cost() const {
    constexpr uint64_t kSortFactor = 4;  // sorting costs more than listing
    const uint64_t count = items.size();
    return listed ? (2 * conflict_pairs + count) * kSortFactor : count * count;
  }
};

struct Placement {
  std::vector<uint64_t> offsets;  // per item, in units
  uint64_t height = 0;
};

enum class Fit : uint8_t { Lowest, Tightest };

// Problem of the items whose size is not 0, in their order.
Problem make_problem(std::span<const ArenaItem> items, uint64_t alignment_bytes);

// Places the items one by one in `order`, each into the lowest or the tightest gap between the
// placed items that it conflicts with, else on top of them. nullopt as soon as the height would
// exceed `limit`.
std::optional<Placement> place_in_order(const Problem& problem, std::span<const uint32_t> order,
                                        Fit fit, uint64_t limit);

// `placement` of the items `placed`, and those of `order` put one by one into the lowest gap.
Placement place_behind(const Problem& problem, std::span<const uint32_t> placed,
                       Placement placement, std::span<const uint32_t> order);

// Places the items by their first sections, each into the tightest gap that the dead ones left,
// else on top: n log n, for problems whose placement_cost() forbids the others.
Placement place_by_time(const Problem& problem);

std::vector<uint32_t> order_by_size(const Problem& problem);
std::vector<uint32_t> order_by_area(const Problem& problem);
// The longest lives first, of equal ones the largest items.
std::vector<uint32_t> order_by_duration(const Problem& problem);
// Sections from the fullest to the emptiest, in each the largest item first.
std::vector<uint32_t> order_by_breadth(const Problem& problem);

// The largest first, of equal ones those closest to the fullest section: of items of one size, each
// finds those that it conflicts with live together where it begins or ends.
std::vector<uint32_t> order_outward(const Problem& problem);

// A problem without the items that fit below its wanted height wherever the others stand.
struct Core {
  Problem problem;              // wants the height that the whole wants
  std::vector<uint32_t> items;  // item of the core -> item of the whole, ascending
  std::vector<uint32_t> aside;  // items of the whole; each fits behind the core and those after it
};
Core make_core(const Problem& problem);
// A placement of the whole from one of its core, as high as that or as what is wanted.
Placement place_aside(const Problem& problem, const Core& core, const Placement& placement);

// Improves on `best` by moving items in the order of placement; returns the best placement found.
Placement search_orders(const Problem& problem, std::vector<uint32_t> order, Placement best,
                        uint64_t budget);

// Exact search for a height below best.height; returns the best placement found within the budget.
Placement search_exactly(const Problem& problem, Placement best, uint64_t budget);

}  // namespace rlx::arena
