// SPDX-License-Identifier: Apache-2.0
// What a plan holds, as text, as JSON and as a drawing: the views of `rlxc inspect`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/plan/plan_view.h"

namespace rlx {

enum class InspectView : uint8_t {
  Summary,  // name, producer, targets, segments, counts
  Memory,   // segments, arena against its lower bound, values with offset, size and lifetime, a
            // drawing of the lifetimes
  Steps,    // each step: kernel, grid, params, reads, writes, edges, work
  Kernels,  // each kernel: its code for every target and architecture, registers, shared memory
  Sizes,    // every byte of the file, by section, weight and kernel
  Why,      // passes, and for each step the source node and the reason of its kernel
};

// Text that ends in a newline. Equal plans give equal text.
std::string inspect_text(const PlanView& plan, InspectView view);

// The same facts; keys keep one order.
nlohmann::ordered_json inspect_json(const PlanView& plan, InspectView view);

// A line for each of the plan's code: the digest by which it and its record are known again, kernel
// and format. What rlxrun --trust known takes.
std::string known_code_text(const PlanView& plan);

// The arena of one entry (a record of PlanView::bound_records()) as an SVG document: waves from
// left to right, offsets from bottom to top, a rectangle with a tooltip for each value. An entry
// out of range is a std::out_of_range.
std::string memory_svg(const PlanView& plan, uint32_t entry);

// The steps of one entry and what they hand on: waves from top to bottom, a box with a tooltip for
// each step. An entry out of range as above.
std::string graph_svg(const PlanView& plan, uint32_t entry);

}  // namespace rlx
