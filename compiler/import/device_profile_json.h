// SPDX-License-Identifier: Apache-2.0
// Profiles of devices as JSON files (compiler/dispatch/README.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/dispatch/device_profile.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// Every number of every target's model, indented; the text that read_device_profile reads.
std::string device_profile_json(DeviceProfile profile);

// nullopt where anything was reported: what is no profile, lacks a field, has an unknown one or one
// out of its range. `file` is for messages.
std::optional<DeviceProfile> parse_device_profile(std::string_view text, const std::string& file,
                                                  Diagnostics& diagnostics);
std::optional<DeviceProfile> read_device_profile(const std::string& path, Diagnostics& diagnostics);

}  // namespace rlx
