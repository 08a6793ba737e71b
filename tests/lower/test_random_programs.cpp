// SPDX-License-Identifier: Apache-2.0
// Random programs: every schedule passes the independent checker, and every planted fault is
// noticed by it.
#include <random>

#include "compiler/lower/arena.h"
#include "schema/plan_header.h"
#include "tests/lower/test_program.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

class ProgramMaker {
 public:
  explicit ProgramMaker(uint64_t seed) : random_(seed) {}

  // Steps that read parts of earlier values, weights, states and inputs, and write new values,
  // parts of concatenations, states and outputs; some with an in-place hint.
  Program make() {
    TestProgram t;
    input_ = t.io("input", 4096);
    weight_ = t.add(Segment::Weights, "weight", 4096);
    state_ = t.add(Segment::State, "state", 4096);
    output_ = t.io("output", 1 << 16);
    const size_t count = 1 + below(30);
    for (size_t i = 0; i < count; ++i) add_step(t, i);
    return t.program;
  }
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }

 private:
  static constexpr uint64_t kSizes[] = {64, 256, 300, 1024, 1024, 1024, 4096, 10'000};

  void add_reads(TestProgram& t, std::vector<Access>& accesses) {
    const size_t count = below(4);
    for (size_t i = 0; i < count && !values_.empty(); ++i) {
      // Mostly recent values, as in a model; now and then an old one.
      const size_t back = below(4) == 0 ? values_.size() : std::min<size_t>(values_.size(), 3);
      const BufferId value = values_[values_.size() - 1 - below(back)];
      const uint64_t size = t.program.buffer(value).size_bytes;
      const uint64_t from = below(3) == 0 ? below(size) : 0;
      accesses.push_back(TestProgram::part(value, from, size - from, AccessMode::Read));
    }
    if (below(3) == 0) accesses.push_back(t.whole(weight_, AccessMode::Read));
    if (below(4) == 0)
      accesses.push_back(TestProgram::part(state_, below(4000), 64, AccessMode::Read));
    if (below(4) == 0) accesses.push_back(t.whole(input_, AccessMode::Read));
  }

  void add_step(TestProgram& t, size_t i) {
    const std::string name = "n" + std::to_string(i);
    std::vector<Access> accesses;
    add_reads(t, accesses);
    std::optional<BufferId> in_place;
    switch (below(8)) {
      case 0:
        accesses.push_back(TestProgram::part(output_, below(1 << 15), 64, AccessMode::Write));
        break;
      case 1:
        accesses.push_back(TestProgram::part(state_, below(4000), 90, AccessMode::Write));
        break;
      case 2: {  // one more write to an existing value: a part of a concatenation, or an update
        if (values_.empty()) break;
        const BufferId value = values_[below(values_.size())];
        const uint64_t from = below(t.program.buffer(value).size_bytes);
        const AccessMode mode = below(2) == 0 ? AccessMode::Write : AccessMode::ReadWrite;
        std::erase_if(accesses, [&](const Access& access) { return access.buffer == value; });
        accesses.push_back(TestProgram::part(
            value, from, 1 + below(t.program.buffer(value).size_bytes - from), mode));
        break;
      }
      default: {
        uint64_t size = kSizes[below(std::size(kSizes))];
        if (!accesses.empty() && below(2) == 0) {
          in_place = accesses.front().buffer;
          size = accesses.front().range_bytes;
        }
        const BufferId value = t.arena(name, size);
        accesses.push_back(t.whole(value, AccessMode::Write));
        if (below(4) == 0) {  // a second output
          const BufferId more = t.arena(name + ".more", kSizes[below(std::size(kSizes))]);
          accesses.push_back(t.whole(more, AccessMode::Write));
          values_.push_back(more);
        }
        values_.push_back(value);
      }
    }
    t.step(name, std::move(accesses)).in_place_input = in_place;
  }

  std::mt19937_64 random_;
  BufferId input_{}, weight_{}, state_{}, output_{};
  std::vector<BufferId> values_;
};

ScheduleOptions small_search(uint64_t seed) {
  return {.in_place = seed % 5 != 0,
          .goal = seed % 3 == 0 ? ScheduleGoal::Memory : ScheduleGoal::Speed,
          .search_budget = 400'000};
}

TEST_CASE("random_programs_have_right_schedules") {
  size_t takeovers = 0;
  size_t at_bound = 0;
  constexpr uint64_t kPrograms = 3000;
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    const Program program = ProgramMaker(seed).make();
    const Schedule result = schedule(program, small_search(seed));
    INFO("seed " << seed);
    REQUIRE(faults_of(program, result) == "");
    at_bound += result.arena_bytes == result.lower_bound_bytes;
    for (const auto& source : result.in_place_of) takeovers += source.has_value();
  }
  CHECK(takeovers > 1000);
  CHECK(at_bound > kPrograms * 99 / 100);
}

TEST_CASE("speed_never_takes_more_waves_than_the_longest_chain") {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Program program = ProgramMaker(seed).make();
    const Schedule result = schedule(program, {.search_budget = 400'000});
    // The longest chain of conflicts in program order, by comparing all pairs.
    std::vector<uint32_t> depth(program.steps.size(), 1);
    uint32_t longest = 1;
    for (size_t later = 0; later < depth.size(); ++later) {
      for (size_t earlier = 0; earlier < later; ++earlier) {
        for (const Access& a : program.steps[earlier].accesses) {
          for (const Access& b : program.steps[later].accesses) {
            const bool conflict = a.buffer == b.buffer &&
                                  (a.mode != AccessMode::Read || b.mode != AccessMode::Read) &&
                                  a.range_offset_bytes < b.range_offset_bytes + b.range_bytes &&
                                  b.range_offset_bytes < a.range_offset_bytes + a.range_bytes;
            if (conflict) depth[later] = std::max(depth[later], depth[earlier] + 1);
          }
        }
      }
      longest = std::max(longest, depth[later]);
    }
    REQUIRE(result.wave_count == longest);
  }
}

TEST_CASE("memory_goal_never_needs_more_memory_than_speed") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Program program = ProgramMaker(seed).make();
    const Schedule fast = schedule(program, {.search_budget = 2'000'000});
    const Schedule small =
        schedule(program, {.goal = ScheduleGoal::Memory, .search_budget = 2'000'000});
    REQUIRE(small.arena_bytes <= fast.arena_bytes);
  }
}

TEST_CASE("removing_any_edge_is_noticed") {
  size_t removed = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const Program program = ProgramMaker(seed).make();
    const Schedule result = schedule(program, small_search(seed));
    for (size_t position = 0; position < result.edges.size(); ++position) {
      for (size_t i = 0; i < result.edges[position].size(); ++i) {
        Schedule broken = result;
        broken.edges[position].erase(broken.edges[position].begin() + static_cast<ptrdiff_t>(i));
        REQUIRE(has_fault(program, broken, ScheduleFaultKind::MissingEdge));
        ++removed;
      }
    }
  }
  CHECK(removed > 1000);
}

TEST_CASE("an_edge_too_many_is_noticed") {
  size_t added = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Program program = ProgramMaker(seed).make();
    const Schedule result = schedule(program, small_search(seed));
    for (uint32_t position = 1; position < result.edges.size(); ++position) {
      Schedule broken = result;
      std::vector<uint32_t>& edges = broken.edges[position];
      if (std::find(edges.begin(), edges.end(), 0u) != edges.end()) continue;
      edges.insert(edges.begin(), 0);
      REQUIRE_FALSE(check_schedule(program, broken).empty());
      ++added;
    }
  }
  CHECK(added > 500);
}

TEST_CASE("merging_any_two_waves_is_noticed") {
  size_t merged = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const Program program = ProgramMaker(seed).make();
    const Schedule result = schedule(program, {.search_budget = 400'000});
    for (uint32_t wave = 1; wave < result.wave_count; ++wave) {
      Schedule broken = result;
      --broken.wave_count;
      for (uint32_t& w : broken.wave) w -= w >= wave ? 1 : 0;
      // Lifetimes follow, so that only the missing barrier is at fault.
      for (auto& lifetime : broken.lifetimes) {
        if (!lifetime) continue;
        lifetime->first_wave = broken.wave[lifetime->first_position];
        lifetime->last_wave = broken.wave[lifetime->last_position];
      }
      REQUIRE(has_fault(program, broken, ScheduleFaultKind::SameWave));
      ++merged;
    }
  }
  CHECK(merged > 500);
}

TEST_CASE("moving_a_buffer_onto_a_live_one_is_noticed") {
  size_t moved = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const Program program = ProgramMaker(seed).make();
    const Schedule result = schedule(program, small_search(seed));
    for (size_t a = 0; a < program.buffers.size(); ++a) {
      for (size_t b = 0; b < program.buffers.size(); ++b) {
        if (a == b || !result.lifetimes[a] || !result.lifetimes[b]) continue;
        const Lifetime& x = *result.lifetimes[a];
        const Lifetime& y = *result.lifetimes[b];
        if (x.last_wave < y.first_wave || y.last_wave < x.first_wave) continue;
        if (result.buffer_offsets[a] == result.buffer_offsets[b]) continue;
        Schedule broken = result;
        broken.buffer_offsets[a] = result.buffer_offsets[b];
        REQUIRE_FALSE(check_schedule(program, broken).empty());
        ++moved;
      }
    }
  }
  CHECK(moved > 1000);
}

TEST_CASE("other_planted_faults_are_noticed") {
  size_t planted = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Program program = ProgramMaker(seed).make();
    const Schedule result = schedule(program, small_search(seed));
    const auto expect = [&](ScheduleFaultKind kind, auto break_it) {
      Schedule broken = result;
      break_it(broken);
      REQUIRE(has_fault(program, broken, kind));
      ++planted;
    };
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      if (!result.lifetimes[i]) continue;
      expect(ScheduleFaultKind::Placement, [&](Schedule& s) { s.buffer_offsets[i] += 128; });
      expect(ScheduleFaultKind::Placement,
             [&](Schedule& s) { s.buffer_offsets[i] = s.arena_bytes; });
      expect(ScheduleFaultKind::Lifetime, [&](Schedule& s) { s.lifetimes[i]->last_wave += 1; });
      expect(ScheduleFaultKind::Lifetime, [&](Schedule& s) { s.lifetimes[i].reset(); });
      if (result.in_place_of[i]) {
        expect(ScheduleFaultKind::Overlap, [&](Schedule& s) { s.in_place_of[i].reset(); });
      } else {
        expect(ScheduleFaultKind::InPlace, [&](Schedule& s) { s.in_place_of[i] = BufferId(i); });
      }
    }
    expect(ScheduleFaultKind::Accounting,
           [](Schedule& s) { s.arena_bytes += kArenaAlignmentBytes; });
    expect(ScheduleFaultKind::Accounting, [](Schedule& s) { s.lower_bound_bytes += 1; });
    expect(ScheduleFaultKind::Order, [](Schedule& s) { s.order[0] = s.order.back() + 1; });
    expect(ScheduleFaultKind::Shape, [](Schedule& s) { s.wave.push_back(0); });
  }
  CHECK(planted > 1000);
}

}  // namespace
}  // namespace rlx::test
