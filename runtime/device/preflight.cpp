// SPDX-License-Identifier: Apache-2.0
// Whether a device can run a plan, by the plan's header alone.
#include "runtime/device/preflight.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "runtime/base/text.h"
#include "runtime/plan/plan_memory.h"

namespace rlx {
namespace {

struct FeatureRow {
  uint64_t mask;
  std::string_view text;
};

constexpr FeatureRow kFeatureRows[] = {
#define RLX_FEATURE(name, bit, text) {uint64_t{1} << (bit), text},
#include "schema/features.def"
#undef RLX_FEATURE
};

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

Status check_vulkan(const PlanVulkanTarget& needs, const DeviceInfo& device) {
  if (needs.present == 0) {
    return {RLX_UNSUITABLE_DEVICE,
            text_of("the plan holds no Vulkan code, so device ", device.id, " ",
                    quoted(device.name), " cannot run it; compile the model with --target vulkan")};
  }
  Shortfalls lacking;
  if (needs.api_version > device.api_version) {
    lacking.append(text_of("Vulkan ", version_text(needs.api_version), " (has ",
                           version_text(device.api_version), ")"));
  }
  for (const FeatureRow& row : kFeatureRows) {
    if ((needs.features & row.mask) != 0 && (device.features & row.mask) == 0)
      lacking.append(row.text);
  }
  lacking.add_limit("workgroup invocations", needs.max_workgroup_invocations,
                    device.max_workgroup_invocations);
  lacking.add_limit("bytes of shared memory", needs.max_shared_bytes, device.max_shared_bytes);
  lacking.add_limit("bytes of push constants", needs.max_params_bytes, device.max_params_bytes);
  for (size_t axis = 0; axis < 3; ++axis) {
    static constexpr std::string_view kAxes[] = {"workgroups along x", "workgroups along y",
                                                 "workgroups along z"};
    lacking.add_limit(kAxes[axis], needs.max_grid[axis], device.max_grid[axis]);
  }
  if (lacking.list().empty()) return {};
  return {RLX_UNSUITABLE_DEVICE, text_of("device ", device.id, " ", quoted(device.name),
                                         " lacks what the plan needs: ", lacking.list())};
}

// Mirrors how code is chosen: a cubin runs on its own major architecture from its minor one on, PTX
// on every architecture that is not older.
bool has_code_for(const PlanCudaTarget& needs, uint32_t architecture) {
  if (needs.ptx_architecture != 0 && needs.ptx_architecture <= architecture) return true;
  return std::any_of(needs.architectures, needs.architectures + needs.architecture_count,
                     [&](uint32_t candidate) {
                       return candidate / 10 == architecture / 10 && candidate <= architecture;
                     });
}

Status check_cuda(const PlanCudaTarget& needs, const DeviceInfo& device) {
  if (needs.present == 0) {
    return {RLX_UNSUITABLE_DEVICE,
            text_of("the plan holds no CUDA code, so device ", device.id, " ", quoted(device.name),
                    " cannot run it; compile the model with --target cuda")};
  }
  if (!has_code_for(needs, device.architecture)) {
    return {RLX_UNSUITABLE_DEVICE,
            text_of("the plan has code for ", architectures_text(needs), "; device ", device.id,
                    " ", quoted(device.name), " is sm_", device.architecture,
                    "; compile the model with --arch sm_", device.architecture)};
  }
  if (needs.minimum_driver > device.api_version) {
    return {RLX_UNSUITABLE_DEVICE,
            text_of("the plan needs a driver for CUDA ", needs.minimum_driver / 1000, ".",
                    needs.minimum_driver % 1000 / 10, ", device ", device.id, " ",
                    quoted(device.name), " has ", device.driver)};
  }
  return {};
}

Status check_memory(const PlanHeader& header, const DeviceInfo& device) {
  const uint64_t needed = segment_bytes(header);
  const uint64_t available =
      device.available_bytes != 0 ? device.available_bytes : device.memory_bytes;
  if (needed <= available) return {};
  return {RLX_OUT_OF_DEVICE_MEMORY,
          text_of("the plan needs ", bytes_text(needed), " of device memory, device ", device.id,
                  " ", quoted(device.name), " has ", bytes_text(available), "; ",
                  largest_segments_text(header))};
}

}  // namespace

std::string architectures_text(const PlanCudaTarget& needs) {
  std::string list;
  for (uint32_t i = 0; i < needs.architecture_count; ++i)
    list += text_of(list.empty() ? "" : ", ", "sm_", needs.architectures[i]);
  if (needs.ptx_architecture != 0)
    list += text_of(list.empty() ? "" : ", ", "PTX for sm_", needs.ptx_architecture);
  return list;
}

Status check_device_suits(const PlanHeader& header, const DeviceInfo& device) {
  if (device.id == "null") return {};
  RLX_RETURN_IF_ERROR(device.architecture != 0 ? check_cuda(header.cuda, device)
                                               : check_vulkan(header.vulkan, device));
  return check_memory(header, device);
}

}  // namespace rlx
