// SPDX-License-Identifier: Apache-2.0
// Keeps drivers loaded, so that the leak checker can name them.
#include "tests/support/drivers.h"

#include <dlfcn.h>
#include <link.h>

#include <mutex>

#include "runtime/vulkan/vulkan_device.h"

// Read by the leak checker where the tests are built with one. Drivers and layers answer for
// themselves.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libvulkan\nleak:libVkLayer\nleak:libLLVM\nleak:libGLX\nleak:libnvidia\n";
}

namespace rlx::test {
namespace {

int keep_loaded(dl_phdr_info* info, size_t, void*) {
  if (info->dlpi_name != nullptr && info->dlpi_name[0] != '\0') {
    ::dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
  return 0;
}

}  // namespace

std::vector<DeviceInfo> present_devices(std::string& why_none) {
  static std::once_flag once;
  std::call_once(once, [] {
    std::shared_ptr<Device> device;
    Status status = open_vulkan_device("vulkan:0", device, {.validation = true});
    if (!status.ok()) status = open_vulkan_device("vulkan:0", device);
    if (status.ok()) ::dl_iterate_phdr(keep_loaded, nullptr);
  });
  return list_vulkan_devices(why_none);
}

}  // namespace rlx::test
