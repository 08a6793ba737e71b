// SPDX-License-Identifier: Apache-2.0
// The kinds of failure that devices report, each with the one status code it has.
#pragma once

#include <string>
#include <utility>

#include "runtime/base/status.h"

namespace rlx {

// This device or driver cannot run the plan, or any plan.
inline Status unsuitable(std::string message) {
  return {RLX_UNSUITABLE_DEVICE, std::move(message)};
}
// There is no such device, or no driver library.
inline Status no_device(std::string message) {
  return {RLX_NO_DEVICE, std::move(message)};
}
inline Status out_of_host_memory(std::string message) {
  return {RLX_OUT_OF_HOST_MEMORY, std::move(message)};
}
inline Status out_of_device_memory(std::string message) {
  return {RLX_OUT_OF_DEVICE_MEMORY, std::move(message)};
}
inline Status device_lost(std::string message) {
  return {RLX_DEVICE_LOST, std::move(message)};
}
inline Status timed_out(std::string message) {
  return {RLX_TIMEOUT, std::move(message)};
}
// A driver call failed for a reason that no caller can mend, or the validation layer complained.
inline Status driver_error(std::string message) {
  return {RLX_DRIVER_ERROR, std::move(message)};
}
inline Status invalid_argument(std::string message) {
  return {RLX_INVALID_ARGUMENT, std::move(message)};
}
inline Status invalid_state(std::string message) {
  return {RLX_INVALID_STATE, std::move(message)};
}

}  // namespace rlx
