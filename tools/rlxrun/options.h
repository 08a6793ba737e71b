// SPDX-License-Identifier: Apache-2.0
// The command line of rlxrun.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/include/rlx_text.h"
#include "tools/language/token_loop.h"

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

enum class Overflow : uint8_t {
  Refuse,
  Shift,  // forget the oldest half of the context
};

// What is asked of a language model.
struct ChatOptions {
  std::optional<std::string> message;  // one turn
  bool interactive = false;            // a conversation on the terminal
  std::optional<std::string> system;
  std::vector<int32_t> prompt_ids;
  std::optional<uint32_t> most_tokens;  // of a reply
  std::string logits_path;
  rlx_text_sampling sampling = RLX_INIT(rlx_text_sampling);  // but its seed
  std::optional<uint32_t> draft_ngram;  // longest run of tokens that drafts are looked up by
  language::Reuse reuse = language::Reuse::Exact;
  Overflow overflow = Overflow::Refuse;

  [[nodiscard]] bool is_wanted() const {
    return message.has_value() || interactive || !prompt_ids.empty();
  }
};

struct Options {
  std::string plan_path;
  std::string entry;  // empty: the only one
  std::vector<SymbolValue> symbols;
  std::vector<TensorFile> inputs;
  bool seeded = false;  // inputs without a file are random
  uint64_t seed = 0;    // of these, of the session's random numbers, or of sampling
  bool gives_seed = false;
  int64_t seeded_max = 8;          // seeded integers are below it
  std::vector<TensorFile> states;  // with which they begin; the others as the plan says
  std::vector<TensorFile> state_dumps;
  std::string load_states;  // a file with all of them; empty: none
  std::string save_states;  // where all of them go after the last run; empty: nowhere
  std::string outputs_folder;
  std::vector<TensorFile> expected;
  std::optional<double> rtol;
  std::optional<double> atol;
  uint32_t repeat = 1;
  uint32_t warmup = 0;
  bool profile = false;
  std::string trace_path;
  std::string report_path;      // the plan as a page, with the profile
  std::string device = "auto";  // CUDA's first, else Vulkan's, of those that the plan is for
  std::string target;           // of the plan's programs for the device's target; empty: the best
  bool list_devices = false;
  std::vector<DumpRequest> dumps;
  bool first_nan = false;
  bool nvtx = false;  // a profiler is told of runs and steps
  uint32_t jobs = 0;
  std::string pipeline_cache_path;  // empty: in the user's cache folder
  bool no_pipeline_cache = false;
  uint64_t memory_budget_bytes = 0;
  bool json = false;
  bool validate = false;
  std::optional<bool> check_indices;  // where it is not said, a run checks unless runs are queued
  TuneMode tune = TuneMode::None;
  bool check_weights = false;
  std::string weights_folder;  // empty: the plan's
  rlx_trust trust = RLX_TRUST_ANY;
  std::string key_path;    // of public keys, for RLX_TRUST_SIGNED
  std::string known_path;  // of digests, for RLX_TRUST_KNOWN
  std::optional<uint8_t> poison;
  bool self_test = false;
  std::string against;  // a device, a plan, a folder of arrays or "cpu-reference"; empty: none
  std::string against_folder = "against";  // for the tensors that differ
  std::string reference_model;             // of cpu-reference
  ChatOptions chat;
};

struct ParsedCommandLine {
  Options options;
  std::optional<int> exit;  // the program is done: help was printed, or the usage was wrong
};

// Prints help to standard output and usage errors to standard error.
ParsedCommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace rlx::tool
