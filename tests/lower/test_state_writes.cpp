// SPDX-License-Identifier: Apache-2.0
// Which copies into states go, and why the others stay.
#include "compiler/lower/state_writes.h"
#include "tests/lower/test_program.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

// A copy of `from` into the state, as lowering ends.
void end_with_copy(TestProgram& t, BufferId from, BufferId state) {
  Step& copy = t.step("write", {from}, {state});
  copy.kind = StepKind::Copy;
  copy.reason = "dense copy";
}

}  // namespace

TEST_CASE("all_writers_and_readers_of_a_new_value_move_to_the_state") {
  TestProgram t;
  const BufferId s = t.add(Segment::State, "s", 512);
  const BufferId x = t.io("x", 512), y = t.io("y", 512), n = t.arena("n", 512);
  t.step("old", {s}, {y});
  t.step("low", {t.whole(x, AccessMode::Read), TestProgram::part(n, 0, 256, AccessMode::Write)});
  t.step("high", {t.whole(x, AccessMode::Read), TestProgram::part(n, 256, 256, AccessMode::Write)});
  t.step("reads", {n}, {y});
  end_with_copy(t, n, s);
  write_states_in_place(t.program);
  REQUIRE(t.program.steps.size() == 4);
  CHECK(t.program.steps[1].accesses[1].buffer == s);
  CHECK(t.program.steps[2].accesses[1].buffer == s);
  CHECK(t.program.steps[3].accesses[0].buffer == s);
}

TEST_CASE("a_step_overwrites_the_state_that_it_reads_only_where_it_may") {
  for (const bool may : {false, true}) {
    TestProgram t;
    const BufferId s = t.add(Segment::State, "s", 512), n = t.arena("n", 512);
    Step& step = t.step("update", {s}, {n});
    step.op = "sub";
    if (may) step.in_place_states = {s};
    end_with_copy(t, n, s);
    write_states_in_place(t.program);
    REQUIRE(t.program.steps.size() == (may ? 1 : 2));
    if (may) continue;
    CHECK(t.program.steps[1].reason ==
          "dense copy: sub \"update\" reads the state's old value elsewhere than where it writes "
          "the new one");
  }
}

TEST_CASE("the_reader_of_an_old_value_is_named") {
  TestProgram t;
  const BufferId s = t.add(Segment::State, "s", 512);
  const BufferId x = t.io("x", 512), y = t.io("y", 512), n = t.arena("n", 512);
  t.step("new", {x}, {n}).op = "exp";
  t.step("late", {s}, {y}).op = "neg";
  end_with_copy(t, n, s);
  write_states_in_place(t.program);
  REQUIRE(t.program.steps.size() == 3);
  CHECK(t.program.steps[2].reason ==
        "dense copy: neg \"late\" uses the state's old value after exp \"new\" has begun the new "
        "one");
}

TEST_CASE("of_two_states_that_swap_one_copy_goes") {
  TestProgram t;
  const BufferId p = t.add(Segment::State, "p", 512), q = t.add(Segment::State, "q", 512);
  const BufferId a = t.arena("a", 512), b = t.arena("b", 512);
  t.step("from_q", {q}, {a});
  t.step("from_p", {p}, {b});
  end_with_copy(t, a, p);
  end_with_copy(t, b, q);
  write_states_in_place(t.program);
  REQUIRE(t.program.steps.size() == 3);
  CHECK(t.program.steps[1].accesses[0].buffer == p);
  CHECK(t.program.steps[1].accesses[1].buffer == q);
  CHECK(t.program.steps[2].accesses[1].buffer == p);
}

}  // namespace rlx::test
