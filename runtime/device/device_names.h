// SPDX-License-Identifier: Apache-2.0
// What devices are called: by their ids, as "vulkan:0", and in messages.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/device.h"

namespace rlx {

// The N of "<kind>:N", 0 for "<kind>". One device has one name: "vulkan:00" and "vulkan:+0" are
// none.
inline std::optional<size_t> device_number(std::string_view id, std::string_view kind) {
  if (id == kind) return 0;
  if (!id.starts_with(kind) || !id.substr(kind.size()).starts_with(':')) return std::nullopt;
  const std::string_view digits = id.substr(kind.size() + 1);
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// Finds the device of an id among those of a kind, which are in the order of their numbers and not
// none. Found has a DeviceInfo `info`. RLX_NO_DEVICE with what there is.
template <class Found>
Status find_device(std::string_view id, std::string_view kind, std::vector<Found>& devices,
                   Found*& found) {
  const std::optional<size_t> index = device_number(id, kind);
  if (index.has_value() && *index < devices.size()) {
    found = &devices[*index];
    return {};
  }
  std::string message = text_of("there is no device ", quoted(id), "; this machine has ");
  for (const Found& device : devices) {
    message += text_of(&device == &devices.front() ? "" : ", ", device.info.id, " (",
                       device.info.name, ")");
  }
  return no_device(std::move(message));
}

// device vulkan:0 "llvmpipe"
inline std::string device_text(const DeviceInfo& device) {
  return text_of("device ", device.id, " ", rlx::quoted(device.name));
}

// RLX_DEVICE_LOST, for every call after the one that met the loss.
inline Status lost_earlier(const DeviceInfo& device) {
  return device_lost(text_of(device_text(device),
                             " was lost earlier; close its sessions and plans and open it again"));
}

}  // namespace rlx
