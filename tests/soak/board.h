// SPDX-License-Identifier: Apache-2.0
// What a worker process tells the campaign: memory that both share, so that it outlives the worker.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "tests/soak/footprint.h"

namespace rlx::soak {

// What a worker is doing. The campaign names it where the worker dies.
enum class Phase : uint32_t { Opening, FirstRun, Replaying, Closing };

// Plain memory and lock-free atomics only: the worker may die at any instruction. Zero is the
// state before the worker starts.
struct Board {
  static constexpr size_t kFaultBytes = 1024;

  std::atomic<Phase> phase;
  std::atomic<uint64_t> replays;             // that ended
  std::atomic<uint64_t> outputs_compared;    // by the worker itself
  std::atomic<uint64_t> mismatches;          // outputs that differed, of neighbours too
  std::atomic<uint64_t> neighbour_replays;   // of all sessions beside it
  std::atomic<uint64_t> errors;              // calls that failed
  std::atomic<uint64_t> first_outputs_hash;  // of the first run
  std::atomic<uint32_t> output_count;
  std::atomic<uint32_t> judges_growth;  // 1: what stands below is there
  std::atomic<double> replay_seconds;
  ResidentMarks resident_marks;  // of the replays behind the warm-up
  Footprint warm;
  Footprint end;

  std::atomic<uint32_t> fault_claimed;
  std::atomic<uint32_t> fault_written;
  std::array<char, kFaultBytes> fault;  // zero-terminated once fault_written is 1

  // Keeps the text of the first fault; later ones are only counted.
  void tell_fault(std::string_view text);
  // "" where there was none.
  [[nodiscard]] std::string_view first_fault() const;
};
static_assert(std::atomic<double>::is_always_lock_free &&
              std::atomic<uint64_t>::is_always_lock_free);

}  // namespace rlx::soak
