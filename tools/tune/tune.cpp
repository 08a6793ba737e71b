// SPDX-License-Identifier: Apache-2.0
// Algorithms of the library first, then library against our own kernels, within the whole entry.
#include "tools/tune/tune.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "runtime/api/handles.h"
#include "runtime/base/text.h"
#include "runtime/plan/gemm_text.h"
#include "runtime/plan/target_row.h"
#include "tools/tune/loaded_plan.h"

namespace rlx::tune {
namespace {

// Our own kernel takes over where it is faster by more than what two measurements differ.
constexpr double kClearlyFaster = 0.98;

std::vector<std::byte> packed(const fb::PlanT& plan) {
  flatbuffers::FlatBufferBuilder builder;
  // Fields that follow free sizes are stored whatever they hold.
  builder.ForceDefaults(
      std::ranges::any_of(plan.entries, [](const auto& entry) { return !entry->patches.empty(); }));
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &plan));
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {bytes, bytes + builder.GetSize()};
}

// Products of the library are only in entries for a target that has one.
bool is_for(const fb::EntryT& entry, fb::TargetKind target) {
  return (entry.targets & target_row(target).mask()) != 0;
}

// A step and its alternative change places, with their times.
void exchange(fb::EntryT& entry, fb::AlternativeT& alternative) {
  std::swap(entry.steps[alternative.step], *alternative.other);
  std::swap(alternative.step_microseconds, alternative.other_microseconds);
}

// What an earlier tuner gave to our own kernels goes back to the library, to be judged again.
void put_library_first(fb::PlanT& plan) {
  for (const auto& entry : plan.entries) {
    for (const auto& alternative : entry->alternatives) {
      if (entry->steps[alternative->step].kind() != fb::StepKind::LibraryGemm &&
          alternative->other->kind() == fb::StepKind::LibraryGemm) {
        exchange(*entry, *alternative);
      }
    }
  }
}

// The steps of an entry that compute a gemm.
std::vector<uint32_t> steps_of(const fb::EntryT& entry, uint32_t gemm) {
  std::vector<uint32_t> steps;
  for (uint32_t s = 0; s < entry.steps.size(); ++s) {
    const fb::Step& step = entry.steps[s];
    if (step.kind() == fb::StepKind::LibraryGemm && step.kernel() == gemm) steps.push_back(s);
  }
  return steps;
}

class Tuner {
 public:
  Tuner(std::shared_ptr<const PlanView> plan, Device& device, const TuneOptions& options,
        TuneReport& report)
      : plan_(std::move(plan)), device_(device), options_(options), report_(report) {
    plan_->index().UnPackTo(&tuned_);
    put_library_first(tuned_);
  }

  Status run(std::vector<std::byte>& index) {
    if (!has_products()) {
      return {RLX_INVALID_ARGUMENT, text_of("plan ", quoted(plan_->name()),
                                            " has no library product: there is nothing to tune")};
    }
    RLX_RETURN_IF_ERROR(load());
    report_.identity = loaded_.identity();
    for (size_t record = 0; record < tuned_.entries.size(); ++record)
      RLX_RETURN_IF_ERROR(tune_gemms(*tuned_.entries[record]));
    for (const auto& entry : tuned_.entries) RLX_RETURN_IF_ERROR(judge_alternatives(*entry));
    index = packed(tuned_);
    return {};
  }

 private:
  [[nodiscard]] bool has_products() const {
    return std::any_of(tuned_.entries.begin(), tuned_.entries.end(), [](const auto& entry) {
      return std::any_of(entry->steps.begin(), entry->steps.end(), [](const fb::Step& step) {
        return step.kind() == fb::StepKind::LibraryGemm;
      });
    });
  }

  Status load() {
    std::shared_ptr<const PlanView> view;
    RLX_RETURN_IF_ERROR(PlanView::with_index(plan_, packed(tuned_), view));
    RLX_RETURN_IF_ERROR(LoadedPlan::load(std::move(view), device_, loaded_));
    if (target_row(loaded_.target()).has_library) return {};
    return {RLX_UNSUITABLE_DEVICE,
            text_of("device ", device_.info().id, " (", device_.info().name,
                    ") has no library of products; tuning needs a CUDA device")};
  }

  // The number that sessions know an entry by.
  [[nodiscard]] uint32_t number_of(const fb::EntryT& entry) const {
    uint32_t number = 0;
    while (PlanView::text(loaded_.view().entry(number).name()) != entry.name) ++number;
    return number;
  }
  // Of a record for other ranges than the symbols' maxima the library's heuristic chooses.
  [[nodiscard]] bool is_at_maximum(const fb::EntryT& entry) const {
    return std::ranges::all_of(entry.ranges, [&](const fb::SymbolRange& range) {
      return range.maximum() == loaded_.view().index().symbols()->Get(range.symbol())->maximum();
    });
  }

  Status tune_gemms(fb::EntryT& entry) {
    if (!is_for(entry, loaded_.target()) || !is_at_maximum(entry)) return {};
    for (uint32_t g = 0; g < entry.gemms.size(); ++g) {
      const std::vector<uint32_t> steps = steps_of(entry, g);
      if (!steps.empty()) RLX_RETURN_IF_ERROR(tune_gemm(entry, g, steps));
    }
    return {};
  }

  Status tune_gemm(fb::EntryT& entry, uint32_t g, const std::vector<uint32_t>& steps) {
    const uint32_t number = number_of(entry);
    const fb::Entry& record = loaded_.view().entry(number, loaded_.target());
    TunedGemm tuned{.entry = entry.name,
                    .problem = gemm_text(*record.gemms()->Get(g)),
                    .steps = static_cast<uint32_t>(steps.size())};
    if (options_.progress) options_.progress(text_of(entry.name, ": ", tuned.problem));
    RLX_RETURN_IF_ERROR(loaded_.fill_inputs(number));
    std::vector<GemmAlgorithm> algorithms;
    RLX_RETURN_IF_ERROR(loaded_.session().time_algorithms(number, steps.front(), 1, algorithms));
    tuned.first_microseconds = algorithms.empty() ? 0 : algorithms.front().microseconds;
    RLX_RETURN_IF_ERROR(
        loaded_.session().time_algorithms(number, steps.front(), options_.candidates, algorithms));
    if (algorithms.empty()) {
      return {RLX_UNSUITABLE_DEVICE,
              text_of("the library offers no algorithm for ", tuned.problem)};
    }
    const GemmAlgorithm& best = algorithms.front();
    tuned.candidates = static_cast<uint32_t>(algorithms.size());
    tuned.microseconds = best.microseconds;
    fb::LibraryGemmT& gemm = *entry.gemms[g];
    const auto* bytes = reinterpret_cast<const uint8_t*>(best.bytes.data());
    gemm.algorithm.assign(bytes, bytes + best.bytes.size());
    gemm.tuned_device = report_.identity.device;
    gemm.tuned_driver = report_.identity.driver;
    gemm.tuned_library = report_.identity.library;
    gemm.tuned_microseconds = best.microseconds;
    report_.gemms.push_back(std::move(tuned));
    return {};
  }

  // Profiles the entry with the library's products, then with our own in their places, and leaves
  // of each kind of step what was faster.
  Status judge_alternatives(fb::EntryT& entry) {
    if (!is_for(entry, loaded_.target()) || entry.alternatives.empty()) return {};
    std::vector<double> library;
    std::vector<double> own;
    RLX_RETURN_IF_ERROR(profile(entry, library));
    for (const auto& alternative : entry.alternatives) exchange(entry, *alternative);
    RLX_RETURN_IF_ERROR(profile(entry, own));
    for (const auto& alternative : entry.alternatives) exchange(entry, *alternative);

    using Kind = std::pair<uint32_t, uint32_t>;  // gemm, kernel
    std::map<Kind, TunedAlternative> kinds;
    for (const auto& alternative : entry.alternatives) {
      const uint32_t step = alternative->step;
      const uint32_t gemm = entry.steps[step].kernel();
      const fb::Entry& record = loaded_.view().entry(number_of(entry), loaded_.target());
      TunedAlternative& kind = kinds[{gemm, alternative->other->kernel()}];
      kind.entry = entry.name;
      kind.problem = gemm_text(*record.gemms()->Get(gemm));
      kind.kernel = loaded_.view().step_kernel_name(*alternative->other);
      ++kind.steps;
      kind.library_microseconds += library.at(step);
      kind.own_microseconds += own.at(step);
      alternative->step_microseconds = library[step];
      alternative->other_microseconds = own[step];
    }
    for (auto& [key, kind] : kinds)
      kind.own_is_faster = kind.own_microseconds < kClearlyFaster * kind.library_microseconds;
    for (const auto& alternative : entry.alternatives) {
      const Kind key{entry.steps[alternative->step].kernel(), alternative->other->kernel()};
      if (kinds.at(key).own_is_faster) exchange(entry, *alternative);
    }
    for (auto& [key, kind] : kinds) report_.alternatives.push_back(std::move(kind));
    return {};
  }

  Status profile(const fb::EntryT& entry, std::vector<double>& medians) {
    RLX_RETURN_IF_ERROR(load());
    std::vector<std::vector<double>> samples;
    RLX_RETURN_IF_ERROR(loaded_.profile(number_of(entry), options_.runs, samples));
    medians.clear();
    for (std::vector<double>& sample : samples) medians.push_back(median_of(std::move(sample)));
    return {};
  }

  std::shared_ptr<const PlanView> plan_;
  Device& device_;
  const TuneOptions& options_;
  TuneReport& report_;
  fb::PlanT tuned_;
  LoadedPlan loaded_;
};

}  // namespace

Status tune(const std::shared_ptr<const PlanView>& plan, Device& device, const TuneOptions& options,
            std::vector<std::byte>& index, TuneReport& report) {
  return Tuner(plan, device, options, report).run(index);
}

Status tune_file(const std::string& path, const std::string& device, const TuneOptions& options,
                 std::vector<std::byte>& index, TuneReport& report) {
  std::shared_ptr<const PlanView> plan;
  RLX_RETURN_IF_ERROR(PlanView::open_file(path, {}, plan));
  rlx_device* opened = nullptr;
  if (const rlx_status status = rlx_device_open(device.c_str(), &opened); status != RLX_OK)
    return {status, rlx_last_error()};
  const std::unique_ptr<rlx_device, void (*)(rlx_device*)> handle(opened, rlx_device_close);
  return tune(plan, *handle->shared->device, options, index, report);
}

std::string report_text(const TuneReport& report) {
  const auto number = [](double microseconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", microseconds);
    return std::string(text);
  };
  std::string text = text_of("tuned for ", report.identity.device, ", driver ",
                             report.identity.driver, ", ", report.identity.library, "\n");
  for (const TunedGemm& gemm : report.gemms) {
    text += text_of("  ", gemm.entry, ": ", gemm.problem, " (", gemm.steps,
                    gemm.steps == 1 ? " step): " : " steps): ", number(gemm.microseconds),
                    " us, the best of ", gemm.candidates, "; the library's first suggestion takes ",
                    number(gemm.first_microseconds), " us\n");
  }
  for (const TunedAlternative& kind : report.alternatives) {
    text += text_of("  ", kind.entry, ": ", kind.problem, " (", kind.steps,
                    kind.steps == 1 ? " step): " : " steps): ",
                    kind.own_is_faster ? kind.kernel : std::string("the library"), " stays, ",
                    number(kind.library_microseconds), " us by the library, ",
                    number(kind.own_microseconds), " us by ", kind.kernel, "\n");
  }
  return text;
}

}  // namespace rlx::tune
