// SPDX-License-Identifier: Apache-2.0
// What a plan's header asks of a CUDA device.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/preflight.h"

namespace rlx::cuda {

// A TargetCheck.
Status check_target(const PlanHeader& header, const DeviceInfo& device);

// Whether an architecture runs code for another: a cubin its own major version from its minor one
// on, PTX every one that is not older.
bool runs_on(fb::CodeFormat format, uint32_t code_architecture, uint32_t architecture);

// The architectures for which a plan has code: "sm_80, sm_90, PTX for sm_80".
std::string architectures_text(const PlanCudaTarget& target);

}  // namespace rlx::cuda
