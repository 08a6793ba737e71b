// SPDX-License-Identifier: Apache-2.0
// Which of a plan's programs for its kind of target a device runs.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "schema/plan_header.h"

namespace rlx {

// Whether the device runs a plan of one program for its kind of target: Device::check_suits.
using SuitsCheck = std::function<Status(const PlanHeader& header)>;

// The profile of the header that the device runs, by its number; nullopt where the plan has one
// program for the device's kind of target. With a name that one, otherwise the best whose needs the
// device meets: of those made for processors on a device that runs on them, then of those for any
// device the most demanding one, then of those for processors. Errors: RLX_INVALID_ARGUMENT where
// the plan has none of that name; what the device lacks, of the one that was named, with those that
// would do, or of each.
Status choose_profile(const PlanHeader& header, const DeviceInfo& device, const SuitsCheck& suits,
                      std::string_view name, std::optional<uint32_t>& profile);
Status choose_profile(const PlanHeader& header, const Device& device, std::string_view name,
                      std::optional<uint32_t>& profile);

// Whether the device can run one of the plan's programs, as far as the header says.
Status check_any_suits(const PlanHeader& header, const Device& device);

}  // namespace rlx
