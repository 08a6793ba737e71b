// SPDX-License-Identifier: Apache-2.0
// What a plan needs of a device's memory, and where its weights and io lie in their segments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/plan_view.h"
#include "schema/plan_header.h"

namespace rlx {

// Bytes of all segments of one session and its plan's weights.
uint64_t segment_bytes(const PlanHeader& header);

// "largest segments: weights 4 MiB, arena 1 MiB, io 12 bytes", for messages.
std::string largest_segments_text(const PlanHeader& header);

// A refused allocation, told with what the plan needs altogether; any other status as it is.
Status explain_memory(Status status, const PlanHeader& header);

struct ByteRange {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

// The ranges of the weights section that hold inline weights, ascending, near neighbours joined so
// that reads are long.
std::vector<ByteRange> inline_weight_ranges(const PlanView& view);

// An input or output in the io segment. Entries share the segment: each lays its values out one
// after another from the start.
struct IoRange {
  uint32_t value = 0;
  bool is_input = false;
  ByteRange range;
};
std::vector<IoRange> io_ranges(const fb::Entry& entry);

}  // namespace rlx
