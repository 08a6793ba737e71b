// SPDX-License-Identifier: Apache-2.0
// Which steps must wait for which: hazards between the byte ranges that steps access.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/lower/step_region.h"

namespace rlx {

// Where a buffer begins. Buffers of one space may share bytes, buffers of different spaces never
// do.
struct BufferPlace {
  uint32_t space = 0;
  uint64_t offset_bytes = 0;
};

// Per position (or step): the earlier positions that must finish before it, ascending.
using Edges = std::vector<std::vector<uint32_t>>;

// Places as the program means them: every buffer by itself, except that all buffers of one weight
// or state are one.
std::vector<BufferPlace> logical_places(const Program& program);
// Places as the memory plan lays them out: the same, with all arena buffers in one space at their
// offsets.
std::vector<BufferPlace> physical_places(const Program& program,
                                         std::span<const uint64_t> buffer_offsets);

// Edges that order each pair of steps that access a common byte, at least one of them writing, and
// that a run may have both of: directly or through other edges. `order` maps positions to steps.
// Accesses of 0 bytes are ignored; one outside its buffer is an internal error. Before a region's
// first trip its word is read.
Edges find_hazards(const Program& program, std::span<const uint32_t> order,
                   std::span<const BufferPlace> places, std::span<const StepRegion> regions = {});

// Removes every edge that the others imply.
void reduce_transitively(Edges& edges);

}  // namespace rlx
