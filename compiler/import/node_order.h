// SPDX-License-Identifier: Apache-2.0
// Topological order of nodes that may stand in any order in a file.
#pragma once

#include <cstddef>
#include <vector>

namespace rlx {

struct NodeOrder {
  std::vector<size_t>
      order;  // every node once, producers first; file order where that is one already
  std::vector<std::vector<size_t>>
      cycles;  // nodes of each cycle met, reader before producer; at most kMaxCycles
};
inline constexpr size_t kMaxCycles = 16;

// producers[i]: nodes whose outputs node i reads. Linear time, no recursion.
NodeOrder order_nodes(const std::vector<std::vector<size_t>>& producers);

}  // namespace rlx
