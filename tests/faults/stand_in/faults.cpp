// SPDX-License-Identifier: Apache-2.0
// The control, and the call that is to fail.
#include "tests/faults/stand_in/faults.h"

#include <algorithm>
#include <cstdlib>

namespace rlx::test {
namespace {

uint64_t number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

std::atomic<bool> polling{false};

}  // namespace

FaultControl& fault_control() {
  static FaultControl control;
  return control;
}

void take_environment() {
  if (std::getenv("RLX_FAULT_AT") == nullptr) return;
  FaultControl& control = fault_control();
  control.fail_at = number_of("RLX_FAULT_AT");
  control.choice = static_cast<uint32_t>(number_of("RLX_FAULT_CHOICE"));
  control.lose = number_of("RLX_FAULT_LOSE") != 0;
}

std::optional<int> take_fault(const DriverCall& call, void (*lose)()) {
  FaultControl& control = fault_control();
  const bool counts = !call.is_poll || !polling;
  polling = call.is_poll;
  const bool can_lose =
      call.may_lose && std::ranges::find(call.results, call.lost) != call.results.end();
  std::optional<int> fault;
  if (counts && ++control.calls == control.fail_at) {
    control.function = call.name;
    control.choices = static_cast<uint32_t>(call.results.size());
    if (control.lose) {
      lose();
    } else {
      fault = call.results[std::min<size_t>(control.choice, call.results.size() - 1)];
      control.result = *fault;
      if (can_lose && fault == call.lost) lose();
    }
    control.reached = true;
  }
  if (control.lost && can_lose) fault = call.lost;
  if (fault == call.lost) ++control.told_lost;
  return fault;
}

}  // namespace rlx::test

rlx::test::FaultControl* rlx_fault_control() {
  return &rlx::test::fault_control();
}
