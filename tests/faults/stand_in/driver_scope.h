// SPDX-License-Identifier: Apache-2.0
// Tells that this thread is inside the driver.
#pragma once

#include "tests/faults/stand_in/control.h"

namespace rlx::test {

class DriverScope {
 public:
  explicit DriverScope(const FaultControl& control) : tell_(control.in_driver) {
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

// A child process says by its environment what a test in the same process says by the control.
void take_environment(FaultControl& control);

}  // namespace rlx::test
