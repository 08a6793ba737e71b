// SPDX-License-Identifier: Apache-2.0
// Which weights and states a plan holds, and where they lie in their segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/emit/plan_content.h"
#include "schema/plan_generated.h"

namespace rlx {

struct PlacedWeight {
  WeightId id{};
  uint64_t offset_bytes = 0;  // in the weights segment
  fb::WeightKind kind = fb::WeightKind::Generated;
  uint32_t file = 0;  // External: of the layout's files, and the place in it
  uint64_t file_offset_bytes = 0;
};

struct PlacedState {
  StateId id{};
  uint64_t offset_bytes = 0;
};

// Inline weights come first, so that offsets in the segment and in the weights section agree; equal
// bytes share one place. Behind them lie those that stay in the model's files, then those that are
// filled on the device.
struct SegmentLayout {
  struct Piece {
    uint64_t offset_bytes = 0;
    std::span<const std::byte> bytes;
  };
  std::vector<PlacedWeight> weights;    // used ones, in the module's order
  std::vector<const ModelFile*> files;  // that hold external weights, one of each name
  std::vector<PlacedState> states;      // all, in the module's order
  std::vector<Piece> pieces;            // the weights section, ascending; gaps are zero
  uint64_t section_bytes = 0;
  uint64_t weights_bytes = 0;  // of the segment
  uint64_t states_bytes = 0;
  // Per weight of the module: index into `weights`.
  std::vector<std::optional<uint32_t>> index_of_weight;
};

// A weight is used when a step of some entry accesses it or a state begins as it.
SegmentLayout lay_out_segments(const PlanContent& content);

}  // namespace rlx
