// SPDX-License-Identifier: Apache-2.0
// Waiting for work on a device to end: asleep through most of the time that it should take, polling
// around the end that is expected, then blocked.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/device.h"

namespace rlx {

struct WaitTimes {
  uint64_t timeout_nanoseconds = UINT64_MAX;  // UINT64_MAX: none
  std::chrono::nanoseconds expected{0};       // until the end; 0 where nothing is known
  // For which polling is worth more than a blocked thread's wake-up, which takes 30 us and more:
  // shorter work is polled from its begin to its end.
  std::chrono::nanoseconds spin{0};
};

// Work knows how to look at the end on its device, failures included:
//   bool is_over()                       at once
//   bool sleep(nanoseconds time)         after so much time, or at the end where the device wakes
//   bool block(nanoseconds most)         at the end, or after so much time; nanoseconds::max():
//   never
// Each says whether the work is over. True where it is, false where the timeout came first.
template <class Work>
bool wait_for_end(Work& work, const WaitTimes& times) {
  using Clock = std::chrono::steady_clock;
  using std::chrono::nanoseconds;
  constexpr nanoseconds kLongestLead(500000);  // before the expected end, and as long behind it
  const bool forever = times.timeout_nanoseconds == UINT64_MAX;
  const nanoseconds timeout =
      forever ? nanoseconds::max()
              : nanoseconds(std::min<uint64_t>(times.timeout_nanoseconds, INT64_MAX));
  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return nanoseconds(Clock::now() - start); };

  const nanoseconds lead = std::min(times.expected / 5, kLongestLead);
  const nanoseconds asleep = times.expected - lead;
  if (asleep > times.spin && work.sleep(std::min(asleep, timeout))) return true;
  const nanoseconds spin_end = std::min(times.expected + lead + times.spin, timeout);
  do {
    if (work.is_over()) return true;
  } while (elapsed() < spin_end);
  return work.block(forever ? timeout : std::max(timeout - elapsed(), nanoseconds(0)));
}

// RLX_TIMEOUT for what did not end in time.
inline Status out_of_time(std::string_view what, uint64_t timeout_nanoseconds,
                          const DeviceInfo& device) {
  return timed_out(
      text_of(what, " did not finish within ", timeout_nanoseconds / 1000, " us on ", device.id));
}

}  // namespace rlx
