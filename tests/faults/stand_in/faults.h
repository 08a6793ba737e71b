// SPDX-License-Identifier: Apache-2.0
// What every stand-in does with a call before the driver sees it.
#pragma once

#include <optional>
#include <span>

#include "tests/faults/stand_in/control.h"

namespace rlx::test {

// The library's own.
FaultControl& fault_control();

// A child process says by its environment what a test in the same process says by the control:
// RLX_FAULT_AT, RLX_FAULT_CHOICE and RLX_FAULT_LOSE are numbers for it.
void take_environment();

// Tells that this thread is inside the driver.
class DriverScope {
 public:
  DriverScope() : tell_(fault_control().in_driver) {
    if (tell_ != nullptr) tell_(1);
  }
  ~DriverScope() {
    if (tell_ != nullptr) tell_(-1);
  }
  DriverScope(const DriverScope&) = delete;
  DriverScope& operator=(const DriverScope&) = delete;

 private:
  void (*tell_)(int);
};

struct DriverCall {
  const char* name;
  std::span<const int> results;  // the errors that it may return
  int lost;                      // the one that says that the device is lost
  bool is_poll = false;
  bool may_lose = true;  // false: that result of this call loses no device that is there
};

// What the call returns instead of its own result; nullopt where it goes on. `lose` makes the
// device a lost one.
std::optional<int> take_fault(const DriverCall& call, void (*lose)());

}  // namespace rlx::test
