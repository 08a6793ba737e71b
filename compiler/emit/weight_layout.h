// SPDX-License-Identifier: Apache-2.0
// Which weights and states a plan holds, and where they lie in their segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/emit/plan_content.h"

namespace rlx {

struct PlacedWeight {
  WeightId id{};
  uint64_t offset_bytes = 0;  // in the weights segment
  bool is_inline = false;     // otherwise the init entry fills it
};

struct PlacedState {
  StateId id{};
  uint64_t offset_bytes = 0;
};

// Inline weights come first, so that offsets in the segment and in the weights section agree; equal
// bytes share one place.
struct SegmentLayout {
  struct Piece {
    uint64_t offset_bytes = 0;
    std::span<const std::byte> bytes;
  };
  std::vector<PlacedWeight> weights;  // used ones, in the module's order
  std::vector<PlacedState> states;    // all, in the module's order
  std::vector<Piece> pieces;          // the weights section, ascending; gaps are zero
  uint64_t section_bytes = 0;
  uint64_t weights_bytes = 0;  // of the segment
  uint64_t states_bytes = 0;
  // Per weight of the module: index into `weights`.
  std::vector<std::optional<uint32_t>> index_of_weight;
};

// A weight is used when a step of some entry accesses it or a state begins as it.
SegmentLayout lay_out_segments(const PlanContent& content);

}  // namespace rlx
