// SPDX-License-Identifier: Apache-2.0
// Which steps lead to which, by two forests of the edges: an answer at once for most pairs.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/verify/verify_context.h"

namespace rlx {

// Numbers 0 to n - 1, each under a parent that is less than itself, or a root.
class Forest {
 public:
  static constexpr uint32_t kRoot = std::numeric_limits<uint32_t>::max();

  explicit Forest(std::span<const uint32_t> parents)
      : begins_(parents.size()), ends_(parents.size()) {
    // First the size of each tree, then the numbers of each tree as one range: a tree's own range
    // begins with its root.
    std::vector<uint32_t> sizes(parents.size(), 1);
    for (size_t i = parents.size(); i-- > 0;) {
      if (parents[i] != kRoot) sizes[parents[i]] += sizes[i];
    }
    uint32_t free = 0;
    std::vector<uint32_t> free_below(parents.size());
    for (size_t i = 0; i < parents.size(); ++i) {
      uint32_t& place = parents[i] == kRoot ? free : free_below[parents[i]];
      begins_[i] = place;
      ends_[i] = place += sizes[i];
      free_below[i] = begins_[i] + 1;
    }
  }

  [[nodiscard]] bool is_above(uint32_t a, uint32_t b) const {
    return begins_[a] <= begins_[b] && begins_[b] < ends_[a];
  }

 private:
  std::vector<uint32_t> begins_;
  std::vector<uint32_t> ends_;
};

// Of each step one step that it waits for, and one that waits for it, on the longest paths. What
// fans out from one step is a tree of the first forest, what joins in one step is one of the second
// and a path of steps lies in both.
class EdgeForests {
 public:
  EdgeForests(const EntryParts& entry, Faults& faults)
      : count_(static_cast<uint32_t>(entry.steps.size())),
        waits_(waits_of(entry, faults)),
        awaited_(awaited_by(entry)) {}

  // True proves that edges lead from `before` to `after`; false says nothing.
  [[nodiscard]] bool lead(uint32_t before, uint32_t after) const {
    return waits_.is_above(before, after) || awaited_.is_above(mirrored(after), mirrored(before));
  }

 private:
  [[nodiscard]] uint32_t mirrored(uint32_t step) const { return count_ - 1 - step; }

  static Forest waits_of(const EntryParts& entry, Faults& faults) {
    // Twice over steps and edges, and each forest twice over the steps.
    faults.charge(2 * kWorkPerEdge * (4 * entry.steps.size() + entry.edges.size()));
    std::vector<uint32_t> depths(entry.steps.size());
    std::vector<uint32_t> parents(entry.steps.size(), Forest::kRoot);
    for (uint32_t s = 0; s < entry.steps.size(); ++s) {
      for (const uint32_t before : entry.edges_of(entry.steps[s])) {
        if (depths[before] < depths[s]) continue;
        depths[s] = depths[before] + 1;
        parents[s] = before;
      }
    }
    return Forest(parents);
  }

  // With the steps counted from the last one, so that parents come first.
  [[nodiscard]] Forest awaited_by(const EntryParts& entry) const {
    std::vector<uint32_t> depths(count_);
    std::vector<uint32_t> parents(count_, Forest::kRoot);
    for (uint32_t s = count_; s-- > 0;) {
      for (const uint32_t before : entry.edges_of(entry.steps[s])) {
        if (depths[s] < depths[before]) continue;
        depths[before] = depths[s] + 1;
        parents[mirrored(before)] = mirrored(s);
      }
    }
    return Forest(parents);
  }

  uint32_t count_;
  Forest waits_;    // parent: the step that it waits for
  Forest awaited_;  // parent: the step that waits for it; steps mirrored
};

}  // namespace rlx
