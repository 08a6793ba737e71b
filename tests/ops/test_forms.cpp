// SPDX-License-Identifier: Apache-2.0
// Forms for parts of a free size's range: which are chosen, and what becomes of a step's.
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/lowering/forms.h"
#include "tests/support/catch.h"

namespace rlx {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

Dim size_between(int64_t least, int64_t most) {
  return Dim::of({.index = 0, .name = "seq", .minimum = least, .maximum = most});
}

using Stretches = std::vector<std::pair<size_t, size_t>>;

Stretches chosen(const std::vector<std::vector<double>>& times) {
  Stretches found;
  for (const Stretch& stretch : stretches(times))
    found.emplace_back(stretch.first_size, stretch.form);
  return found;
}

// A program of one dispatch for each number of workgroups, of one kernel each.
Program program_of(const std::vector<int64_t>& groups) {
  Program program;
  for (const int64_t count : groups) {
    Specialization kernel{.kernel = KernelId::matmul};
    kernel.defines["RLX_TILE_M"] = std::to_string(count);
    Step step{.kernel = program.intern(kernel)};
    step.params.resize(8);
    step.accesses = {{.position = 0, .range_bytes = size_between(1, 64) * 4}};
    step.sizes = {{.position = 4, .symbol = 0}};
    step.grid.x = count;
    step.reason = "by " + std::to_string(count);
    program.steps.push_back(step);
  }
  return program;
}

}  // namespace

TEST_CASE("forms are chosen where tiles end, from the bound down") {
  CHECK(form_sizes(size_between(1, 100)) ==
        std::vector<int64_t>{100, 96, 80, 64, 48, 32, 24, 16, 12, 8});
  CHECK(form_sizes(size_between(1, 64)) == std::vector<int64_t>{64, 48, 32, 24, 16, 12, 8});
  // One of the sizes is at most what a run can ask for least.
  CHECK(form_sizes(size_between(40, 512)) ==
        std::vector<int64_t>{512, 448, 384, 320, 256, 224, 192, 160, 128, 112, 96, 80, 64, 48, 32});
  CHECK(form_sizes(size_between(1, 5)) == std::vector<int64_t>{5});
}

TEST_CASE("a few sizes that are tiles apart are all met") {
  CHECK(form_sizes(size_between(1, 5) * 49) == std::vector<int64_t>{245, 196, 147, 98, 49});
  CHECK(form_sizes(size_between(0, 3) * 8) == std::vector<int64_t>{24, 16, 8});
  const Dim height =
      Dim::of({.index = 1, .name = "h", .minimum = 8, .maximum = 24, .multiple_of = 8});
  const Dim width =
      Dim::of({.index = 2, .name = "w", .minimum = 16, .maximum = 32, .multiple_of = 16});
  CHECK(form_sizes(height * width) == std::vector<int64_t>{768, 512, 384, 256, 128});
  // Too many, and too close to each other.
  CHECK(form_sizes(size_between(1, 1000) * 49).size() > 5);
  CHECK(form_sizes(size_between(1, 20) * 4) == std::vector<int64_t>{80, 64, 48, 32, 24, 16, 12, 8});
}

TEST_CASE("each size gets the form that takes least, and a form that gains nothing is left out") {
  CHECK(chosen({{9, 5, 4}, {3, 4, 5}}) == Stretches{{0, 1}, {2, 0}});
  CHECK(chosen({{1, 2, 1, 2}, {2, 1, 2, 1}}) == Stretches{{0, 0}, {1, 1}, {2, 0}, {3, 1}});
  CHECK(chosen({{10, 10, 10.001}, {10.001, 10, 10}}) == Stretches{{0, 0}});
  CHECK(chosen({{7}, {6}, {8}}) == Stretches{{0, 1}});
}

TEST_CASE("a form that does not serve a size is not chosen for it") {
  CHECK(chosen({{5, 5, 5}, {kNever, 1, 1}}) == Stretches{{0, 0}, {1, 1}});
  CHECK(chosen({{kNever, 1, kNever}, {5, 5, 5}, {kNever, kNever, 1}}) ==
        Stretches{{0, 1}, {1, 0}, {2, 2}});
}

TEST_CASE("many forms are cut to a few, the worst sizes first") {
  std::vector<std::vector<double>> times(20, std::vector<double>(20, 2));
  for (size_t i = 0; i < times.size(); ++i) times[i][i] = i < 3 ? 0.5 : 1;
  std::vector<bool> used(times.size());
  size_t count = 0;
  for (const auto& [first_size, form] : chosen(times)) {
    if (!used[form]) ++count;
    used[form] = true;
  }
  CHECK(count == 11);
  for (size_t i = 0; i < 3; ++i) CHECK(used[i]);
}

TEST_CASE("a step that differs in kernel and grid alone becomes a form") {
  Program program = program_of({4, 8});
  join_form(program, 0, 1, size_between(1, 64), 32);
  REQUIRE(program.steps.size() == 1);
  REQUIRE(program.steps[0].forms.size() == 1);
  const StepForm& form = program.steps[0].forms[0];
  CHECK(form.most == 32);
  CHECK(form.kernel != *program.steps[0].kernel);
  CHECK(form.grid.x.bound() == 8);
  CHECK(program.steps[0].reason == "by 4; where seq is at most 32: by 8");
}

TEST_CASE("steps that differ in more are no forms") {
  const auto forms_after = [](const std::function<void(Program&)>& edit) {
    Program program = program_of({4, 8});
    edit(program);
    join_form(program, 0, 1, size_between(1, 64), 32);
    CHECK(program.steps.size() == 1);
    return program.steps[0].forms.size();
  };
  CHECK(forms_after([](Program&) {}) == 1);
  CHECK(forms_after([](Program& p) { p.steps[1].params[0] = std::byte{1}; }) == 0);
  CHECK(forms_after([](Program& p) { p.steps[1].sizes[0].position = 0; }) == 0);
  CHECK(forms_after([](Program& p) { p.steps[1].accesses[0].alignment_bytes = 16; }) == 0);
  CHECK(forms_after([](Program& p) { p.steps[1].accesses[0].range_bytes = 4; }) == 0);
  CHECK(forms_after([](Program& p) { p.steps[1].kind = StepKind::Fill; }) == 0);
  CHECK(forms_after([](Program& p) { p.steps.push_back(p.steps[1]); }) == 0);
}

TEST_CASE("what follows steps that are more than one is no form of theirs") {
  Program program = program_of({4, 5, 8});
  join_form(program, 0, 2, size_between(1, 64), 32);
  REQUIRE(program.steps.size() == 2);
  CHECK(program.steps[0].forms.empty());
}

}  // namespace rlx
