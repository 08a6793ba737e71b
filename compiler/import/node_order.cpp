// SPDX-License-Identifier: Apache-2.0
// Depth-first topological order with an explicit stack.
#include "compiler/import/node_order.h"

#include <algorithm>
#include <cstdint>

namespace rlx {
namespace {

enum class Mark : uint8_t { New, Open, Done };

struct Visit {
  size_t node = 0;
  size_t next_producer = 0;
};

}  // namespace

NodeOrder order_nodes(const std::vector<std::vector<size_t>>& producers) {
  NodeOrder result;
  std::vector<Mark> marks(producers.size(), Mark::New);
  std::vector<Visit> stack;
  for (size_t start = 0; start < producers.size(); ++start) {
    if (marks[start] != Mark::New) continue;
    stack.push_back({start, 0});
    marks[start] = Mark::Open;
    while (!stack.empty()) {
      Visit& visit = stack.back();
      if (visit.next_producer == producers[visit.node].size()) {
        marks[visit.node] = Mark::Done;
        result.order.push_back(visit.node);
        stack.pop_back();
        continue;
      }
      const size_t producer = producers[visit.node][visit.next_producer++];
      if (marks[producer] == Mark::New) {
        marks[producer] = Mark::Open;
        stack.push_back({producer, 0});
      } else if (marks[producer] == Mark::Open && result.cycles.size() < kMaxCycles) {
        // The stack from the producer to its top reads in a circle.
        std::vector<size_t> cycle;
        const auto first = std::find_if(stack.begin(), stack.end(), [producer](const Visit& open) {
          return open.node == producer;
        });
        for (auto open = first; open != stack.end(); ++open) cycle.push_back(open->node);
        result.cycles.push_back(std::move(cycle));
      }
    }
  }
  return result;
}

}  // namespace rlx
