// SPDX-License-Identifier: Apache-2.0
// The command line of rlx_soak.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rlx::soak {

// What runs on the device at the same time.
enum class Beside : uint8_t {
  None,
  Self,  // a second session of the same plan
  Copy,  // a plan bound by memory
  All,   // both
};
const char* name_of(Beside beside);

struct Options {
  std::vector<std::string> plans;  // files; of folders all *.plan below them, by name
  std::string device;
  uint64_t replays = 1000;  // at most, per plan and neighbour
  double seconds = 0;       // for all of it; 0: no limit
  std::vector<Beside> beside = {Beside::None};
  std::string copy_plan;
  std::string keep_folder;  // "": what differs is not kept
  uint32_t jobs = 1;        // worker processes at a time
  uint64_t seed = 0;
  int64_t seeded_max = 8;            // seeded integers are below it
  uint64_t compare_bytes = 1 << 20;  // of outputs after each run, taken in turn
  uint64_t growth_bytes = 256 << 10;
  double stall_seconds = 120;  // without a replay: the worker hangs
  bool json = false;
};

struct ParsedCommandLine {
  Options options;
  std::optional<int> exit;  // the program is done: help was printed, or the usage was wrong
};

// Prints help to standard output and usage errors to standard error.
ParsedCommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace rlx::soak
