// SPDX-License-Identifier: Apache-2.0
// What a plan needs of a device's memory, and where its weights and io lie in their segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan_view.h"
#include "schema/plan_header.h"

namespace rlx {

// Bytes of all segments of one session and its plan's weights.
uint64_t segment_bytes(const PlanHeader& header);

// "weights 4194304, state 0, ...", for messages: bytes of every segment.
std::string segments_text(const PlanHeader& header);
// "largest segments: weights 4 MiB, arena 1 MiB, io 12 bytes", for messages.
std::string largest_segments_text(const PlanHeader& header);

// A refused allocation, told with what the plan needs altogether; any other status as it is.
Status explain_memory(Status status, const PlanHeader& header);

struct ByteRange {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
};

// The ranges of the weights segment whose bytes are in the plan or in files, ascending, near
// neighbours joined so that reads are long.
std::vector<ByteRange> stored_weight_ranges(const PlanView& view);

// Fills a range of a segment's bytes on the host: called with its offset and the memory to fill,
// where a device says so from several threads at once.
using ByteSource = std::function<Status(uint64_t offset_bytes, std::span<std::byte> destination)>;

// The bytes of stored weights; the view outlives it.
ByteSource weights_source(const PlanView& view);

// An input or output in the io segment. Entries share the segment: each lays its values out one
// after another from the start.
struct IoRange {
  uint32_t value = 0;
  bool is_input = false;
  ByteRange range;
};
std::vector<IoRange> io_ranges(const fb::Entry& entry);

}  // namespace rlx
