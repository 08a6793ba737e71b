// SPDX-License-Identifier: Apache-2.0
// Opening a device: through the C API, or past it where the validation layer is wanted, which is no
// concern of programs.
#include "tools/rlxrun/device.h"

#include "runtime/api/handles.h"
#include "runtime/vulkan/vulkan_device.h"
#include "tools/rlxrun/errors.h"

namespace rlx::tool {

DeviceHandle open_device(const std::string& id, bool validate) {
  if (!validate) {
    rlx_device* device = nullptr;
    check(rlx_device_open(id.c_str(), &device));
    return DeviceHandle(device);
  }
  if (!id.starts_with("vulkan")) {
    throw Failure(ExitCode::Usage, "--validate needs a Vulkan device, not \"" + id + "\"");
  }
  std::shared_ptr<Device> device;
  check(open_vulkan_device(id, device, {.validation = true}));
  return DeviceHandle(make_device_handle(std::move(device)));
}

}  // namespace rlx::tool
