// SPDX-License-Identifier: Apache-2.0
// Ranges of bytes that were read since they were last written, each with the step that read it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/verify/verify_context.h"

namespace rlx {

// Ranges may overlap as they like: a read costs a search, and so does a write beside the reads that
// it meets. A treap by first byte, in which each node knows the last byte of all below it.
class ReaderTree {
 public:
  explicit ReaderTree(Faults& faults) : faults_(faults) {}

  void add(uint64_t begin, uint64_t end, uint32_t step) {
    const uint32_t added = new_node({begin, end, step});
    uint32_t* place = &root_;
    while (*place != kNone && nodes_[*place].priority >= nodes_[added].priority) {
      faults_.charge(kWorkPerRecord);
      Node& above = nodes_[*place];
      above.last_end = std::max(above.last_end, end);
      place = above.read.begin < begin ? &above.right : &above.left;
    }
    const auto [low, high] = split(*place, begin);
    nodes_[added].left = low;
    nodes_[added].right = high;
    update(added);
    *place = added;
  }

  // Calls visit(step) for each read of bytes in the range, and forgets that these were read.
  template <class Visit>
  void take(uint64_t begin, uint64_t end, const Visit& visit) {
    faults_.charge(kWorkPerRecord);
    if (root_ == kNone) return;
    const auto [before_end, high] = split(root_, end);
    const auto [low, middle] = split(before_end, begin);
    std::vector<Read> behind;
    shorten(low, {begin, end, 0}, behind, visit);
    empty(middle, end, behind, visit);
    root_ = join(low, high);
    for (const Read& read : behind) add(read.begin, read.end, read.step);
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  struct Read {
    uint64_t begin;
    uint64_t end;
    uint32_t step;
  };
  struct Node {
    Read read;
    uint64_t last_end;  // of all below
    uint64_t priority;  // not less than those below
    uint32_t left = kNone;
    uint32_t right = kNone;
  };

  // SplitMix64: numbers without order, the same in every run.
  static uint64_t spread_number(uint64_t number) {
    uint64_t bits = (number + 1) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    return bits ^ bits >> 31;
  }

  uint32_t new_node(const Read& read) {
    nodes_.push_back(
        {.read = read, .last_end = read.end, .priority = spread_number(nodes_.size())});
    return static_cast<uint32_t>(nodes_.size() - 1);
  }

  void update(uint32_t node) {
    Node& of = nodes_[node];
    of.last_end = of.read.end;
    if (of.left != kNone) of.last_end = std::max(of.last_end, nodes_[of.left].last_end);
    if (of.right != kNone) of.last_end = std::max(of.last_end, nodes_[of.right].last_end);
  }

  // The reads that begin before a byte, and the others.
  std::pair<uint32_t, uint32_t> split(uint32_t node, uint64_t begin) {
    if (node == kNone) return {kNone, kNone};
    faults_.charge(kWorkPerRecord);
    if (nodes_[node].read.begin < begin) {
      const auto [low, high] = split(nodes_[node].right, begin);
      nodes_[node].right = low;
      update(node);
      return {node, high};
    }
    const auto [low, high] = split(nodes_[node].left, begin);
    nodes_[node].left = high;
    update(node);
    return {low, node};
  }

  // All of `low` begin at or before those of `high`.
  uint32_t join(uint32_t low, uint32_t high) {
    if (low == kNone) return high;
    if (high == kNone) return low;
    faults_.charge(kWorkPerRecord);
    if (nodes_[low].priority >= nodes_[high].priority) {
      const uint32_t right = join(nodes_[low].right, high);
      nodes_[low].right = right;
      update(low);
      return low;
    }
    const uint32_t left = join(low, nodes_[high].left);
    nodes_[high].left = left;
    update(high);
    return high;
  }

  // Reads that begin before the range end where it begins; what they read behind it is kept apart.
  template <class Visit>
  void shorten(uint32_t node, const Read& range, std::vector<Read>& behind, const Visit& visit) {
    if (node == kNone || nodes_[node].last_end <= range.begin || faults_.full()) return;
    faults_.charge(kWorkPerVisit);
    shorten(nodes_[node].left, range, behind, visit);
    Read& read = nodes_[node].read;
    if (read.end > range.begin) {
      visit(read.step);
      if (read.end > range.end) behind.push_back({range.end, read.end, read.step});
      read.end = range.begin;
    }
    shorten(nodes_[node].right, range, behind, visit);
    update(node);
  }

  // All reads of a tree, which begin inside of a range that ends at `end`.
  template <class Visit>
  void empty(uint32_t node, uint64_t end, std::vector<Read>& behind, const Visit& visit) {
    if (node == kNone || faults_.full()) return;
    faults_.charge(kWorkPerVisit);
    empty(nodes_[node].left, end, behind, visit);
    const Read& read = nodes_[node].read;
    visit(read.step);
    if (read.end > end) behind.push_back({end, read.end, read.step});
    empty(nodes_[node].right, end, behind, visit);
  }

  Faults& faults_;
  std::vector<Node> nodes_;
  uint32_t root_ = kNone;
};

}  // namespace rlx
