// SPDX-License-Identifier: Apache-2.0
// The first fault's text, written by whichever thread meets it.
#include "tests/soak/board.h"

#include <algorithm>
#include <cstring>

namespace rlx::soak {

void Board::tell_fault(std::string_view text) {
  if (fault_claimed.exchange(1) != 0) return;
  const size_t length = std::min(text.size(), kFaultBytes - 1);
  std::memcpy(fault.data(), text.data(), length);
  fault[length] = '\0';
  fault_written.store(1);
}

std::string_view Board::first_fault() const {
  if (fault_written.load() == 0) return {};
  return fault.data();
}

}  // namespace rlx::soak
