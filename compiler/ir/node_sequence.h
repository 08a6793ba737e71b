// SPDX-License-Identifier: Apache-2.0
// The execution order of a graph's nodes: a linked list with labels that tell at once which of two
// nodes stands first.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/ids.h"

namespace rlx {

// Every edit takes constant time, but that labels are spread anew where two neighbours leave no
// number between them: logarithmic on average, whatever the edits (Bender et al., "Two simplified
// algorithms for maintaining order in a list", 2002).
class NodeSequence {
 public:
  void append(NodeId id);
  // Precondition: contains(position).
  void insert_before(NodeId position, NodeId id);
  // Precondition: contains(id).
  void remove(NodeId id);
  // Precondition: contains both.
  void move_behind(NodeId position, NodeId id);
  void assign(const std::vector<NodeId>& order);

  [[nodiscard]] bool contains(NodeId id) const;
  // Precondition: both are in the sequence.
  [[nodiscard]] bool stands_before(NodeId a, NodeId b) const;
  // All nodes in order; made on the first call after an edit, which ends its validity.
  [[nodiscard]] const std::vector<NodeId>& list() const;

 private:
  struct Link {
    std::optional<NodeId> before;
    std::optional<NodeId> after;
    uint64_t label = 0;
    bool is_present = false;
  };

  [[nodiscard]] Link& link(NodeId id) { return links_[index_of(id)]; }
  [[nodiscard]] const Link& link(NodeId id) const { return links_[index_of(id)]; }
  // Links `id` between two neighbours, at the labels' middle.
  void put_between(std::optional<NodeId> before, NodeId id, std::optional<NodeId> after);
  // Spreads the labels around a node, so that there is a number between any two of them.
  void spread_around(NodeId id);

  std::vector<Link> links_;  // per node id
  std::optional<NodeId> first_;
  std::optional<NodeId> last_;
  mutable std::vector<NodeId> list_;
  mutable bool list_is_current_ = true;
};

}  // namespace rlx
