// SPDX-License-Identifier: Apache-2.0
// The text views, one function each. Internal to inspect.
#pragma once

#include <string>
#include <vector>

#include "tools/inspect/facts.h"

namespace rlx::inspect {

std::string summary_text(const PlanView& plan);
std::string memory_text(const PlanView& plan);
std::string steps_text(const PlanView& plan);
std::string kernels_text(const PlanView& plan);
std::string sizes_text(const PlanView& plan);
std::string why_text(const PlanView& plan);

// "entry \"main\"" or "init entry"
std::string entry_title(const EntryFacts& entry);
// "matmul" for a dispatch, else the kind of the step
std::string step_title(const StepFacts& step);
// "12x1x1"
std::string extent_text(const uint32_t (&extent)[3]);
// The mark of the i-th arena value in the drawing: letters, then digits, then from the start again.
char mark_of(size_t arena_value);
// Arena values as they are drawn and listed: by first wave, then by offset.
std::vector<ValueFacts> arena_values(const EntryFacts& entry);
// Lifetimes as characters, offsets upwards and waves to the right; empty for an empty arena.
std::string arena_drawing(const EntryFacts& entry, const std::vector<ValueFacts>& values);

}  // namespace rlx::inspect
