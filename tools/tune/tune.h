// SPDX-License-Identifier: Apache-2.0
// The tuner: times on a device how a plan's library products can be computed, and writes the
// winners into the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/plan/plan_view.h"

namespace rlx::tune {

struct TuneOptions {
  uint32_t candidates = 8;  // algorithms of the library that are tried per product
  uint32_t runs = 15;       // profiled runs from which alternatives are judged
  // Called with a line before each product is timed.
  std::function<void(const std::string& line)> progress;
};

// A product and its winning algorithm.
struct TunedGemm {
  std::string entry;
  std::string problem;  // runtime/plan/gemm_text.h
  uint32_t steps = 0;   // that compute it
  uint32_t candidates = 0;
  double first_microseconds = 0;  // of the library's first suggestion
  double microseconds = 0;        // of the winner
};

// Steps of one product that could also be a dispatch of our own.
struct TunedAlternative {
  std::string entry;
  std::string problem;
  std::string kernel;  // row of kernels.def
  uint32_t steps = 0;
  double library_microseconds = 0;  // of all steps together
  double own_microseconds = 0;
  bool own_is_faster = false;
};

struct TuneReport {
  DevicePlan::TuningIdentity identity;
  std::vector<TunedGemm> gemms;
  std::vector<TunedAlternative> alternatives;
};

// Gives the index that the plan should have on this device. RLX_UNSUITABLE_DEVICE where the device
// has no library of products, RLX_INVALID_ARGUMENT where the plan has no library product.
Status tune(const std::shared_ptr<const PlanView>& plan, Device& device, const TuneOptions& options,
            std::vector<std::byte>& index, TuneReport& report);

// The same of a plan file, whose index write_with_index() then exchanges. `device` as in "cuda:0".
Status tune_file(const std::string& path, const std::string& device, const TuneOptions& options,
                 std::vector<std::byte>& index, TuneReport& report);

// Lines for people, ending in a newline.
std::string report_text(const TuneReport& report);

}  // namespace rlx::tune
