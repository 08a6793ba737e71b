// SPDX-License-Identifier: Apache-2.0
// Whether a device can run a plan, by the plan's header alone.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "schema/plan_header.h"

namespace rlx {

// RLX_UNSUITABLE_DEVICE with everything that the device lacks, or RLX_OUT_OF_DEVICE_MEMORY with
// what is needed and there. The null device suits every plan.
Status check_device_suits(const PlanHeader& header, const DeviceInfo& device);

// The architectures for which a plan has CUDA code: "sm_80, sm_90, PTX for sm_80".
std::string architectures_text(const PlanCudaTarget& target);

}  // namespace rlx
