// SPDX-License-Identifier: Apache-2.0
// Packing of values with lifetimes into one arena: the best of several packers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rlx {

// Bytes needed during all waves first..last, inclusive.
struct ArenaItem {
  uint64_t bytes = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

// Elementary operations that a search may spend; 0 switches it off. Counts, not times: results do
// not depend on the machine.
struct PackOptions {
  uint64_t local_search_budget = 50'000'000;
  uint64_t exact_search_budget = 50'000'000;
  uint64_t enough_bytes = 0;  // no search for less than this or the lower bound
};

struct ArenaLayout {
  std::vector<uint64_t> offsets;   // per item, multiples of the alignment; 0 for an item of 0 bytes
  uint64_t height_bytes = 0;       // arena size
  uint64_t lower_bound_bytes = 0;  // largest sum of aligned sizes live in one wave
  uint64_t total_bytes = 0;        // sum of all aligned sizes
  std::string_view packer;  // name of the packer that won; the earlier one where two are equal
};

// Places every item so that items with a common wave share no byte.
//   1. Five greedy placements: by size into the lowest gap, by breadth of the waves, by area, by
//   size into the tightest gap, by size outward from the fullest wave.
//   2. The core: items that fit wherever the others stand are set aside, and placed last. Of it:
//      a. the greedy placements,
//      b. a local search over the order of placement,
//      c. an exact search that asks for the lower bound first, then for heights between it and the
//      best one known.
// It stops as soon as the height equals the lower bound or is enough. Every `first` must be at most
// its `last`; alignment_bytes > 0.
ArenaLayout pack(std::span<const ArenaItem> items, uint64_t alignment_bytes,
                 const PackOptions& options = {});

}  // namespace rlx
