// SPDX-License-Identifier: Apache-2.0
// RLX_FAULT_AT, RLX_FAULT_CHOICE and RLX_FAULT_LOSE: numbers for the control.
#include <cstdlib>

#include "tests/faults/stand_in/driver_scope.h"

namespace rlx::test {
namespace {

uint64_t number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

}  // namespace

void take_environment(FaultControl& control) {
  if (std::getenv("RLX_FAULT_AT") == nullptr) return;
  control.fail_at = number_of("RLX_FAULT_AT");
  control.choice = static_cast<uint32_t>(number_of("RLX_FAULT_CHOICE"));
  control.lose = number_of("RLX_FAULT_LOSE") != 0;
}

}  // namespace rlx::test
