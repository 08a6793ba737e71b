// SPDX-License-Identifier: Apache-2.0
// Loops and buffers of a region's dispatch: where each element lies, and how many a thread takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/ops/lowering/elementwise_loops.h"
#include "compiler/ops/lowering/elementwise_region.h"
#include "compiler/ops/lowering/index_type.h"

namespace rlx {

constexpr uint32_t kVectorWidth = 4;

// One buffer of the region; number 0 is the output, then come the operands, then further outputs.
struct Stream {
  uint32_t number = 0;
  ElementStorage storage;
  TensorRef view;  // broadcast to the loops' shape, rebased to its lowest element, all strides >= 0
  Strides strides;    // per loop, in elements, signed
  Dim start = 0;      // index of the first element, from the lowest
  bool wide = false;  // four neighbours in one access
  // Of a part of an operand: coordinates of the loop that it begins and ends at, and the elements
  // that it would have before it.
  struct Part {
    size_t first = 0;  // the stream with which the operand begins
    size_t loop = 0;
    int64_t begin = 0;
    int64_t end = 0;
    Dim before = 0;
  };
  std::optional<Part> part = {};

  [[nodiscard]] bool continues() const { return part && part->begin > 0; }
};

// Where an element stands along one axis of the output.
struct Coordinate {
  std::string name;  // coordinate_name() of the axis
  Strides steps;     // per loop: 1 for the axis' own, else 0; an axis of size 1 has no loop
};

struct RegionPlan {
  bool counts_outside = false;
  LoopNest loops;
  std::vector<Stream> streams;
  size_t operands_end = 1;  // the first stream behind the operands
  std::vector<Coordinate> coordinates;
  uint32_t width = 1;
  std::string width_reason;
  int64_t farthest = 0;  // of all numbers of elements
  Dim items = 0;         // threads' pieces of work, `width` elements each
  bool has_tail = false;

  [[nodiscard]] bool wide_index() const { return is_wide_index(IndexUse::Linear, farthest); }
};

// True where the code of an element calls functions instead of holding them.
bool calls_functions(const Region& region);
// The streams of the operand that begins with this one.
std::span<const Stream> parts_of(const RegionPlan& plan, size_t first);
// True where no item's lanes lie in two of them.
bool lanes_share_parts(const RegionPlan& plan, std::span<const Stream> parts);
RegionPlan make_plan(const Program& program, const Region& region);

}  // namespace rlx
