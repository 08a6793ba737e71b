// SPDX-License-Identifier: Apache-2.0
// Greedy packers and the choice among all packers.
#include "compiler/lower/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "compiler/lower/arena_problem.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx::arena {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

void fill_sections(Problem& problem, std::span<const ArenaItem> live) {
  std::vector<uint32_t> starts;
  for (const ArenaItem& item : live) starts.push_back(item.first);
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());

  // Loads by differences: an item adds at its first section and takes away after its last.
  std::vector<uint64_t> change(starts.size() + 1, 0);
  for (size_t i = 0; i < live.size(); ++i) {
    const auto first = std::lower_bound(starts.begin(), starts.end(), live[i].first);
    const auto after = std::upper_bound(starts.begin(), starts.end(), live[i].last);
    Item& item = problem.items[i];
    item.first_section = narrow<uint32_t>(first - starts.begin());
    item.last_section = narrow<uint32_t>(after - starts.begin() - 1);
    change[item.first_section] += item.size;
    change[item.last_section + 1] -= item.size;  // wraps; the running sum does not
  }
  problem.section_load.resize(starts.size());
  uint64_t load = 0;
  for (size_t section = 0; section < starts.size(); ++section) {
    load += change[section];
    problem.section_load[section] = load;
    problem.lower_bound = std::max(problem.lower_bound, load);
  }
}

void count_conflicts(Problem& problem) {
  std::vector<uint64_t> starts(problem.section_load.size() + 1, 0);
  std::vector<uint64_t> ends(problem.section_load.size() + 1, 0);
  for (const Item& item : problem.items) {
    ++starts[item.first_section];
    ++ends[item.last_section + 1];
  }
  uint64_t live = 0;
  for (size_t section = 0; section < problem.section_load.size(); ++section) {
    live -= ends[section];
    const uint64_t fresh = starts[section];
    problem.conflict_pairs += fresh * live + fresh * (fresh - 1) / 2;
    live += fresh;
  }
}

void list_conflicts(Problem& problem) {
  constexpr uint64_t kMostListedPairs = 16'000'000;
  constexpr uint64_t kListFactor =
      64;  // sorting one conflict costs as much as looking at about 64 items
  const size_t count = problem.items.size();
  problem.listed = problem.conflict_pairs <= kMostListedPairs &&
                   2 * problem.conflict_pairs * kListFactor <= uint64_t{count} * count + 10'000;
  if (!problem.listed) return;
  std::vector<uint32_t> by_start(count);
  std::iota(by_start.begin(), by_start.end(), 0u);
  std::stable_sort(by_start.begin(), by_start.end(), [&](uint32_t a, uint32_t b) {
    return problem.items[a].first_section < problem.items[b].first_section;
  });
  std::vector<std::vector<uint32_t>> lists(count);
  std::vector<uint32_t> live;
  for (const uint32_t item : by_start) {
    const uint32_t start = problem.items[item].first_section;
    std::erase_if(live, [&](uint32_t other) { return problem.items[other].last_section < start; });
    for (const uint32_t other : live) {
      lists[item].push_back(other);
      lists[other].push_back(item);
    }
    live.push_back(item);
  }
  problem.conflict_first.push_back(0);
  for (std::vector<uint32_t>& list : lists) {
    std::sort(list.begin(), list.end());
    problem.conflicts.insert(problem.conflicts.end(), list.begin(), list.end());
    problem.conflict_first.push_back(narrow<uint32_t>(problem.conflicts.size()));
  }
}

struct Occupied {
  uint64_t begin;
  uint64_t end;
  uint32_t item;
};

bool begins_before(const Occupied& a, const Occupied& b) {
  return a.begin < b.begin;
}

// Where item goes among the occupied ranges, which are sorted by begin and may overlap each other;
// those that `matters` denies are passed over.
template <typename Matters>
uint64_t choose_offset(std::span<const Occupied> occupied, uint64_t size, Fit fit,
                       Matters matters) {
  uint64_t top = 0;
  uint64_t best_offset = 0;
  uint64_t best_gap = kNoLimit;
  for (const Occupied& range : occupied) {
    if (!matters(range)) continue;
    if (range.begin > top && range.begin - top >= size) {
      const uint64_t gap = range.begin - top;
      if (fit == Fit::Lowest) return top;
      if (gap < best_gap) {
        best_gap = gap;
        best_offset = top;
      }
    }
    top = std::max(top, range.end);
  }
  return best_gap == kNoLimit ? top : best_offset;
}

// The placed items of one run of place_in_order, looked through in whichever way suits the problem.
class Shelf {
 public:
  explicit Shelf(const Problem& problem) : problem_(problem), ranges_(problem.items.size()) {
    if (!problem.listed) sorted_.reserve(problem.items.size());
  }

  uint64_t offset_for(uint32_t item, Fit fit) {
    const uint64_t size = problem_.items[item].size;
    if (!problem_.listed) {
      return choose_offset(sorted_, size, fit, [&](const Occupied& range) {
        return conflict(problem_.items[item], problem_.items[range.item]);
      });
    }
    sorted_.clear();
    for (const uint32_t other : problem_.conflicts_of(item)) {
      if (ranges_[other].end > 0) sorted_.push_back(ranges_[other]);
    }
    std::sort(sorted_.begin(), sorted_.end(), begins_before);
    return choose_offset(sorted_, size, fit, [](const Occupied&) { return true; });
  }

  void put(uint32_t item, uint64_t offset) {
    const Occupied range{.begin = offset, .end = offset + problem_.items[item].size, .item = item};
    if (problem_.listed) {
      ranges_[item] = range;
    } else {
      sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), range, begins_before), range);
    }
  }

 private:
  const Problem& problem_;
  std::vector<Occupied> ranges_;  // listed: per item, end 0 until it is placed
  std::vector<Occupied> sorted_;  // listed: those around the item in hand; else all placed ones
};

// Sorts all items by a descending key; ties by earlier start, then by index, so that the order is
// total.
template <typename Key>
std::vector<uint32_t> order_by(const Problem& problem, Key key) {
  std::vector<uint32_t> order(problem.items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const auto key_a = key(problem.items[a]);
    const auto key_b = key(problem.items[b]);
    if (key_a != key_b) return key_a > key_b;
    return problem.items[a].first_section < problem.items[b].first_section;
  });
  return order;
}

uint64_t duration(const Item& item) {
  return item.last_section - item.first_section + 1u;
}

}  // namespace

Problem make_problem(std::span<const ArenaItem> items, uint64_t alignment_bytes) {
  Problem problem;
  std::vector<ArenaItem> live;
  for (const ArenaItem& item : items) {
    if (item.bytes == 0) continue;
    live.push_back(item);
    problem.items.push_back({.size = ceil_div(item.bytes, alignment_bytes)});
    problem.total += problem.items.back().size;
  }
  fill_sections(problem, live);
  count_conflicts(problem);
  list_conflicts(problem);
  problem.wanted = problem.lower_bound;
  return problem;
}

std::optional<Placement> place_in_order(const Problem& problem, std::span<const uint32_t> order,
                                        Fit fit, uint64_t limit) {
  Placement placement{.offsets = std::vector<uint64_t>(problem.items.size(), 0)};
  Shelf shelf(problem);
  for (const uint32_t item : order) {
    const uint64_t offset = shelf.offset_for(item, fit);
    shelf.put(item, offset);
    placement.offsets[item] = offset;
    placement.height = std::max(placement.height, offset + problem.items[item].size);
    if (placement.height > limit) return std::nullopt;
  }
  return placement;
}

Placement place_behind(const Problem& problem, std::span<const uint32_t> placed,
                       Placement placement, std::span<const uint32_t> order) {
  Shelf shelf(problem);
  for (const uint32_t item : placed) shelf.put(item, placement.offsets[item]);
  for (const uint32_t item : order) {
    const uint64_t offset = shelf.offset_for(item, Fit::Lowest);
    shelf.put(item, offset);
    placement.offsets[item] = offset;
    placement.height = std::max(placement.height, offset + problem.items[item].size);
  }
  return placement;
}

std::vector<uint32_t> order_by_size(const Problem& problem) {
  struct Key {
    uint64_t size;
    uint64_t duration;
    auto operator<=>(const Key&) const = default;
  };
  return order_by(
      problem, [](const Item& item) { return Key{.size = item.size, .duration = duration(item)}; });
}

std::vector<uint32_t> order_by_area(const Problem& problem) {
  return order_by(problem, [](const Item& item) { return item.size * duration(item); });
}

std::vector<uint32_t> order_by_duration(const Problem& problem) {
  struct Key {
    uint64_t duration;
    uint64_t size;
    auto operator<=>(const Key&) const = default;
  };
  return order_by(
      problem, [](const Item& item) { return Key{.duration = duration(item), .size = item.size}; });
}

std::vector<uint32_t> order_by_breadth(const Problem& problem) {
  std::vector<uint32_t> sections(problem.section_load.size());
  std::iota(sections.begin(), sections.end(), 0u);
  std::stable_sort(sections.begin(), sections.end(), [&](uint32_t a, uint32_t b) {
    return problem.section_load[a] > problem.section_load[b];
  });
  std::vector<uint32_t> section_rank(sections.size());
  for (uint32_t rank = 0; rank < sections.size(); ++rank) section_rank[sections[rank]] = rank;

  std::vector<uint32_t> item_rank(problem.items.size());
  for (size_t i = 0; i < problem.items.size(); ++i) {
    const Item& item = problem.items[i];
    item_rank[i] = *std::min_element(section_rank.begin() + item.first_section,
                                     section_rank.begin() + item.last_section + 1);
  }
  std::vector<uint32_t> order = order_by_size(problem);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return item_rank[a] < item_rank[b]; });
  return order;
}

std::vector<uint32_t> order_outward(const Problem& problem) {
  struct Key {
    uint64_t size;
    int64_t closeness;  // sections from the fullest one, negated
    uint64_t duration;
    auto operator<=>(const Key&) const = default;
  };
  const auto fullest = std::max_element(problem.section_load.begin(), problem.section_load.end());
  const int64_t middle = fullest - problem.section_load.begin();
  return order_by(problem, [&](const Item& item) {
    const int64_t after = int64_t{item.first_section} - middle;
    const int64_t before = middle - int64_t{item.last_section};
    return Key{.size = item.size,
               .closeness = -std::max({after, before, int64_t{0}}),
               .duration = duration(item)};
  });
}

}  // namespace rlx::arena

namespace rlx {
namespace {

struct Greedy {
  std::string_view name;
  std::vector<uint32_t> (*order)(const arena::Problem&);
  arena::Fit fit;
};
constexpr Greedy kGreedy[] = {
    {.name = "size-first-fit", .order = arena::order_by_size, .fit = arena::Fit::Lowest},
    {.name = "breadth-first-fit", .order = arena::order_by_breadth, .fit = arena::Fit::Lowest},
    {.name = "area-first-fit", .order = arena::order_by_area, .fit = arena::Fit::Lowest},
    {.name = "size-best-fit", .order = arena::order_by_size, .fit = arena::Fit::Tightest},
    {.name = "outward-first-fit", .order = arena::order_outward, .fit = arena::Fit::Lowest},
};

struct Winner {
  arena::Placement placement;
  std::vector<uint32_t> order;
  std::string_view packer;
};

Winner best_greedy(const arena::Problem& problem) {
  Winner best;
  for (const Greedy& greedy : kGreedy) {
    std::vector<uint32_t> order = greedy.order(problem);
    std::optional<arena::Placement> placement =
        arena::place_in_order(problem, order, greedy.fit, arena::kNoLimit);
    if (!best.packer.empty() && placement->height >= best.placement.height) continue;
    best = {.placement = std::move(*placement), .order = std::move(order), .packer = greedy.name};
    if (best.placement.height <= problem.wanted) break;
  }
  return best;
}

// The greedy packers, then the searches as long as what is wanted is not reached.
Winner best_of_searches(const arena::Problem& problem, const PackOptions& options) {
  Winner best = best_greedy(problem);
  const auto improve = [&](std::string_view packer, arena::Placement found) {
    if (found.height >= best.placement.height) return;
    best.placement = std::move(found);
    best.packer = packer;
  };
  if (best.placement.height > problem.wanted && options.local_search_budget > 0) {
    improve("local-search",
            arena::search_orders(problem, best.order, best.placement, options.local_search_budget));
  }
  if (best.placement.height > problem.wanted && options.exact_search_budget > 0) {
    improve("exact-search",
            arena::search_exactly(problem, best.placement, options.exact_search_budget));
  }
  return best;
}

Winner best_of_all(const arena::Problem& problem, const PackOptions& options) {
  // A second, about: 23,000 items of which most live at once.
  constexpr uint64_t kMostPlacementCost = uint64_t{1} << 29;
  if (problem.placement_cost() > kMostPlacementCost)
    return {.placement = arena::place_by_time(problem), .order = {}, .packer = "sweep"};
  Winner best = best_greedy(problem);
  constexpr uint64_t kMostCoreCost = uint64_t{1} << 27;  // a quarter of a second, about
  const bool searches = options.local_search_budget > 0 || options.exact_search_budget > 0;
  if (best.placement.height <= problem.wanted || !searches ||
      problem.placement_cost() > kMostCoreCost)
    return best;
  const arena::Core core = arena::make_core(problem);
  const Winner found = best_of_searches(core.problem, options);
  arena::Placement whole = arena::place_aside(problem, core, found.placement);
  if (whole.height < best.placement.height) {
    best.placement = std::move(whole);
    best.packer = found.packer;
  }
  return best;
}

}  // namespace

ArenaLayout pack(std::span<const ArenaItem> items, uint64_t alignment_bytes,
                 const PackOptions& options) {
  RLX_CHECK(alignment_bytes > 0, "arena alignment");
  for (const ArenaItem& item : items) {
    RLX_CHECK(item.first <= item.last,
              "lifetime of an arena item of " + std::to_string(item.bytes) + " bytes: first wave " +
                  std::to_string(item.first) + ", last wave " + std::to_string(item.last));
  }
  arena::Problem problem = arena::make_problem(items, alignment_bytes);
  problem.wanted = std::max(problem.lower_bound, options.enough_bytes / alignment_bytes);
  const Winner best = best_of_all(problem, options);

  ArenaLayout layout{.offsets = std::vector<uint64_t>(items.size(), 0),
                     .height_bytes = best.placement.height * alignment_bytes,
                     .lower_bound_bytes = problem.lower_bound * alignment_bytes,
                     .total_bytes = problem.total * alignment_bytes,
                     .packer = best.packer};
  size_t next = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].bytes == 0) continue;
    layout.offsets[i] = best.placement.offsets[next++] * alignment_bytes;
  }
  return layout;
}

}  // namespace rlx
