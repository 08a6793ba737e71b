// SPDX-License-Identifier: Apache-2.0
// Ranges of bytes that lie apart from each other, each with what is known of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>

#include "runtime/verify/verify_context.h"

namespace rlx {

template <class Content>
class RangeMap {
 public:
  struct Range {
    uint64_t end;
    Content content;
  };
  using Ranges = std::pmr::map<uint64_t, Range>;  // by begin
  using Place = typename Ranges::iterator;

  explicit RangeMap(std::pmr::memory_resource* memory) : ranges_(memory) {}

  // Cuts ranges in two at `begin` and `end`. Gives the first that lies between; those behind it do
  // so as long as they begin before `end`.
  Place cut(uint64_t begin, uint64_t end, Faults& faults) {
    faults.charge(work_of_search(ranges_.size()));
    Place first = ranges_.lower_bound(begin);
    if (first != ranges_.begin() && std::prev(first)->second.end > begin) {
      const Place before = std::prev(first);
      first = ranges_.emplace_hint(first, begin, before->second);
      before->second.end = begin;
      faults.charge(work_of_search(1));
    }
    for (Place last = first; last != ranges_.end() && last->first < end; ++last) {
      faults.charge(kWorkPerVisit);
      if (last->second.end <= end) continue;
      ranges_.emplace_hint(std::next(last), end, last->second);
      last->second.end = end;
      faults.charge(work_of_search(1));
      break;
    }
    return first;
  }

  // Adds a range in front of `next`, where there is room.
  void insert(Place next, uint64_t begin, uint64_t end, const Content& content, Faults& faults) {
    faults.charge(work_of_search(1));
    ranges_.emplace_hint(next, begin, Range{end, content});
  }
  // Gives the range behind it.
  Place erase(Place range) { return ranges_.erase(range); }

  // The range that holds a byte, or the first one behind it.
  [[nodiscard]] Place at_or_behind(uint64_t byte) {
    auto place = ranges_.upper_bound(byte);
    if (place != ranges_.begin() && std::prev(place)->second.end > byte) --place;
    return place;
  }
  [[nodiscard]] size_t size() const { return ranges_.size(); }
  [[nodiscard]] Place end() { return ranges_.end(); }

 private:
  Ranges ranges_;
};

}  // namespace rlx
