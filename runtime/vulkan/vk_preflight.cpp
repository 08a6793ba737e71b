// SPDX-License-Identifier: Apache-2.0
// What a plan's header asks of a Vulkan device.
#include "runtime/vulkan/vk_preflight.h"

#include <string>
#include <string_view>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/device_names.h"
#include "runtime/vulkan/vk_features.h"

namespace rlx::vulkan {
namespace {

class Shortfalls {
 public:
  void add_limit(std::string_view what, uint64_t needs, uint64_t has) {
    if (needs > has) append(text_of(what, " (needs ", needs, ", has ", has, ")"));
  }
  void append(std::string_view item) { list_ += text_of(list_.empty() ? "" : ", ", item); }
  [[nodiscard]] const std::string& list() const { return list_; }

 private:
  std::string list_;
};

std::string version_text(uint32_t version) {
  return text_of(version >> 22 & 0x7F, ".", version >> 12 & 0x3FF);
}

}  // namespace

Status check_target(const PlanHeader& header, const DeviceInfo& device) {
  const PlanVulkanTarget& needs = header.vulkan;
  Shortfalls lacking;
  if (needs.api_version > device.api_version) {
    lacking.append(text_of("Vulkan ", version_text(needs.api_version), " (has ",
                           version_text(device.api_version), ")"));
  }
  if (const uint64_t missing = needs.features & ~device.features; missing != 0)
    lacking.append(feature_names(missing));
  lacking.add_limit("workgroup invocations", needs.max_workgroup_invocations,
                    device.max_workgroup_invocations);
  lacking.add_limit("bytes of shared memory per workgroup", needs.max_shared_bytes,
                    device.max_shared_bytes);
  lacking.add_limit("bytes of push constants", needs.max_params_bytes, device.max_params_bytes);
  for (size_t axis = 0; axis < 3; ++axis) {
    static constexpr std::string_view kAxes[] = {"workgroups along x", "workgroups along y",
                                                 "workgroups along z"};
    lacking.add_limit(kAxes[axis], needs.max_grid[axis], device.max_grid[axis]);
  }
  if (lacking.list().empty()) return {};
  return unsuitable(text_of(device_text(device), " lacks what the plan needs: ", lacking.list()));
}

}  // namespace rlx::vulkan
