// SPDX-License-Identifier: Apache-2.0
// A plan on a device that is to be timed, with inputs that are random but the same every time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/plan/plan_view.h"

namespace rlx::tune {

class LoadedPlan {
 public:
  static Status load(std::shared_ptr<const PlanView> view, Device& device, LoadedPlan& loaded);

  Status fill_inputs(uint32_t entry);
  // Runs the entry again and again for a while: devices that were idle are slow at first.
  Status warm_up(uint32_t entry);
  // Microseconds of every step in each of the runs, after one that warms up.
  Status profile(uint32_t entry, uint32_t runs, std::vector<std::vector<double>>& samples);
  // Microseconds of each of the runs, after warm_up().
  Status time_runs(uint32_t entry, uint32_t runs, std::vector<double>& samples);

  [[nodiscard]] fb::TargetKind target() const { return plan_->target(); }
  [[nodiscard]] DeviceSession& session() { return *session_; }
  [[nodiscard]] const PlanView& view() const { return *view_; }
  [[nodiscard]] DevicePlan::TuningIdentity identity() const { return plan_->tuning_identity(); }

 private:
  Status run(uint32_t entry);

  std::shared_ptr<const PlanView> view_;
  std::shared_ptr<DevicePlan> plan_;
  std::unique_ptr<DeviceSession> session_;
};

double median_of(std::vector<double> samples);

}  // namespace rlx::tune
