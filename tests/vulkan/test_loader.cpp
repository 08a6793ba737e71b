// SPDX-License-Identifier: Apache-2.0
// Machines without Vulkan: the error says what is missing and which package brings it.
#include "runtime/vulkan/vulkan_device.h"
#include "tests/support/catch.h"

using namespace rlx;

TEST_CASE("a_missing_loader_is_refused_with_the_package_that_has_it") {
  std::shared_ptr<Device> device;
  const Status status =
      open_vulkan_device("vulkan:0", device, {.loader = "libvulkan-missing.so.1"});
  CHECK(status.code() == RLX_NO_DEVICE);
  CHECK(status.message().find("the Vulkan loader libvulkan-missing.so.1 cannot be opened") !=
        std::string::npos);
  CHECK(status.message().find("install the package libvulkan1") != std::string::npos);
  CHECK(device == nullptr);
}

TEST_CASE("a_library_that_is_no_loader_is_refused") {
  std::shared_ptr<Device> device;
  const Status status = open_vulkan_device("vulkan:0", device, {.loader = "libc.so.6"});
  CHECK(status.code() == RLX_NO_DEVICE);
  CHECK(status.message().find("libc.so.6 has no vkGetInstanceProcAddr") != std::string::npos);
}
