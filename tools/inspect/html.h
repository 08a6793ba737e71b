// SPDX-License-Identifier: Apache-2.0
// A plan as one page that needs nothing else: `rlxc inspect --html`, `rlxrun --report`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/plan_view.h"

namespace rlx {

// What the steps of an entry took on a device.
struct MeasuredSteps {
  std::string entry;
  std::string device;                // its name
  std::vector<double> microseconds;  // of each step of the record, in order
};

// Of what `rlxrun --profile --json` prints.
Status parse_profile(const std::string& json, MeasuredSteps& measured);

// The page. `file` is the plan as it is in its file, `shown` the same or that at values of its
// symbols. Steps get times where an entry of that name has as many.
std::string report_html(const PlanView& shown, const PlanView& file,
                        const std::optional<MeasuredSteps>& measured);

}  // namespace rlx
