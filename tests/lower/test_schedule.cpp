// SPDX-License-Identifier: Apache-2.0
// Laws of the schedule: dependencies, waves, in-place takeovers and reuse.
#include "compiler/lower/hazards.h"
#include "compiler/lower/schedule.h"
#include "compiler/lower/share_scratch.h"
#include "tests/lower/test_program.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

using Waves = std::vector<uint32_t>;

TEST_CASE("empty_program_has_no_waves") {
  const Schedule result = schedule(Program{});
  CHECK(result.wave_count == 0);
  CHECK(result.arena_bytes == 0);
  CHECK(result.order.empty());
}

TEST_CASE("arena_reuses_dead_value") {
  TestProgram t;
  const BufferId x = t.io("x", 1024), y = t.io("y", 1024);
  const BufferId a = t.arena("a", 1024), b = t.arena("b", 1024), c = t.arena("c", 1024);
  t.step("s0", {x}, {a});
  t.step("s1", {a}, {b});
  t.step("s2", {b}, {c});
  t.step("s3", {c}, {y});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK(result.arena_bytes == 2048);
  CHECK(result.unplanned_bytes == 3072);
  CHECK(result.buffer_offsets[index_of(a)] == result.buffer_offsets[index_of(c)]);
  CHECK(result.wave_count == 4);
}

TEST_CASE("in_place_chain_shares_one_slot") {
  TestProgram t;
  const BufferId x = t.io("x", 1000), y = t.io("y", 1000);
  const BufferId a = t.arena("a", 1000), b = t.arena("b", 1000), c = t.arena("c", 1000);
  t.step("s0", {x}, {a});
  t.step("s1", {a}, {b}).in_place_input = a;
  t.step("s2", {b}, {c}).in_place_input = b;
  t.step("s3", {c}, {y});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK(result.arena_bytes == 1024);
  CHECK(result.in_place_of[index_of(c)] == b);
  CHECK(result.in_place_of[index_of(b)] == a);

  const Schedule apart = schedule(t.program, {.in_place = false});
  CHECK(faults_of(t.program, apart).empty());
  CHECK(apart.arena_bytes == 2048);
  CHECK_FALSE(apart.in_place_of[index_of(b)].has_value());
}

TEST_CASE("in_place_is_refused_while_another_step_reads_the_input") {
  TestProgram t;
  const BufferId x = t.io("x", 512), y = t.io("y", 512), z = t.io("z", 512);
  const BufferId a = t.arena("a", 512), b = t.arena("b", 512);
  t.step("make", {x}, {a});
  t.step("over", {a}, {b}).in_place_input = a;
  t.step("later_reader", {a, b}, {y});
  t.step("last", {b}, {z});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK_FALSE(result.in_place_of[index_of(b)].has_value());
}

TEST_CASE("in_place_waits_for_other_readers_where_the_chain_allows") {
  TestProgram t;
  const BufferId x = t.io("x", 512), y = t.io("y", 512);
  const BufferId a = t.arena("a", 4096), b = t.arena("b", 4096), c = t.arena("c", 256),
                 d = t.arena("d", 256);
  t.step("make", {x}, {a});
  t.step("other", {a}, {c});
  t.step("deeper", {c}, {d});
  t.step("over", {a}, {b}).in_place_input = a;
  t.step("join", {b, d}, {y});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK(result.wave_count == 4);
  CHECK(result.in_place_of[index_of(b)] == a);
  CHECK(result.arena_bytes == 4096 + 256 + 256);
}

TEST_CASE("in_place_needs_equal_dense_ranges") {
  for (const bool shifted : {false, true}) {
    TestProgram t;
    const BufferId x = t.io("x", 1024), y = t.io("y", 512);
    const BufferId a = t.arena("a", 1024), b = t.arena("b", shifted ? 1024 : 512);
    t.step("make", {x}, {a});
    t.step("over", {TestProgram::part(a, shifted ? 256 : 0, 512, AccessMode::Read),
                    TestProgram::part(b, 0, 512, AccessMode::Write)})
        .in_place_input = a;
    t.step("last", {TestProgram::part(b, 0, 512, AccessMode::Read), t.whole(y, AccessMode::Write)});
    const Schedule result = schedule(t.program);
    CHECK(faults_of(t.program, result).empty());
    CHECK_FALSE(result.in_place_of[index_of(b)].has_value());
  }
}

TEST_CASE("an_input_read_twice_by_the_step_is_not_taken_over") {
  TestProgram t;
  const BufferId x = t.io("x", 512), y = t.io("y", 512);
  const BufferId a = t.arena("a", 512), b = t.arena("b", 512);
  t.step("make", {x}, {a});
  t.step("transposed_sum", {a, a}, {b}).in_place_input = a;
  t.step("last", {b}, {y});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK_FALSE(result.in_place_of[index_of(b)].has_value());
}

TEST_CASE("concurrent_steps_never_alias") {
  TestProgram t;
  const BufferId x = t.io("x", 256), y = t.io("y", 256);
  std::vector<BufferId> branches;
  for (int i = 0; i < 6; ++i) {
    branches.push_back(t.arena("b" + std::to_string(i), 256));
    t.step("branch" + std::to_string(i), {x}, {branches.back()});
  }
  t.step("join", branches, {y});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK(result.wave_count == 2);
  CHECK(result.arena_bytes == 6 * 256);
}

TEST_CASE("disjoint_parts_of_one_buffer_are_written_concurrently") {
  TestProgram t;
  const BufferId x = t.io("x", 256), y = t.io("y", 512);
  const BufferId joined = t.arena("joined", 512);
  t.step("left",
         {t.whole(x, AccessMode::Read), TestProgram::part(joined, 0, 256, AccessMode::Write)});
  t.step("right",
         {t.whole(x, AccessMode::Read), TestProgram::part(joined, 256, 256, AccessMode::Write)});
  t.step("use", {joined}, {y});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK(result.wave == Waves{0, 0, 1});
  CHECK(result.edges[2] == Waves{0, 1});
}

// At the largest size the second part lies behind all that the memory held before.
TEST_CASE("a_part_that_moves_waits_for_what_it_may_move_over") {
  const Dim rows = Dim::of({.index = 0, .name = "rows", .minimum = 1, .maximum = 16});
  const auto part = [](BufferId buffer, const Dim& offset, const Dim& bytes, AccessMode mode) {
    return Access{.buffer = buffer,
                  .offset_bytes = offset,
                  .range_offset_bytes = offset,
                  .range_bytes = bytes,
                  .mode = mode};
  };
  TestProgram t;
  const BufferId x = t.io("x", 256), y = t.io("y", 4096), z = t.io("z", 256);
  const BufferId before = t.arena("before", 1024);
  const BufferId both = t.arena("both", 4096);
  t.program.buffers[index_of(both)].size_bytes = rows * 256;
  t.step("make", {x}, {before});
  t.step("last", {before}, {z});
  t.step("first", {t.whole(z, AccessMode::Read), part(both, 0, rows * 128, AccessMode::Write)});
  t.step("second",
         {t.whole(x, AccessMode::Read), part(both, rows * 128, rows * 128, AccessMode::Write)});
  t.step("read", {part(both, 0, rows * 256, AccessMode::Read), t.whole(y, AccessMode::Write)});
  std::vector<uint32_t> order = {0, 1, 2, 3, 4};
  // Both arena buffers from byte 0 on.
  const std::vector<uint64_t> offsets(t.program.buffers.size(), 0);
  const Edges edges = find_hazards(t.program, order, physical_places(t.program, offsets));
  CHECK(edges[2] == std::vector<uint32_t>{0, 1});
  CHECK(edges[3] == std::vector<uint32_t>{0, 1});
  // The parts are apart at every size.
  CHECK(edges[4] == std::vector<uint32_t>{2, 3});
}

TEST_CASE("a_state_is_written_after_it_was_read") {
  TestProgram t;
  const BufferId state = t.add(Segment::State, "cache", 64);
  const BufferId x = t.io("x", 64), y = t.io("y", 64);
  t.step("read", {state}, {y});
  t.step("write", {x}, {state});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK(result.wave == Waves{0, 1});
  CHECK(result.edges[1] == Waves{0});
}

TEST_CASE("buffers_of_one_state_are_one_memory") {
  TestProgram t;
  const BufferId first = t.add(Segment::State, "cache", 64);
  const BufferId second = t.add(Segment::State, "cache_again", 64);
  t.program.buffers[index_of(second)].state = t.program.buffers[index_of(first)].state;
  const BufferId x = t.io("x", 64), y = t.io("y", 64);
  t.step("write", {x}, {first});
  t.step("read", {second}, {y});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK(result.edges[1] == Waves{0});
}

TEST_CASE("readers_of_one_weight_do_not_wait_for_each_other") {
  TestProgram t;
  const BufferId weight = t.add(Segment::Weights, "w", 64);
  const BufferId y = t.io("y", 64), z = t.io("z", 64);
  t.step("a", {weight}, {y});
  t.step("b", {weight}, {z});
  const Schedule result = schedule(t.program);
  CHECK(result.wave_count == 1);
  CHECK(result.edges[1].empty());
}

TEST_CASE("empty_accesses_order_nothing") {
  TestProgram t;
  const BufferId y = t.io("y", 64);
  t.step("a", {TestProgram::part(y, 0, 0, AccessMode::Write)});
  t.step("b", {TestProgram::part(y, 0, 0, AccessMode::Read)});
  const Schedule result = schedule(t.program);
  CHECK(result.wave_count == 1);
  CHECK(faults_of(t.program, result).empty());
}

TEST_CASE("edges_are_transitively_reduced") {
  TestProgram t;
  const BufferId x = t.io("x", 64), y = t.io("y", 64);
  const BufferId a = t.arena("a", 64), b = t.arena("b", 64);
  t.step("s0", {x}, {a});
  t.step("s1", {a}, {b});
  t.step("s2", {a, b}, {y});
  const Schedule result = schedule(t.program);
  CHECK(result.edges[2] == Waves{1});
}

TEST_CASE("a_step_off_the_chain_is_delayed_when_that_saves_memory") {
  // Three large values from the input are each reduced to a small one at a point of a long chain.
  TestProgram t;
  const BufferId x = t.io("x", 64), y = t.io("y", 64);
  std::vector<BufferId> large;
  for (int i = 0; i < 3; ++i) {
    large.push_back(t.arena("large" + std::to_string(i), 1 << 20));
    t.step("make" + std::to_string(i), {x}, {large.back()});
  }
  BufferId chain = t.arena("c", 64);
  t.step("start", {x}, {chain});
  for (int i = 0; i < 3; ++i) {
    const BufferId next = t.arena("c" + std::to_string(i), 64);
    const BufferId after = t.arena("d" + std::to_string(i), 64);
    t.step("use" + std::to_string(i), {chain, large[static_cast<size_t>(i)]}, {next});
    t.step("rest" + std::to_string(i), {next}, {after});
    chain = after;
  }
  t.step("end", {chain}, {y});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK(result.wave_count == 8);
  CHECK(result.arena_bytes < (2 << 20));
}

TEST_CASE("a_chain_off_the_chain_is_delayed_as_a_whole") {
  // What the long chain gives is best taken at once, what the side chain makes best made late: the
  // second of its two steps saves nothing by itself, both together do.
  TestProgram t;
  const BufferId x = t.io("x", 64), y = t.io("y", 64);
  const BufferId p = t.arena("p", 1 << 20), q = t.arena("q", 1 << 20);
  t.step("first", {x}, {p});
  t.step("second", {p}, {q});
  BufferId chain = t.arena("c", 64);
  t.step("start", {x}, {chain});
  for (int i = 0; i < 4; ++i) {
    const std::string number = std::to_string(i);
    const BufferId next = t.arena("c" + number, 64), large = t.arena("large" + number, 1 << 20);
    t.step("give" + number, {chain}, {next, large});
    t.step("take" + number, {large}, {t.io("y" + number, 64)});
    chain = next;
  }
  for (int i = 0; i < 3; ++i) {
    const BufferId next = t.arena("d" + std::to_string(i), 64);
    t.step("rest" + std::to_string(i), {chain}, {next});
    chain = next;
  }
  t.step("end", {chain, q}, {y});
  const Schedule result = schedule(t.program);
  CHECK(faults_of(t.program, result).empty());
  CHECK(result.wave_count == 9);
  CHECK(result.arena_bytes < (2 << 20) + 4096);
}

TEST_CASE("memory_goal_takes_more_waves_to_save_memory") {
  TestProgram t;
  const BufferId x = t.io("x", 64), y = t.io("y", 64 * 4);
  for (int i = 0; i < 4; ++i) {
    const BufferId large = t.arena("large" + std::to_string(i), 1 << 16);
    t.step("make" + std::to_string(i), {x}, {large});
    t.step("use" + std::to_string(i),
           {t.whole(large, AccessMode::Read),
            TestProgram::part(y, static_cast<uint64_t>(i) * 64, 64, AccessMode::Write)});
  }
  const Schedule fast = schedule(t.program);
  const Schedule small = schedule(t.program, {.goal = ScheduleGoal::Memory});
  CHECK(faults_of(t.program, fast).empty());
  CHECK(faults_of(t.program, small).empty());
  CHECK(fast.wave_count == 2);
  CHECK(fast.arena_bytes == 4 << 16);
  CHECK(small.arena_bytes == 1 << 16);
  CHECK(small.wave_count == 8);
}

TEST_CASE("reading_arena_bytes_that_nothing_wrote_is_our_mistake") {
  TestProgram t;
  const BufferId y = t.io("y", 64), a = t.arena("a", 64);
  t.step("enc.0.softmax", {a}, {y});
  CHECK(contains(internal_error_of(t.program), "node \"enc.0.softmax\" reads arena buffer \"a\""));
}

TEST_CASE("an_access_outside_its_buffer_is_our_mistake") {
  TestProgram t;
  const BufferId y = t.io("y", 64);
  t.step("enc.0.pad", {TestProgram::part(y, 32, 64, AccessMode::Write)});
  CHECK(contains(internal_error_of(t.program), "node \"enc.0.pad\" accesses 64 bytes at 32"));
}

TEST_CASE("a_serial_schedule_runs_one_step_after_the_other") {
  TestProgram t;
  const BufferId x = t.io("x", 64);
  for (int i = 0; i < 3; ++i) {
    const BufferId a = t.arena("a" + std::to_string(i), 64);
    const BufferId y = t.io("y" + std::to_string(i), 64);
    t.step("p" + std::to_string(i), {x}, {a});
    t.step("q" + std::to_string(i), {a}, {y});
  }
  CHECK(schedule(t.program).wave_count == 2);
  const Schedule serial = schedule(t.program, {.serial = true});
  CHECK(serial.wave_count == 6);
  for (uint32_t i = 0; i < 6; ++i) {
    CHECK(serial.order[i] == i);
    CHECK(serial.edges[i] == (i == 0 ? std::vector<uint32_t>{} : std::vector<uint32_t>{i - 1}));
  }
}

TEST_CASE("a_schedule_is_the_same_each_time") {
  TestProgram t;
  const BufferId x = t.io("x", 64);
  for (int i = 0; i < 40; ++i) {
    const BufferId a = t.arena("a" + std::to_string(i), 100u * static_cast<uint64_t>(i % 7 + 1));
    const BufferId y = t.io("y" + std::to_string(i), 64);
    t.step("p" + std::to_string(i), {x}, {a});
    t.step("q" + std::to_string(i), {a}, {y});
  }
  const Schedule one = schedule(t.program);
  const Schedule two = schedule(t.program);
  CHECK(one.order == two.order);
  CHECK(one.buffer_offsets == two.buffer_offsets);
  CHECK(one.edges == two.edges);
}

// An alternate of sizes above `above` and up to `most`; 0: of none.
ServedSizes served(int64_t above, int64_t most) {
  const Dim size = Dim::of({.index = 0, .name = "n", .minimum = 1, .maximum = 64});
  ServedSizes sizes{.size = size};
  if (above > 0) sizes.above = above;
  if (most > 0) sizes.most = most;
  return sizes;
}

// x -> y by one of three alternates, the second in two steps; y -> z.
struct AlternatesProgram {
  TestProgram t;
  BufferId x = t.io("x", 512), y = t.arena("y", 512), z = t.io("z", 512);
  BufferId large = t.arena("large", 1024), small = t.arena("small", 2048);

  AlternatesProgram() {
    t.step("before", {}, {x});
    t.step("n", {x}, {large}).served = served(32, 0);
    t.step("n", {large}, {y}).served = served(32, 0);
    t.step("n", {x}, {y}).served = served(8, 32);
    t.step("n", {x}, {small}).served = served(0, 8);
    t.step("n", {small}, {y}).served = served(0, 8);
    t.step("after", {y}, {z});
  }
};

TEST_CASE("alternates do not wait for each other, and who reads their result waits for all") {
  const AlternatesProgram p;
  const std::vector<uint32_t> order = {0, 1, 2, 3, 4, 5, 6};
  Edges edges = find_hazards(p.t.program, order, logical_places(p.t.program));
  reduce_transitively(edges);
  CHECK(edges == Edges{{}, {0}, {1}, {0}, {0}, {4}, {2, 3, 5}});
  const Schedule result = schedule(p.t.program);
  CHECK(result.wave == Waves{0, 1, 1, 1, 2, 2, 3});
  CHECK(result.wave_count == 4);
}

TEST_CASE("an alternate waits for those of the node before that run with it alone") {
  TestProgram t;
  const BufferId x = t.io("x", 512), y = t.arena("y", 512), z = t.io("z", 512);
  t.step("a", {x}, {y}).served = served(16, 0);
  t.step("a", {x}, {y}).served = served(0, 16);
  t.step("b", {y}, {z}).served = served(32, 0);
  t.step("b", {y}, {z}).served = served(0, 32);
  const Edges edges =
      find_hazards(t.program, std::vector<uint32_t>{0, 1, 2, 3}, logical_places(t.program));
  CHECK(edges == Edges{{}, {}, {0}, {0, 1}});
}

TEST_CASE("alternates of other sizes have one scratch buffer") {
  AlternatesProgram p;
  share_scratch(p.t.program);
  const std::vector<Step>& steps = p.t.program.steps;
  const BufferId one = steps[1].accesses[1].buffer;
  CHECK(steps[2].accesses[0].buffer == one);
  CHECK(steps[4].accesses[1].buffer == one);
  CHECK(steps[5].accesses[0].buffer == one);
  CHECK(p.t.program.buffer(one).size_bytes == 2048);
  CHECK(steps[6].accesses[0].buffer == p.y);
  CHECK(schedule(p.t.program).arena_bytes == 2048 + 512);
}

TEST_CASE("what alternates of the same sizes need at once stays apart") {
  AlternatesProgram p;
  p.t.program.steps[4].served = served(0, 0);
  p.t.program.steps[5].served = served(0, 0);
  share_scratch(p.t.program);
  CHECK(p.t.program.steps[1].accesses[1].buffer == p.large);
  CHECK(p.t.program.steps[4].accesses[1].buffer == p.small);
}

}  // namespace
}  // namespace rlx::test
