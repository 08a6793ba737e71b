// SPDX-License-Identifier: Apache-2.0
// Verifies a plan, shows it, loads it, runs it.
#include "tests/fuzz/plans/plan_judge.h"

#define XXH_INLINE_ALL
#include <time.h>
#include <xxhash.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"
#include "runtime/plan/plan_memory.h"
#include "tests/fuzz/plans/session_calls.h"
#include "tools/inspect/inspect.h"

namespace rlx::test {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kSlower = 20;
#else
constexpr uint64_t kSlower = 1;
#endif
// 20 ms and 10 us per KiB of file.
constexpr uint64_t kMostNanoseconds = 20'000'000;
constexpr uint64_t kMostNanosecondsPerByte = 10;
// What a plan may need on the null device; more is told by the header, and not allocated.
constexpr uint64_t kMostSegmentBytes = uint64_t{8} << 20;
// Values that the null device's fills and copies touch, all steps together.
constexpr uint64_t kMostStepBytes = uint64_t{64} << 20;
// One in so many of the plans that passed the guards runs on the device as a program would run it:
// that compiles all its kernels.
constexpr uint64_t kRunOneIn = 16;

uint64_t thread_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// The code of a kernel for Vulkan and all that is recorded of both.
uint64_t digest_of(const PlanView& view, const fb::Kernel& kernel, const fb::Variant& variant) {
  std::string text = text_of(kernel.params_bytes(), " ", PlanView::text(kernel.name()));
  for (const fb::KernelAccess* access : *kernel.accesses()) {
    text += text_of(" ", access->position(), " ", access->alignment(), " ", access->min_bytes(),
                    " ", static_cast<uint32_t>(access->mode()));
  }
  text += text_of(" ", variant.workgroup_x(), " ", variant.workgroup_y(), " ",
                  variant.workgroup_z(), " ", variant.subgroup_size(), " ", variant.features(), " ",
                  PlanView::text(variant.entry_point()), " ");
  const std::span<const std::byte> code = view.code(variant);
  return XXH3_64bits(text.data(), text.size()) ^ XXH3_64bits_withSeed(code.data(), code.size(), 1);
}

uint64_t step_bytes(const PlanView& view) {
  uint64_t bytes = 0;
  for (const fb::Entry* entry : view.records()) {
    for (const fb::Step& step : PlanView::steps(*entry)) {
      if (step.kind() != fb::StepKind::Copy && step.kind() != fb::StepKind::Fill) continue;
      bytes += PlanView::relocations(*entry, step)[0].length_bytes();
    }
  }
  return bytes;
}

// Every free symbol at its minimum, at its maximum, and somewhere between.
std::vector<std::vector<uint64_t>> symbol_choices(const PlanView& view, uint64_t number) {
  std::vector<std::vector<uint64_t>> choices(3);
  uint64_t dice = number * 0x9e3779b97f4a7c15u + 1;
  for (const fb::Symbol* symbol : *view.index().symbols()) {
    const uint64_t least = symbol->bound().value_or(symbol->minimum());
    const uint64_t most = symbol->bound().value_or(symbol->maximum());
    const uint64_t count = (most - least) / symbol->multiple_of() + 1;
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    choices[0].push_back(least);
    choices[1].push_back(most);
    choices[2].push_back(least + (dice >> 20) % count * symbol->multiple_of());
  }
  return choices;
}

}  // namespace

PlanJudge::PlanJudge(const JudgeOptions& options) {
  if (rlx_device_open("null", &null_) != RLX_OK) throw std::runtime_error(rlx_last_error());
  if (!options.guards) return;
  const Status status = GuardedDevice::open(guarded_);
  if (!status.ok()) {
    no_guards_ = status.message();
  } else if (rlx_device_open(guarded_->info().id.c_str(), &vulkan_) != RLX_OK) {
    throw std::runtime_error(rlx_last_error());
  }
}

PlanJudge::~PlanJudge() {
  rlx_device_close(null_);
  rlx_device_close(vulkan_);
}

void PlanJudge::trust(std::span<const std::byte> plan) {
  std::shared_ptr<const PlanView> view;
  if (!PlanView::open_memory(plan, {}, view).ok()) return;
  for (const fb::Kernel* kernel : *view->index().kernels()) {
    const fb::Variant* variant = PlanView::first_variant(*kernel, fb::TargetKind::Vulkan);
    if (variant != nullptr) trusted_.insert(digest_of(*view, *kernel, *variant));
  }
}

bool PlanJudge::is_trusted(const PlanView& view) const {
  const auto* kernels = view.index().kernels();
  return std::all_of(kernels->begin(), kernels->end(), [&](const fb::Kernel* kernel) {
    const fb::Variant* variant = PlanView::first_variant(*kernel, fb::TargetKind::Vulkan);
    return variant == nullptr || trusted_.count(digest_of(view, *kernel, *variant)) == 1;
  });
}

Judgement PlanJudge::judge(std::span<const std::byte> plan, uint64_t number) {
  Judgement verdict;
  try {
    const uint64_t begin = thread_nanoseconds();
    const bool all_faults = number % 4 == 0;
    const std::vector<VerifyFault> faults =
        verify_plan(plan, {.max_faults = all_faults ? 32u : 1u, .check_weights = true});
    const uint64_t took = thread_nanoseconds() - begin;
    const uint64_t most = kSlower * (kMostNanoseconds + kMostNanosecondsPerByte * plan.size());
    if (took > most)
      verdict.bad = text_of("verification took ", took / 1000, " us for ", plan.size(), " bytes");
    if (!faults.empty()) {
      verdict.refused_by = faults[0].rule;
      return verdict;
    }
    std::shared_ptr<const PlanView> view;
    const Status status = PlanView::open_memory(plan, {.check_weights = true}, view);
    if (!status.ok()) {
      verdict.bad = text_of("verified, then not opened: ", status.message());
      return verdict;
    }
    look_at(*view, verdict);
    const uint64_t needed = segment_bytes(view->header());
    const bool small = view->header().weights_bytes <= kMostSegmentBytes &&
                       view->header().state_bytes <= kMostSegmentBytes &&
                       view->header().arena_bytes <= kMostSegmentBytes &&
                       view->header().io_bytes <= kMostSegmentBytes &&
                       needed <= kMostSegmentBytes && step_bytes(*view) <= kMostStepBytes;
    if (small) {
      SessionCalls calls(plan, null_, number);
      verdict.bad = calls.run();
      verdict.ran = calls.ran();
    }
    if (small && guarded_ != nullptr && verdict.bad.empty()) run_guards(*view, verdict);
    if (verdict.bad.empty()) judge_bindings(*view, number, small, most, verdict);
    if (verdict.guarded && verdict.bad.empty() && number % kRunOneIn == 0)
      verdict.bad = SessionCalls(plan, vulkan_, number).run();
  } catch (const std::exception& error) {
    verdict.bad = text_of("threw: ", error.what());
  }
  return verdict;
}

void PlanJudge::look_at(const PlanView& view, Judgement& verdict) {
  for (const InspectView what : {InspectView::Summary, InspectView::Memory, InspectView::Steps,
                                 InspectView::Kernels, InspectView::Sizes, InspectView::Why}) {
    if (inspect_text(view, what).empty()) verdict.bad = "a view has no text";
    static_cast<void>(inspect_json(view, what).dump());
  }
  for (uint32_t record = 0; record < view.bound_records().size(); ++record)
    static_cast<void>(memory_svg(view, record));
}

void PlanJudge::judge_bindings(const PlanView& view, uint64_t number, bool small,
                               uint64_t most_nanoseconds, Judgement& verdict) {
  const std::vector<const fb::Entry*> all = view.records();
  if (std::ranges::none_of(all, [](const fb::Entry* e) { return has_free_sizes(*e); })) return;
  for (const std::vector<uint64_t>& symbols : symbol_choices(view, number)) {
    std::vector<const fb::Entry*> records = all;
    std::erase_if(records, [&](const fb::Entry* e) { return !is_made_for(*e, symbols); });
    if (records.empty()) continue;  // what a mutant has taken away
    const uint64_t begin = thread_nanoseconds();
    std::shared_ptr<const PlanView> bound;
    const Status status = PlanView::bind(view, records, symbols, bound);
    const uint64_t took = thread_nanoseconds() - begin;
    const std::string place = symbols_text(view.index(), symbols);
    if (took > most_nanoseconds)
      verdict.bad = text_of("a binding at ", place, " took ", took / 1000, " us");
    if (!status.ok() && status.code() != RLX_INVALID_PLAN)
      verdict.bad = text_of("a binding at ", place, " gives: ", status.message());
    if (!verdict.bad.empty()) return;
    if (!status.ok()) continue;
    look_at(*bound, verdict);
    if (small && guarded_ != nullptr && verdict.bad.empty()) run_guards(*bound, verdict);
    if (!verdict.bad.empty()) verdict.bad = text_of("at ", place, ": ", verdict.bad);
    if (!verdict.bad.empty()) return;
  }
}

void PlanJudge::run_guards(const PlanView& view, Judgement& verdict) {
  if (!is_trusted(view)) return;
  for (const GuardSide side : {GuardSide::Begin, GuardSide::End}) {
    const GuardedRun run = run_guarded(*guarded_, view,
                                       {.side = side,
                                        .fill = std::byte(side == GuardSide::End ? 0xA5 : 0xFF),
                                        .max_bytes = kMostSegmentBytes,
                                        .max_invocations = uint64_t{1} << 20});
    if (!run.skipped.empty()) return;
    verdict.guarded = true;
    if (!run.faults.empty()) {
      verdict.bad = text_of("guards: ", run.faults[0]);
      return;
    }
  }
}

}  // namespace rlx::test
