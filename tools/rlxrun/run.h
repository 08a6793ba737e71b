// SPDX-License-Identifier: Apache-2.0
// One use of rlxrun: load, run, compare, time. Everything it finds out is in its Report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/rlxrun/compare.h"
#include "tools/rlxrun/handles.h"
#include "tools/rlxrun/non_finite.h"
#include "tools/rlxrun/opening.h"
#include "tools/rlxrun/options.h"
#include "tools/rlxrun/stats.h"

namespace rlx::tool {

struct Output {
  Tensor tensor;
  std::vector<std::byte> data;
  std::string path;  // where it was written; empty: nowhere
};

struct StepProfile {
  uint32_t step = 0;
  std::string kernel;
  std::string code;  // which of the plan's codes; empty: there is but one
  std::string node;
  uint32_t wave = 0;
  double microseconds = 0;  // median over the profiled runs
  double gigabytes_per_second = 0;
  double teraflops = 0;
  double share = 0;  // of the sum of all steps
};

// Steps that run the same of the plan's codes.
struct CodeUse {
  std::string code;  // "sm_90 cubin"
  uint32_t steps = 0;
};

struct Timing {
  uint32_t repeat = 0;
  double open_milliseconds = 0;     // plan opened and verified
  double load_milliseconds = 0;     // session created: weights, pipelines
  double prepare_milliseconds = 0;  // entry recorded
  double first_run_milliseconds = 0;
  Summary wall;                   // microseconds
  std::optional<Summary> device;  // microseconds
};

struct Report {
  DeviceFacts device;
  PlanFacts plan;
  EntryView entry;
  std::string program;  // of several for the device's target the one that ran; empty: there is one
  std::vector<SymbolValue> symbols;  // free ones, as the entry ran
  std::vector<CodeUse> codes;        // of the entry, by name; empty where the plan leaves no choice
  std::vector<std::string> notes;
  std::vector<Output> outputs;
  std::vector<Comparison> comparisons;
  std::vector<std::string> dumped;  // paths
  Timing timing;
  std::vector<StepProfile> profile;
  std::optional<NonFiniteReport> non_finite;  // where it was asked for

  [[nodiscard]] bool matches() const;
  [[nodiscard]] bool found_nan() const { return non_finite && non_finite->nan; }
};

// Throws a Failure where something is refused; a mismatch with --expected is no failure but in the
// report. `plan` receives the open plan, which the report's step records refer to.
Report run(const Options& options, PlanHandle& plan);

}  // namespace rlx::tool
