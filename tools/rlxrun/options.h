// SPDX-License-Identifier: Apache-2.0
// The command line of rlxrun.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rlx::tool {

// "name=path", or a path alone (a .npz names its arrays itself; a .npy then stands for the only
// tensor).
struct TensorFile {
  std::string name;  // empty: none was given
  std::string path;
};

// "STEP=FILE" or "STEP:VALUE=FILE".
struct DumpRequest {
  uint32_t step = 0;
  std::string value;  // name; empty: the value whose life begins at the step
  std::string path;
};

enum class TuneMode : uint8_t {
  None,
  Write,   // tune the plan file before it is run
  Locked,  // refuse a plan with a library product that is not tuned for this device
};

// "NAME=N"
struct SymbolValue {
  std::string name;
  uint64_t value = 0;
};

struct Options {
  std::string plan_path;
  std::string entry;  // empty: the only one
  std::vector<SymbolValue> symbols;
  std::vector<TensorFile> inputs;
  bool seeded = false;  // inputs without a file are random
  uint64_t seed = 0;
  int64_t seeded_max = 8;  // seeded integers are below it
  std::string outputs_folder;
  std::vector<TensorFile> expected;
  std::optional<double> rtol;
  std::optional<double> atol;
  uint32_t repeat = 1;
  uint32_t warmup = 0;
  bool profile = false;
  std::string trace_path;
  std::string device = "auto";  // CUDA's first, else Vulkan's, of those that the plan is for
  bool list_devices = false;
  std::vector<DumpRequest> dumps;
  uint32_t jobs = 0;
  std::string pipeline_cache_path;
  uint64_t memory_budget_bytes = 0;
  bool json = false;
  bool validate = false;
  bool check_indices = true;
  TuneMode tune = TuneMode::None;
  bool check_weights = false;
  std::optional<uint8_t> poison;
};

struct ParsedCommandLine {
  Options options;
  std::optional<int> exit;  // the program is done: help was printed, or the usage was wrong
};

// Prints help to standard output and usage errors to standard error.
ParsedCommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace rlx::tool
