// SPDX-License-Identifier: Apache-2.0
// Whether a device can run a plan, by the plan's header.
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/plan/plan_view.h"
#include "schema/plan_header.h"

namespace rlx {

// What a kind of devices asks of its part of a header, which is there: RLX_UNSUITABLE_DEVICE with
// everything that the device lacks.
using TargetCheck = Status (*)(const PlanHeader& header, const DeviceInfo& device);

// RLX_UNSUITABLE_DEVICE where the plan has no code for the device's target or the device lacks
// something, RLX_OUT_OF_DEVICE_MEMORY with what is needed and there. A device that is for no target
// suits every plan.
Status check_device_suits(const PlanHeader& header, const DeviceInfo& device,
                          TargetCheck check_target);

// RLX_OUT_OF_DEVICE_MEMORY where the plan needs more than the budget; 0: no budget.
Status check_budget(const PlanHeader& header, uint64_t budget_bytes);

// Both, naming the plan: what every load asks before anything is allocated.
Status check_load(const PlanView& plan, const DeviceInfo& device, TargetCheck check_target,
                  uint64_t budget_bytes);

}  // namespace rlx
