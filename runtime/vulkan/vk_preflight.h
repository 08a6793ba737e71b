// SPDX-License-Identifier: Apache-2.0
// What a plan's header asks of a Vulkan device.
#pragma once

#include "runtime/device/preflight.h"

namespace rlx::vulkan {

// A TargetCheck.
Status check_target(const PlanHeader& header, const DeviceInfo& device);

}  // namespace rlx::vulkan
