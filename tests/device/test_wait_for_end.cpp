// SPDX-License-Identifier: Apache-2.0
// How a wait divides its time between sleeping, polling and blocking.
#include <string>

#include "runtime/device/wait_for_end.h"
#include "tests/support/catch.h"

using namespace rlx;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

// Work that is over when it is looked at for the `polls`-th time, or in one of the calls that wait.
struct Work {
  uint32_t polls = UINT32_MAX;
  bool ends_asleep = false;
  bool ends_blocked = false;
  std::string calls{};  // s, p and b: in a row each is told once
  nanoseconds slept{0};
  nanoseconds blocked{0};

  void note(char call) {
    if (calls.empty() || calls.back() != call) calls += call;
  }
  bool is_over() {
    note('p');
    return --polls == 0;
  }
  bool sleep(nanoseconds time) {
    note('s');
    slept = time;
    return ends_asleep;
  }
  bool block(nanoseconds most) {
    note('b');
    blocked = most;
    return ends_blocked;
  }
};

constexpr nanoseconds kSpin = milliseconds(1);

}  // namespace

TEST_CASE("short_work_is_polled_from_its_begin") {
  Work work{.polls = 3};
  CHECK(wait_for_end(work, {.expected = kSpin / 2, .spin = kSpin}));
  CHECK(work.calls == "p");
}

TEST_CASE("long_work_is_slept_through_until_shortly_before_its_end") {
  Work work{.polls = 1};
  CHECK(wait_for_end(work, {.expected = milliseconds(100), .spin = kSpin}));
  CHECK(work.calls == "sp");
  CHECK(work.slept < milliseconds(100));
  CHECK(work.slept > milliseconds(99));
}

TEST_CASE("what_ends_while_asleep_is_not_asked_again") {
  Work work{.ends_asleep = true};
  CHECK(wait_for_end(work, {.expected = milliseconds(100), .spin = kSpin}));
  CHECK(work.calls == "s");
}

TEST_CASE("what_lasts_longer_than_expected_is_blocked_for") {
  Work work{.ends_blocked = true};
  CHECK(wait_for_end(work, {.spin = kSpin}));
  CHECK(work.calls == "pb");
  CHECK(work.blocked == nanoseconds::max());
}

TEST_CASE("a_timeout_ends_each_way_of_waiting") {
  Work work;
  CHECK_FALSE(wait_for_end(
      work, {.timeout_nanoseconds = 5000, .expected = milliseconds(100), .spin = kSpin}));
  CHECK(work.calls == "spb");
  CHECK(work.slept == nanoseconds(5000));
  CHECK(work.blocked <= nanoseconds(5000));
  Work none;
  CHECK_FALSE(wait_for_end(none, {.timeout_nanoseconds = 0, .spin = kSpin}));
  CHECK(none.calls == "pb");
  CHECK(none.blocked == nanoseconds(0));
}
