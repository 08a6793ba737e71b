// SPDX-License-Identifier: Apache-2.0
// Times on a device the forms that estimates leave close, each in place: within a whole plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "tools/tune_forms/form_search.h"

namespace rlx::tune {

struct FormTuneOptions {
  uint32_t variations = 8;  // that are timed of a problem at most
  uint32_t runs = 21;       // of each plan
  // Called with a line before each plan is compiled and timed.
  std::function<void(const std::string& line)> progress;
};

struct FormTuneReport {
  std::string target;
  std::string device;  // as the driver says it
  std::string driver;
  uint32_t rounds = 0;  // plans that were timed
  double seconds = 0;
  double plain_microseconds = 0;  // of a run of every entry, by estimates
  double tuned_microseconds = 0;
  std::vector<TunedProblem> problems;

  [[nodiscard]] FormTable winners() const;
};

// Compiles the module for the one target of the options that is for the device's kind, again and
// again. RLX_INVALID_ARGUMENT where there is none or several, and where sizes are free: forms are
// measured at one size. What compiling reports goes to `diagnostics`, and the status says that.
Status tune_forms(const Module& module, const CompileOptions& compile, Device& device,
                  const FormTuneOptions& options, Diagnostics& diagnostics, FormTuneReport& report);

// The same with a device named as "cuda:0".
Status tune_forms(const Module& module, const CompileOptions& compile, const std::string& device,
                  const FormTuneOptions& options, Diagnostics& diagnostics, FormTuneReport& report);

// Lines for people, ending in a newline.
std::string report_text(const FormTuneReport& report);

}  // namespace rlx::tune
