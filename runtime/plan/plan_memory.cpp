// SPDX-License-Identifier: Apache-2.0
// What a plan needs of a device's memory.
#include "runtime/plan/plan_memory.h"

#include <algorithm>
#include <array>

#include "runtime/base/text.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

struct SegmentNeed {
  std::string_view name;
  uint64_t bytes;
};

std::array<SegmentNeed, 5> segments_of(const PlanHeader& header) {
  return {{{"weights", header.weights_bytes},
           {"state", header.state_bytes},
           {"arena", header.arena_bytes},
           {"io", header.io_bytes},
           {"index errors", header.index_error_bytes}}};
}

}  // namespace

uint64_t segment_bytes(const PlanHeader& header) {
  uint64_t bytes = 0;
  for (const SegmentNeed& segment : segments_of(header)) bytes += segment.bytes;
  return bytes;
}

std::string segments_text(const PlanHeader& header) {
  std::string text;
  for (const SegmentNeed& segment : segments_of(header))
    text += text_of(text.empty() ? "" : ", ", segment.name, " ", segment.bytes);
  return text;
}

std::string largest_segments_text(const PlanHeader& header) {
  std::array<SegmentNeed, 5> needs = segments_of(header);
  std::stable_sort(needs.begin(), needs.end(),
                   [](const SegmentNeed& a, const SegmentNeed& b) { return a.bytes > b.bytes; });
  return text_of("largest segments: ", needs[0].name, " ", bytes_text(needs[0].bytes), ", ",
                 needs[1].name, " ", bytes_text(needs[1].bytes), ", ", needs[2].name, " ",
                 bytes_text(needs[2].bytes));
}

Status explain_memory(Status status, const PlanHeader& header) {
  if (status.code() != RLX_OUT_OF_DEVICE_MEMORY) return status;
  return {RLX_OUT_OF_DEVICE_MEMORY, text_of(status.message(), "; ", largest_segments_text(header))};
}

std::vector<ByteRange> stored_weight_ranges(const PlanView& view) {
  // Padding between two weights is in the section too: reading it is cheaper than starting anew.
  constexpr uint64_t kJoinGapBytes = 64 << 10;
  std::vector<ByteRange> ranges;
  for (const fb::Weight* weight : *view.index().weights()) {
    if (weight->kind() == fb::WeightKind::Generated || weight->size_bytes() == 0) continue;
    ranges.push_back({.offset_bytes = weight->offset_bytes(), .size_bytes = weight->size_bytes()});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.offset_bytes < b.offset_bytes; });
  std::vector<ByteRange> joined;
  for (const ByteRange& range : ranges) {
    const uint64_t end = range.offset_bytes + range.size_bytes;
    if (joined.empty() || range.offset_bytes > joined.back().offset_bytes +
                                                   joined.back().size_bytes + kJoinGapBytes) {
      joined.push_back(range);
    } else {
      ByteRange& last = joined.back();
      last.size_bytes = std::max(last.offset_bytes + last.size_bytes, end) - last.offset_bytes;
    }
  }
  return joined;
}

ByteSource weights_source(const PlanView& view) {
  return [&view](uint64_t offset_bytes, std::span<std::byte> destination) {
    return view.read_weights(offset_bytes, destination);
  };
}

std::vector<IoRange> io_ranges(const fb::Entry& entry) {
  std::vector<IoRange> ranges;
  uint64_t offset_bytes = 0;
  const auto add = [&](uint32_t value, bool is_input) {
    const uint64_t size_bytes = PlanView::value(entry, value).size_bytes();
    ranges.push_back({.value = value,
                      .is_input = is_input,
                      .range = {.offset_bytes = offset_bytes, .size_bytes = size_bytes}});
    offset_bytes += round_up(size_bytes, kArenaAlignmentBytes);
  };
  for (const uint32_t value : *entry.inputs()) add(value, true);
  for (const uint32_t value : *entry.outputs()) add(value, false);
  return ranges;
}

}  // namespace rlx
