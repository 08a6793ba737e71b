// SPDX-License-Identifier: Apache-2.0
// Laws of guarded runs: kernels that keep to their accesses pass, each planted fault is told.
#include <cstring>
#include <functional>
#include <iostream>

#include "tests/support/catch.h"
#include "tests/support/guarded_run.h"
#include "tests/support/sketches.h"

namespace rlx::test {
namespace {

GuardedDevice* device() {
  static std::unique_ptr<GuardedDevice> opened;
  static const Status status = GuardedDevice::open(opened);
  if (opened == nullptr) std::cout << "SKIPPED: " << status.message() << "\n";
  return opened.get();
}

std::vector<std::string> faults_of(const PlanView& plan, GuardSide side) {
  const GuardedRun run = run_guarded(*device(), plan, {.side = side});
  CHECK(run.skipped.empty());
  return run.faults;
}

// A kernel of one thread block that reads a and writes b, both f32[1000].
PlanSketch sketch_of(const std::string& body) {
  PlanSketch sketch = affine_sketch();
  sketch.kernels[0].body = body;
  return sketch;
}

struct Planted {
  std::string what;
  PlanSketch sketch;
  bool at_begin = false;  // told with values that begin at a forbidden page
  bool at_end = false;    // told with values that end there
  std::string text;
};

// b is only the middle of y.
PlanSketch middle_of_y(const std::string& body) {
  PlanSketch sketch = sketch_of(body);
  SketchEntry& entry = sketch.entries[0];
  entry.steps[0].pointers[1].first_element = 100;
  entry.steps[0].pointers[1].elements = 800;
  entry.steps[0].wave = 1;
  entry.steps.insert(entry.steps.begin(), {.kind = fb::StepKind::Fill, .pointers = {{1, kWrite}}});
  return sketch;
}

std::vector<Planted> planted_faults() {
  const std::string good = "if (i < 1000) F32(p.b).v[i] = F32(p.a).v[i];";
  return {
      {"a write behind the end", sketch_of("if (i < 1001) F32(p.b).v[i] = 1.0;"), true, true,
       "byte 4000 of value 1 \"y\" (4000 bytes)"},
      {"a write in front of the begin",
       sketch_of(good + "if (i == 0) F32(p.b - uint64_t(4)).v[0] = 1.0;"), true, true,
       "byte -4 of value 1 \"y\""},
      {"a read behind the end", sketch_of("if (i < 1000) F32(p.b).v[i] = F32(p.a).v[i + 1];"),
       false, true, "read byte 4000 of value 0 \"x\""},
      {"a read in front of the begin",
       sketch_of("if (i < 1000) F32(p.b).v[i] = F32(p.a - uint64_t(4)).v[i];"), true, false,
       "read byte -4 of value 0 \"x\""},
      {"a write to what is only read", sketch_of(good + "if (i == 7) F32(p.a).v[i] = 2.0;"), true,
       true, "wrote byte 28 of value 0 \"x\""},
      {"a write to a page of nobody",
       sketch_of(good + "if (i == 0) F32(p.b + uint64_t(300000)).v[0] = 1.0;"), true, true,
       "wrote byte 300000 of value 1 \"y\""},
      {"a write beside the range, in the value", middle_of_y("if (i < 801) F32(p.b).v[i] = 1.0;"),
       true, true, "changed byte 3602 of value 1 \"y\""},
  };
}

TEST_CASE("programs_of_any_sizes_keep_to_their_values") {
  if (device() == nullptr) return;
  const std::shared_ptr<const PlanView> plan = open_spec(free_sketch_spec());
  for (const uint64_t n : {0, 1, 63, 64, 65, 999, 1000}) {
    INFO(n);
    std::shared_ptr<const PlanView> bound;
    REQUIRE(PlanView::bind(*plan, plan->records(), {&n, 1}, bound).ok());
    for (const GuardSide side : {GuardSide::Begin, GuardSide::End}) {
      for (const std::string& fault : faults_of(*bound, side)) FAIL_CHECK(fault);
    }
  }
}

TEST_CASE("kernels_that_keep_to_their_accesses_pass_the_guards") {
  if (device() == nullptr) return;
  for (const PlanSketch& sketch :
       {affine_sketch(), chain_sketch(), weights_sketch(), state_sketch(), index_errors_sketch()}) {
    const auto plan = open_plan(sketch);
    for (const GuardSide side : {GuardSide::Begin, GuardSide::End}) {
      const std::vector<std::string> faults = faults_of(*plan, side);
      INFO(sketch.entries[0].steps.size() << " steps: " << (faults.empty() ? "" : faults[0]));
      CHECK(faults.empty());
    }
  }
}

TEST_CASE("a_guarded_run_computes_what_the_plan_says") {
  if (device() == nullptr) return;
  const std::vector<float> x = ramp(3);
  const auto* bytes = reinterpret_cast<const std::byte*>(x.data());
  const GuardedRun run =
      run_guarded(*device(), *open_plan(chain_sketch()), {}, {{{bytes, bytes + x.size() * 4}}});
  REQUIRE(run.outputs.size() == 1);
  float first = 0;
  std::memcpy(&first, run.outputs[0][0].data(), sizeof first);
  CHECK(first == 256 * 3 + 255);  // eight times 2 * h + 1
}

TEST_CASE("every_planted_fault_of_a_kernel_is_told") {
  if (device() == nullptr) return;
  for (const Planted& planted : planted_faults()) {
    const auto plan = open_plan(planted.sketch);
    for (const GuardSide side : {GuardSide::Begin, GuardSide::End}) {
      const std::vector<std::string> faults = faults_of(*plan, side);
      INFO(planted.what << ", " << (side == GuardSide::End ? "end" : "begin") << ": "
                        << (faults.empty() ? "nothing told" : faults[0]));
      const bool wanted = side == GuardSide::End ? planted.at_end : planted.at_begin;
      REQUIRE(faults.empty() != wanted);
      if (!wanted) continue;
      CHECK(faults[0].find(planted.text) != std::string::npos);
      CHECK(faults[0].find("entry \"main\", step ") != std::string::npos);
    }
  }
}

// What the verifier's rules keep out, planted behind its back in the records of an open plan.
TEST_CASE("a_range_that_no_rule_checked_is_told") {
  if (device() == nullptr) return;
  const auto plan = open_plan(state_sketch());
  const fb::Entry& entry = plan->entry(0);
  const std::span<const fb::Step> steps = PlanView::steps(entry);
  REQUIRE(steps[1].kind() == fb::StepKind::Copy);
  for (const fb::Relocation& end : PlanView::relocations(entry, steps[1])) {
    const fb::Relocation longer(end.value(), end.position(), end.offset_bytes(),
                                end.length_bytes() + 8, end.mode());
    std::memcpy(const_cast<fb::Relocation*>(&end), &longer, sizeof longer);
  }
  const std::vector<std::string> faults = faults_of(*plan, GuardSide::End);
  REQUIRE(faults.size() >= 2);
  INFO(faults[0] << "\n" << faults[1]);
  CHECK(faults[0].find("read byte 4000 of state \"ones\" (4000 bytes)") != std::string::npos);
  CHECK(faults[1].find("wrote byte 4000 of value 4 \"one_out\"") != std::string::npos);
}

}  // namespace
}  // namespace rlx::test
