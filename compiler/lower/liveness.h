// SPDX-License-Identifier: Apache-2.0
// How long the bytes of arena buffers are in use, and which buffer takes over another one's bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/lower/arena.h"
#include "compiler/lower/schedule.h"
#include "compiler/lower/step_region.h"

namespace rlx {

// Memory of one assignment of waves, in units of the arena alignment; smaller is better, the peak
// counts first.
struct WaveCost {
  uint64_t peak = 0;   // largest live set of a wave
  uint64_t total = 0;  // sum of the live sets of all waves
  auto operator<=>(const WaveCost&) const = default;
};

// A step that may write its output over its input, if that input dies there.
struct InPlaceChance {
  uint32_t step = 0;
  BufferId input{};
  BufferId output{};
};

// Arena slots: buffers that follow each other in place share one.
struct Slots {
  std::vector<ArenaItem> items;
  std::vector<std::optional<uint32_t>> slot_of_buffer;
};

class LivenessModel {
 public:
  // A buffer is live from the wave of its first access to the wave of its last; one that is used in
  // a region and outside of it, during the whole region; words of regions, always. An arena buffer
  // that is read before it is written is an internal error. The program
  // and its regions must outlive the model.
  LivenessModel(const Program& program, bool in_place, std::span<const StepRegion> regions = {});

  [[nodiscard]] const std::vector<InPlaceChance>& chances() const { return chances_; }
  // Steps that access an arena buffer, ascending, each once; empty for buffers of other segments.
  [[nodiscard]] const std::vector<uint32_t>& users(BufferId buffer) const {
    return users_[index_of(buffer)];
  }
  // Arena buffers that a step accesses, each once.
  [[nodiscard]] const std::vector<BufferId>& used_by(uint32_t step) const { return used_by_[step]; }
  [[nodiscard]] size_t buffer_count() const { return users_.size(); }
  // Size in units of the arena alignment.
  [[nodiscard]] uint64_t units(BufferId buffer) const { return units_[index_of(buffer)]; }

  [[nodiscard]] WaveCost cost(std::span<const uint32_t> wave_of_step, uint32_t wave_count) const;
  // Fills lifetimes and in_place_of from order and wave.
  void fill(Schedule& schedule) const;
  [[nodiscard]] Slots slots(const Schedule& schedule) const;

 private:
  // First and last wave of a buffer, and how many steps use it in each of the two.
  struct WaveRange {
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t first_users = 0;
    uint32_t last_users = 0;
  };
  // Per buffer; meaningless for one without users.
  [[nodiscard]] std::vector<WaveRange> ranges(std::span<const uint32_t> wave_of_step) const;
  void add_region(const StepRegion& region);
  // Those that regions stretch, of first and last wave or position, `count` in all.
  void stretch(std::span<const uint32_t> wave_of_step, uint32_t count,
               std::vector<WaveRange>& ranges) const;
  [[nodiscard]] static bool taken(const InPlaceChance& chance, uint32_t wave,
                                  std::span<const WaveRange> ranges);

  const Program* program_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<std::vector<BufferId>> used_by_;
  std::vector<uint64_t> units_;
  std::vector<InPlaceChance> chances_;
  std::vector<BufferId> region_words_;
  // Buffers that are used inside a region and outside of it.
  struct Stretched {
    BufferId buffer{};
    const StepRegion* region = nullptr;
  };
  std::vector<Stretched> stretched_;
};

}  // namespace rlx
