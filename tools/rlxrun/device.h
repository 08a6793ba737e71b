// SPDX-License-Identifier: Apache-2.0
// Opens the device that the user named.
#pragma once

#include <string>

#include "tools/rlxrun/handles.h"

namespace rlx::tool {

// With `validate` the Vulkan validation layer watches; what it reports fails the next run.
DeviceHandle open_device(const std::string& id, bool validate);

}  // namespace rlx::tool
