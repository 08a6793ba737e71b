// SPDX-License-Identifier: Apache-2.0
// Local search over the order of placement: moves and swaps of items, restarted from the best order
// when it stalls.
#include <algorithm>
#include <utility>

#include "compiler/lower/arena_problem.h"

namespace rlx::arena {
namespace {

// SplitMix64 with a fixed seed: one problem has one result.
class Random {
 public:
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  size_t below(size_t bound) { return static_cast<size_t>(next() % bound); }

 private:
  uint64_t state_ = 0x726C78;
};

// Position in `order` of one of the items that reach the top.
size_t pick_top_item(const Problem& problem, const Placement& placement,
                     std::span<const uint32_t> order, Random& random) {
  std::vector<size_t> top;
  for (size_t position = 0; position < order.size(); ++position) {
    const uint32_t item = order[position];
    if (placement.offsets[item] + problem.items[item].size == placement.height) {
      top.push_back(position);
    }
  }
  return top[random.below(top.size())];
}

// Mostly gives an item at the top an earlier turn; now and then changes something at random.
void mutate(const Problem& problem, const Placement& placement, std::vector<uint32_t>& order,
            Random& random) {
  const uint64_t kind = random.next() % 8;
  size_t from = random.below(order.size());
  size_t to = random.below(order.size());
  if (kind < 6) {
    from = pick_top_item(problem, placement, order, random);
    to = from == 0 ? 0 : random.below(from);
  }
  if (kind % 2 == 0) {
    std::swap(order[from], order[to]);
    return;
  }
  const auto begin = order.begin();
  if (to < from) {
    std::rotate(begin + static_cast<ptrdiff_t>(to), begin + static_cast<ptrdiff_t>(from),
                begin + static_cast<ptrdiff_t>(from) + 1);
  } else {
    std::rotate(begin + static_cast<ptrdiff_t>(from), begin + static_cast<ptrdiff_t>(from) + 1,
                begin + static_cast<ptrdiff_t>(to) + 1);
  }
}

}  // namespace

Placement search_orders(const Problem& problem, std::vector<uint32_t> order, Placement best,
                        uint64_t budget) {
  constexpr uint32_t kStallLimit = 400;
  if (order.size() < 2) return best;
  const uint64_t cost = problem.placement_cost();
  Random random;
  std::vector<uint32_t> best_order = order;
  Placement current = best;
  uint32_t stalled = 0;
  for (uint64_t spent = 0; spent + cost <= budget && best.height > problem.wanted; spent += cost) {
    std::vector<uint32_t> candidate = order;
    mutate(problem, current, candidate, random);
    std::optional<Placement> placed =
        place_in_order(problem, candidate, Fit::Lowest, current.height);
    ++stalled;
    if (placed) {
      order = std::move(candidate);
      current = std::move(*placed);
      if (current.height < best.height) {
        best = current;
        best_order = order;
        stalled = 0;
      }
    }
    if (stalled < kStallLimit) continue;
    // A kick: several changes at once, taken whatever they cost.
    stalled = 0;
    order = best_order;
    current = best;
    for (int i = 0; i < 4; ++i) mutate(problem, current, order, random);
    current = *place_in_order(problem, order, Fit::Lowest, ~uint64_t{0});
    spent += cost;
    if (current.height < best.height) {
      best = current;
      best_order = order;
    }
  }
  return best;
}

}  // namespace rlx::arena
