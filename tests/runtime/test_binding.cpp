// SPDX-License-Identifier: Apache-2.0
// Laws of bindings: what a plan becomes at values of its free symbols, and what is refused.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "runtime/plan/free_sizes.h"
#include "runtime/plan/plan_kernels.h"
#include "runtime/plan/plan_view.h"
#include "tests/runtime/verify_fixture.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

std::shared_ptr<const PlanView> opened(const PlanSpec& spec) {
  std::shared_ptr<const PlanView> view;
  const Status status = PlanView::open_memory(serialise(spec), {.copy_memory = true}, view);
  INFO(status.message());
  REQUIRE(status.ok());
  return view;
}

Status bind_main(const PlanView& plan, const std::vector<uint64_t>& symbols,
                 std::shared_ptr<const PlanView>& bound) {
  const fb::Entry* const record = &plan.entry(0);
  return PlanView::bind(plan, {&record, 1}, symbols, bound);
}

std::shared_ptr<const PlanView> bound_at(const PlanView& plan,
                                         const std::vector<uint64_t>& symbols) {
  std::shared_ptr<const PlanView> bound;
  const Status status = bind_main(plan, symbols, bound);
  INFO(status.message());
  REQUIRE(status.ok());
  return bound;
}

uint32_t count_of(const PlanView& plan, const fb::Step& step) {
  uint32_t count = 0;
  std::memcpy(&count, plan.params(step).data() + 16, sizeof count);
  return count;
}

}  // namespace

TEST_CASE("a_binding_has_the_sizes_of_its_symbols") {
  const std::shared_ptr<const PlanView> plan = opened(free_plan());
  const std::shared_ptr<const PlanView> bound = bound_at(*plan, {3, 7});
  const fb::Entry& entry = bound->entry(0);
  const fb::Value& y = PlanView::value(entry, 1);
  CHECK(y.dims()->Get(0) == 3);
  CHECK(y.dims()->Get(1) == 7);
  CHECK(y.size_bytes() == 84);
  CHECK(PlanView::steps(entry)[1].grid_x() == 1);
  CHECK(count_of(*bound, PlanView::steps(entry)[1]) == 21);
  CHECK(PlanView::relocations(entry, PlanView::steps(entry)[0])[1].length_bytes() == 84);
  // The plan itself is at the maximum.
  CHECK(PlanView::value(plan->entry(0), 1).size_bytes() == 256);
  CHECK(count_of(*plan, PlanView::steps(plan->entry(0))[1]) == 64);
  CHECK(bound->step_names(entry, 1).node == "main.node1");
}

TEST_CASE("a_step_takes_the_first_form_that_serves_a_size") {
  const std::shared_ptr<const PlanView> plan = opened(formed_plan());
  CHECK(used_kernels(*plan, fb::TargetKind::Vulkan) == std::vector<uint32_t>{0, 1, 2});
  const auto step_at = [&plan](uint64_t seq) {
    const std::shared_ptr<const PlanView> bound = bound_at(*plan, {4, seq});
    CHECK(forms_of(bound->entry(0)).empty());
    const fb::Step step = PlanView::steps(bound->entry(0))[1];
    return std::array{step.kernel(), step.grid_x(), step.grid_y(), step.grid_z()};
  };
  CHECK(step_at(1) == std::array{2u, 4u, 4u, 4u});
  CHECK(step_at(4) == std::array{2u, 16u, 4u, 4u});
  CHECK(step_at(5) == std::array{1u, 4u, 4u, 5u});
  CHECK(step_at(8) == std::array{1u, 4u, 4u, 8u});
  CHECK(step_at(9) == std::array{0u, 1u, 1u, 1u});
  CHECK(step_at(16) == std::array{0u, 1u, 1u, 1u});
}

TEST_CASE("of_alternates_the_one_for_the_size_runs") {
  const std::shared_ptr<const PlanView> plan = opened(alternates_plan());
  CHECK(used_kernels(*plan, fb::TargetKind::Vulkan) == std::vector<uint32_t>{0, 1});
  CHECK(PlanView::steps(plan->entry(0))[1].kind() == fb::StepKind::Skip);
  const std::shared_ptr<const PlanView> small = bound_at(*plan, {4, 8});
  const std::span<const fb::Step> in_small = PlanView::steps(small->entry(0));
  CHECK(in_small[1].kind() == fb::StepKind::Dispatch);
  CHECK(in_small[1].kernel() == 1);
  CHECK(std::array{in_small[1].grid_x(), in_small[1].grid_y(), in_small[1].grid_z()} ==
        std::array{32u, 4u, 4u});
  CHECK(count_of(*small, in_small[1]) == 32);
  CHECK(in_small[2].kind() == fb::StepKind::Skip);
  const std::shared_ptr<const PlanView> large = bound_at(*plan, {4, 9});
  const std::span<const fb::Step> in_large = PlanView::steps(large->entry(0));
  CHECK(in_large[1].kind() == fb::StepKind::Skip);
  CHECK(in_large[2].kind() == fb::StepKind::Dispatch);
  CHECK(in_large[2].kernel() == 0);
  CHECK(count_of(*large, in_large[2]) == 36);
}

TEST_CASE("steps_that_a_binding_leaves_nothing_to_do_are_skipped") {
  const std::shared_ptr<const PlanView> plan = opened(free_plan());
  const std::shared_ptr<const PlanView> bound = bound_at(*plan, {4, 0});
  for (const fb::Step& step : PlanView::steps(bound->entry(0)))
    CHECK(step.kind() == fb::StepKind::Skip);
  const std::shared_ptr<const PlanView> gemm = opened(free_gemm_plan());
  CHECK(PlanView::steps(bound_at(*gemm, {0})->entry(0))[0].kind() == fb::StepKind::Skip);
  CHECK(PlanView::steps(bound_at(*gemm, {5})->entry(0))[0].kind() == fb::StepKind::LibraryGemm);
  CHECK(bound_at(*gemm, {5})->entry(0).gemms()->Get(0)->m() == 5);
}

TEST_CASE("a_step_whose_params_are_patched_shares_them_with_no_other") {
  PlanSpec spec = free_plan();
  SpecEntry& main = spec.entries[0];
  // A fourth step, which makes an output w of a fixed size by the same kernel and params.
  main.values.push_back(
      {.name = "w", .dims = {64}, .segment = fb::Segment::Io, .size_bytes = 256, .last_step = 3});
  main.values.push_back({.name = "b",
                         .dims = {64},
                         .offset_bytes = 256,
                         .size_bytes = 256,
                         .first_step = 2,
                         .last_step = 3});
  main.arena_bytes = 512;
  main.outputs.push_back(4);
  for (const uint32_t v : {0, 1, 3}) main.values[v].last_step = 3;
  main.steps[2].relocations[0].value = 5;
  main.steps[2].relocations[0].length_bytes = 256;
  main.patches.erase(main.patches.begin() + 15);
  std::erase_if(main.patches, [](const fb::Patch& p) {
    return p.index() == 3 && p.field() < fb::PatchField::RelocationOffset;
  });
  main.outputs = {1, 4};
  main.values[3].segment = fb::Segment::Arena;
  main.values[3].offset_bytes = 512;
  main.arena_bytes = 768;
  SpecStep other = main.steps[1];
  other.wave = 2;
  other.edges = {2};
  other.relocations[0].value = 4;
  other.relocations[1].value = 5;
  main.steps.push_back(other);
  const std::shared_ptr<const PlanView> plan = opened(spec);
  const std::shared_ptr<const PlanView> bound = bound_at(*plan, {1, 5});
  CHECK(count_of(*bound, PlanView::steps(bound->entry(0))[1]) == 5);
  CHECK(count_of(*bound, PlanView::steps(bound->entry(0))[3]) == 64);
}

TEST_CASE("a_step_that_is_skipped_in_the_file_writes_nothing") {
  PlanSpec spec = small_plan();
  spec.entries[0].steps[5].kind = fb::StepKind::Skip;
  const std::vector<VerifyFault> faults = verify_plan(serialise(spec));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].rule == VerifyRule::OutputCovered);
  spec.entries[0].values[2].dims = {0};
  spec.entries[0].values[2].size_bytes = 0;
  CHECK(verify_plan(serialise(spec)).empty());
}

TEST_CASE("a_record_is_bound_to_values_that_it_is_made_for") {
  const std::shared_ptr<const PlanView> plan = opened(ranged_copies_plan());
  REQUIRE(plan->entry_count() == 1);
  const auto records = plan->entry_ranges(0, plan->first_target());
  REQUIRE(records.size() == 2);
  CHECK(&plan->entry(0) == records[0]);
  CHECK(ranges_text(plan->index(), *records[1]) == "seq 0 to 7");
  CHECK(record_for(records, std::vector<uint64_t>{4, 8}) == records[0]);
  CHECK(record_for(records, std::vector<uint64_t>{4, 7}) == records[1]);
  std::shared_ptr<const PlanView> bound;
  CHECK(PlanView::bind(*plan, records.subspan(1), std::vector<uint64_t>{2, 7}, bound).ok());
  REQUIRE(bound->bound_records().size() == 1);
  CHECK(bound->bound_records()[0]->values()->Get(5)->dims()->Get(1) == 7);
  const Status status =
      PlanView::bind(*plan, records.subspan(1), std::vector<uint64_t>{2, 8}, bound);
  CHECK(status.message() ==
        "entry \"main\" was asked for at batch = 2, seq = 8, its record is made for seq 0 to 7");
}

TEST_CASE("each_binding_fixture_breaks_its_rule_at_that_binding_alone") {
  for (const BindingFixture& fixture : binding_fixtures()) {
    const VerifyRuleText& rule = rule_text(fixture.fixture.rule);
    INFO(rule.code << " " << rule.name << ": " << fixture.fixture.what);
    PlanSpec spec = fixture.fixture.base();
    fixture.fixture.edit(spec);
    const std::shared_ptr<const PlanView> plan = opened(spec);
    std::shared_ptr<const PlanView> bound;
    CHECK(bind_main(*plan, symbols_at_maximum(plan->index()), bound).ok());
    bound.reset();
    const Status status = bind_main(*plan, fixture.symbols, bound);
    INFO(status.message());
    CHECK(status.code() == RLX_INVALID_PLAN);
    CHECK(status.message().find(std::string(rule.code) + ": ") != std::string::npos);
    CHECK(status.message().find(symbols_text(plan->index(), fixture.symbols)) != std::string::npos);
    CHECK(bound == nullptr);
  }
}

TEST_CASE("a_binding_of_many_steps_costs_little") {
  constexpr uint32_t kSteps = 300;
  constexpr int kBindings = 20;
  PlanSpec spec = chain_plan(kSteps);
  spec.symbols = {{.name = "n", .minimum = 1, .maximum = 64}};
  SpecKernel& kernel = spec.kernels[0];
  kernel.params_bytes = 32;
  for (SpecAccess& access : kernel.accesses) access.min_bytes = 0;
  kernel.counts = {{24, 1, 4, 0}, {24, 1, 4, 8}, {24, 1, 4, 16}};
  const uint32_t count = 64;
  std::memcpy(spec.params.data() + 24, &count, sizeof count);
  SpecEntry& main = spec.entries[0];
  main.sizes = {{0, 0, 0, fb::SizeOp::Symbol},
                {4, 0, 0, fb::SizeOp::Constant},
                {0, 0, 1, fb::SizeOp::Multiply},
                {64, 0, 0, fb::SizeOp::Constant},
                {0, 0, 3, fb::SizeOp::CeilDivide}};
  using fb::PatchField;
  const auto patch_all = [&](uint32_t end, uint32_t part, uint32_t size, PatchField field) {
    for (uint32_t i = 0; i < end; ++i) {
      const bool is_weight = field <= PatchField::ValueBytes && i == 2;
      if (!is_weight) main.patches.emplace_back(i, part, size, field);
    }
  };
  for (SpecStep& step : main.steps) step.params_bytes = 32;
  patch_all(static_cast<uint32_t>(main.values.size()), 0, 0, PatchField::ValueDim);
  patch_all(static_cast<uint32_t>(main.values.size()), 0, 2, PatchField::ValueBytes);
  patch_all(3 * kSteps, 0, 2, PatchField::RelocationLength);
  patch_all(kSteps, 0, 4, PatchField::Grid);
  patch_all(kSteps, 24, 0, PatchField::ParamsWord);
  const std::shared_ptr<const PlanView> plan = opened(spec);
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t n = 1; n <= kBindings; ++n) bound_at(*plan, {n});
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::printf("bind: %.3f ms per %u steps\n", took.count() / kBindings, kSteps);
  CHECK(took.count() / kBindings < 20);
}

TEST_CASE("a_symbol_outside_its_range_is_refused_with_the_range") {
  PlanSpec spec = free_plan();
  spec.symbols[1].multiple_of = 8;
  const std::shared_ptr<const PlanView> plan = opened(spec);
  std::shared_ptr<const PlanView> bound;
  for (const uint64_t seq : {4, 24}) {
    const Status status = bind_main(*plan, {1, seq}, bound);
    CHECK(status.code() == RLX_INVALID_ARGUMENT);
    CHECK(status.message() ==
          "symbol \"seq\" was given " + std::to_string(seq) + ", wanted 0 to 16 in steps of 8");
  }
  CHECK(bind_main(*plan, {1, 8}, bound).ok());
  CHECK_FALSE(bind_main(*plan, {1}, bound).ok());
}

TEST_CASE("sizes_are_written_as_the_expressions_that_they_are") {
  const std::shared_ptr<const PlanView> plan = opened(free_plan());
  const fb::Entry& entry = plan->entry(0);
  CHECK(size_text(plan->index(), size_terms(entry), 6) == "ceil(batch * seq / 64)");
  CHECK(symbol_of_dim(entry, 0, 1) == 1u);
  CHECK_FALSE(symbol_of_dim(entry, 1, 2).has_value());
}

}  // namespace rlx::test
