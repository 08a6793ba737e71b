// SPDX-License-Identifier: Apache-2.0
// The index, params and code sections of a plan, and the facts that its header repeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/emit/plan_content.h"
#include "compiler/emit/weight_layout.h"
#include "schema/plan_header.h"

namespace rlx {

struct PlanIndex {
  std::vector<std::byte> index;
  std::vector<std::byte> params;
  std::vector<std::byte> code;
  uint64_t arena_bytes = 0;
  uint64_t io_bytes = 0;
  uint64_t index_error_bytes = 0;
  bool has_free_sizes = false;
  uint64_t region_count = 0;
  bool has_lines_of_range = false;  // a tensor map with kLinesOfRange
  bool has_together = false;        // code whose workgroups run at once
  bool has_pixel_window = false;    // a tensor map with a PixelWindow
  bool has_map_sizes = false;       // one with sizes
  PlanVulkanTarget vulkan{};  // least limits and features that all of the plan's programs need
  std::vector<PlanProfile> profiles;  // of the header; none where no kind has several programs
};

PlanIndex build_plan_index(const PlanContent& content, const SegmentLayout& layout);

}  // namespace rlx
