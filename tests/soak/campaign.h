// SPDX-License-Identifier: Apache-2.0
// Every plan beside every neighbour, each in a process of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/soak/footprint.h"
#include "tests/soak/options.h"
#include "tests/soak/worker.h"

namespace rlx::soak {

struct Result {
  Task task;
  uint64_t replays = 0;
  uint64_t neighbour_replays = 0;
  uint32_t output_count = 0;
  uint64_t outputs_compared = 0;
  uint64_t mismatches = 0;
  uint64_t errors = 0;  // failed calls, and the end of a process that did not end by itself
  std::optional<uint64_t> first_outputs_hash;
  bool judges_growth = false;  // enough replays for the two lines below
  int64_t grown_bytes = 0;
  int64_t grown_objects = 0;
  double replay_seconds = 0;
  std::string fault;    // "": all right
  std::string refused;  // what the device lacks for this plan; "": nothing, it ran

  [[nodiscard]] double replays_per_second() const;
  // Of the outputs of all replays, the share that was compared.
  [[nodiscard]] double compared_share() const;
};

struct Campaign {
  std::vector<Result> results;  // in the order of the plans, then of --beside
  std::string device;           // its name and driver
  double seconds = 0;

  [[nodiscard]] size_t fault_count() const;
  [[nodiscard]] size_t refused_count() const;
};

// Faults are told on standard error as they happen. Opens no device in this process, so that every
// worker starts from one that has none. Throws a tool::Failure where there is no such device.
Campaign soak(const Options& options);

}  // namespace rlx::soak
