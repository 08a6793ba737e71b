// SPDX-License-Identifier: Apache-2.0
// Vulkan's drivers, kept loaded.
#pragma once

#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace rlx::test {

// list_vulkan_devices, with the drivers kept in memory from the first call on: what a driver leaves
// behind when the loader unloads it can then be told from what we leave behind.
std::vector<DeviceInfo> present_devices(std::string& why_none);

}  // namespace rlx::test
