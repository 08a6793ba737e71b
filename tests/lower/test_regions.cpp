// SPDX-License-Identifier: Apache-2.0
// Waves, lifetimes and bytes around steps that run as often as the device decides.
#include <algorithm>

#include "compiler/lower/state_writes.h"
#include "tests/lower/test_program.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

// x to kept; kept to inside and back, as often as the word says; kept to y. Beside it x to z, which
// hangs on nothing.
struct LoopProgram {
  TestProgram t;
  BufferId x = t.io("x", 512);
  BufferId y = t.io("y", 512);
  BufferId z = t.io("z", 512);
  BufferId kept = t.arena("kept", 512);
  BufferId inside = t.arena("inside", 512);
  BufferId side = t.arena("side", 512);
  BufferId word = t.arena("word", 4);
  BufferId counter = t.arena("counter", 4);
  std::vector<StepRegion> regions;

  LoopProgram() {
    t.step("first", {x}, {kept});
    t.step("begin", {x}, {word});
    t.step("there", {kept}, {inside});
    t.step("back", {inside}, {kept});
    t.step("goes on", {inside}, {word});
    t.step("beside", {x}, {side});
    t.step("late", {side}, {z});
    t.step("last", {kept}, {y});
    regions = {{.name = "loop",
                .first_step = 2,
                .step_count = 3,
                .most_trips = 9,
                .word = word,
                .counter = counter}};
  }
  [[nodiscard]] Schedule scheduled(bool serial = false) const {
    return schedule(t.program, {.regions = regions, .serial = serial});
  }
};

bool share_bytes(const Schedule& schedule, BufferId a, BufferId b) {
  return schedule.buffer_offsets[index_of(a)] == schedule.buffer_offsets[index_of(b)];
}

}  // namespace

TEST_CASE("a_region_has_waves_of_its_own_and_stands_together") {
  const LoopProgram loop;
  for (const bool serial : {false, true}) {
    const Schedule s = loop.scheduled(serial);
    for (uint32_t position = 0; position < s.order.size(); ++position) {
      const bool is_inside = loop.regions[0].holds(s.order[position]);
      CHECK(is_inside == s.regions[0].holds(position));
      for (uint32_t other = 0; other < s.order.size(); ++other) {
        if (s.wave[other] == s.wave[position])
          CHECK(is_inside == loop.regions[0].holds(s.order[other]));
      }
    }
  }
}

TEST_CASE("what_lives_into_a_region_lives_to_its_end_and_words_live_always") {
  LoopProgram loop;
  // Read by the region's first step alone, and yet needed in every trip.
  const BufferId given = loop.t.arena("given", 512);
  loop.t.program.steps[0].accesses.push_back(loop.t.whole(given, AccessMode::Write));
  loop.t.program.steps[2].accesses.push_back(loop.t.whole(given, AccessMode::Read));
  const Schedule s = loop.scheduled();
  const auto end = s.regions[0].end() - 1;
  CHECK(s.lifetimes[index_of(given)]->last_position >= end);
  CHECK(s.lifetimes[index_of(loop.kept)]->last_position > end);
  for (const BufferId word : {loop.word, loop.counter}) {
    CHECK(s.lifetimes[index_of(word)]->first_position == 0);
    CHECK(s.lifetimes[index_of(word)]->last_position + 1 == s.order.size());
    for (const BufferId other : {loop.kept, loop.inside, loop.side, given})
      CHECK_FALSE(share_bytes(s, word, other));
  }
  CHECK_FALSE(share_bytes(s, given, loop.inside));
}

TEST_CASE("a_region_waits_for_its_word") {
  LoopProgram loop;
  // A branch: its steps do not write the word.
  loop.t.program.steps[4].accesses = {loop.t.whole(loop.inside, AccessMode::Read),
                                      loop.t.whole(loop.kept, AccessMode::ReadWrite)};
  const Schedule s = loop.scheduled();
  const std::vector<uint32_t>& before = s.edges[s.regions[0].first_step];
  CHECK(std::find(before.begin(), before.end(), position_of(s, 1)) != before.end());
}

TEST_CASE("a_carried_value_is_written_where_it_lies_unless_its_old_value_is_needed") {
  for (const bool is_needed : {false, true}) {
    TestProgram t;
    const BufferId x = t.io("x", 512), kept = t.arena("kept", 512), made = t.arena("made", 512);
    const BufferId other = t.arena("other", 512);
    t.step("first", {x}, {kept});
    t.step("inside", {kept}, {other});
    t.step("makes", {other}, {made});
    t.step("uses", {is_needed ? kept : made}, {other});
    t.step("copy", {made}, {kept});
    write_carries_in_place(t.program, 1, {{.step = 4, .from = made, .carry = kept}});
    CHECK(t.program.steps.size() == (is_needed ? 5u : 4u));
    CHECK((t.program.steps[2].accesses[1].buffer == kept) == !is_needed);
  }
}

}  // namespace rlx::test
