// SPDX-License-Identifier: Apache-2.0
// Links and labels of a sequence of nodes.
#include "compiler/ir/node_sequence.h"

#include "compiler/support/check.h"

namespace rlx {
namespace {

constexpr uint64_t kAppendStep = uint64_t{1} << 32;
constexpr uint64_t kMostLabel = uint64_t{1} << 63;

}  // namespace

bool NodeSequence::contains(NodeId id) const {
  return index_of(id) < links_.size() && link(id).is_present;
}

bool NodeSequence::stands_before(NodeId a, NodeId b) const {
  return link(a).label < link(b).label;
}

void NodeSequence::append(NodeId id) {
  put_between(last_, id, std::nullopt);
}

void NodeSequence::insert_before(NodeId position, NodeId id) {
  RLX_CHECK(contains(position), "inserting before a removed node");
  put_between(link(position).before, id, position);
}

void NodeSequence::put_between(std::optional<NodeId> before, NodeId id,
                               std::optional<NodeId> after) {
  if (index_of(id) >= links_.size()) links_.resize(index_of(id) + 1);
  RLX_CHECK(!contains(id), "a node stands in the order already");
  const auto low = [&] { return before ? link(*before).label : 0; };
  const auto high = [&] { return after ? link(*after).label : kMostLabel; };
  if (high() - low() < 2) spread_around(after ? *after : *before);
  const uint64_t gap = high() - low();
  RLX_CHECK(gap >= 2, "no label is left between two nodes");
  const uint64_t step = after || gap <= 2 * kAppendStep ? gap / 2 : kAppendStep;
  link(id) = {.before = before, .after = after, .label = low() + step, .is_present = true};
  (before ? link(*before).after : first_) = id;
  (after ? link(*after).before : last_) = id;
  list_is_current_ = false;
}

void NodeSequence::remove(NodeId id) {
  RLX_CHECK(contains(id), "removing a node that is not in the order");
  const Link old = link(id);
  (old.before ? link(*old.before).after : first_) = old.after;
  (old.after ? link(*old.after).before : last_) = old.before;
  link(id).is_present = false;
  list_is_current_ = false;
}

void NodeSequence::move_behind(NodeId position, NodeId id) {
  RLX_CHECK(position != id, "moving a node behind itself");
  remove(id);
  RLX_CHECK(contains(position), "moving a node behind a removed one");
  put_between(position, id, link(position).after);
}

void NodeSequence::assign(const std::vector<NodeId>& order) {
  *this = {};
  for (NodeId id : order) append(id);
}

void NodeSequence::spread_around(NodeId id) {
  // The smallest block of labels of size 2^bits around the node's own that is less than (2/3)^bits
  // full: many edits fit in before it must be spread again.
  NodeId first = id;
  NodeId last = id;
  uint64_t count = 1;
  double capacity = 1;
  for (uint32_t bits = 1; bits < 64; ++bits) {
    capacity *= 4.0 / 3.0;
    const uint64_t begin = link(id).label >> bits << bits;
    const uint64_t end = begin + (uint64_t{1} << bits);
    while (link(first).before && link(*link(first).before).label >= begin) {
      first = *link(first).before;
      ++count;
    }
    while (link(last).after && link(*link(last).after).label < end) {
      last = *link(last).after;
      ++count;
    }
    const uint64_t step = (uint64_t{1} << bits) / (count + 1);
    if (static_cast<double>(count) >= capacity || step < 4) continue;
    NodeId current = first;
    for (uint64_t i = 1; i <= count; ++i) {
      link(current).label = begin + i * step;
      if (i < count) current = *link(current).after;
    }
    return;
  }
}

const std::vector<NodeId>& NodeSequence::list() const {
  if (!list_is_current_) {
    list_.clear();
    for (std::optional<NodeId> id = first_; id; id = link(*id).after) list_.push_back(*id);
    list_is_current_ = true;
  }
  return list_;
}

}  // namespace rlx
