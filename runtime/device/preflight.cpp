// SPDX-License-Identifier: Apache-2.0
// Whether a device can run a plan, by the plan's header.
#include "runtime/device/preflight.h"

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/device_names.h"
#include "runtime/plan/plan_memory.h"
#include "runtime/plan/target_row.h"

namespace rlx {
namespace {

Status check_memory(const PlanHeader& header, const DeviceInfo& device) {
  // A software device has the host's memory, of which its one heap says nothing: there the
  // allocation itself decides.
  if (device.is_software) return {};
  const uint64_t needed = segment_bytes(header);
  const uint64_t available =
      device.available_bytes != 0 ? device.available_bytes : device.memory_bytes;
  if (needed <= available) return {};
  return out_of_device_memory(text_of("the plan needs ", bytes_text(needed), " of device memory, ",
                                      device_text(device), " has ", bytes_text(available),
                                      device.available_bytes != 0 ? " free; " : "; ",
                                      largest_segments_text(header)));
}

}  // namespace

Status check_device_suits(const PlanHeader& header, const DeviceInfo& device,
                          TargetCheck check_target) {
  if (!device.target.has_value()) return {};
  const TargetRow& target = target_row(*device.target);
  if (!target.is_in(header)) {
    return unsuitable(text_of("the plan holds no ", target.name, " code, so ", device_text(device),
                              " cannot run it; compile the model with --target ", target.flag));
  }
  RLX_RETURN_IF_ERROR(check_target(header, device));
  return check_memory(header, device);
}

Status check_budget(const PlanHeader& header, uint64_t budget_bytes) {
  const uint64_t needed = segment_bytes(header);
  if (budget_bytes == 0 || needed <= budget_bytes) return {};
  return out_of_device_memory(text_of("the plan needs ", bytes_text(needed), " of device memory (",
                                      segments_text(header), "), the budget is ",
                                      bytes_text(budget_bytes)));
}

Status check_load(const PlanView& plan, const DeviceInfo& device, TargetCheck check_target,
                  uint64_t budget_bytes) {
  Status status = check_device_suits(plan.header(), device, check_target);
  if (status.ok()) status = check_budget(plan.header(), budget_bytes);
  if (status.ok()) return status;
  return {status.code(), text_of("plan ", quoted(plan.name()), ": ", status.message())};
}

}  // namespace rlx
