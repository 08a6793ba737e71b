// SPDX-License-Identifier: Apache-2.0
// Rounds of compiling and timing, then the comparison that the winners have to stand.
#include "tools/tune_forms/tune_forms.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "compiler/dispatch/target.h"
#include "runtime/api/handles.h"
#include "runtime/base/text.h"
#include "runtime/device/choose_profile.h"
#include "runtime/plan/plan_view.h"
#include "tools/tune/loaded_plan.h"

namespace rlx::tune {
namespace {

// A run of whole plans must gain this share, or the winners are not taken: what steps gain by
// themselves may be lost where steps overlap.
constexpr double kLeastRunGain = 0.002;
constexpr uint32_t kRunsOfEntry = 50;
constexpr uint32_t kTurns = 3;

Status find_target_of(const CompileOptions& compile, const Device& device, std::string& target) {
  std::vector<std::string> fitting;
  for (const std::string& name : compile.targets) {
    const Target* known = find_target(name);
    // A device without a kind takes them all.
    const bool fits = known != nullptr &&
                      (!device.info().target || static_cast<uint32_t>(known->kind) ==
                                                    static_cast<uint32_t>(*device.info().target));
    if (fits) fitting.push_back(name);
  }
  if (fitting.size() == 1) {
    target = fitting.front();
    return {};
  }
  return {RLX_INVALID_ARGUMENT,
          text_of("tuning needs one target that device ", device.info().id, " (",
                  device.info().name, ") runs, and the plan has ",
                  fitting.empty() ? "none" : "several", "; name it with --target")};
}

Status check_sizes(const Module& module) {
  for (const Symbol& symbol : module.symbols) {
    if (!symbol.is_free) continue;
    return {RLX_INVALID_ARGUMENT,
            text_of("the size ", quoted(symbol.name),
                    " is free, and forms are timed at one size; give it one, as in --dim ",
                    symbol.name, "=", symbol.maximum)};
  }
  return {};
}

// A compiled plan, on the device.
struct BuiltPlan {
  CompileSummary summary;
  std::vector<std::byte> bytes;
  LoadedPlan loaded;
};

class FormTuner {
 public:
  FormTuner(const Module& module, const CompileOptions& compile, Device& device,
            const FormTuneOptions& options, Diagnostics& diagnostics, FormTuneReport& report)
      : module_(module),
        compile_(compile),
        device_(device),
        options_(options),
        diagnostics_(diagnostics),
        report_(report),
        search_(options.variations) {}

  Status run() {
    const auto start = std::chrono::steady_clock::now();
    RLX_RETURN_IF_ERROR(check_sizes(module_));
    RLX_RETURN_IF_ERROR(find_target_of(compile_, device_, report_.target));
    report_.device = device_.info().name;
    report_.driver = device_.info().driver;
    prepare_options();
    while (const std::optional<FormTable> table = search_.next()) {
      TimedPlan timed;
      RLX_RETURN_IF_ERROR(time_steps(*table, timed));
      search_.add(timed);
    }
    if (!search_.winners().empty()) RLX_RETURN_IF_ERROR(confirm());
    report_.problems = search_.problems();
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return {};
  }

 private:
  void prepare_options() {
    compile_.targets = {report_.target};
    compile_.debug_section = true;  // the nodes of steps
    compile_.external_weights = false;
    compile_.dump_after.clear();
    compile_.timing = nullptr;
  }

  Status build(const FormTable& forms, BuiltPlan& built) {
    if (options_.progress)
      options_.progress(text_of("plan ", report_.rounds + 1, ", ", forms.size(),
                                " forms other than by estimate"));
    ++report_.rounds;
    compile_.tuned = {{.target = report_.target, .device = {}, .driver = {}, .forms = forms}};
    Diagnostics diagnostics;
    auto bytes = compile_to_bytes(module_, compile_, diagnostics, &built.summary);
    if (!bytes) {
      diagnostics_ = std::move(diagnostics);
      return {RLX_INVALID_ARGUMENT, "the model does not compile"};
    }
    built.bytes = std::move(*bytes);
    std::shared_ptr<const PlanView> view;
    RLX_RETURN_IF_ERROR(PlanView::open_memory(built.bytes, {}, view));
    std::optional<uint32_t> profile;
    RLX_RETURN_IF_ERROR(choose_profile(view->header(), device_, {}, profile));
    if (profile) view = PlanView::of_profile(view, *profile);
    RLX_RETURN_IF_ERROR(LoadedPlan::load(std::move(view), device_, built.loaded));
    return {};
  }

  Status profile(BuiltPlan& built, TimedPlan& timed) {
    timed.choices = built.summary.form_choices;
    // Estimates are of nodes: a plan's steps stand in another order than the program's.
    std::map<std::pair<std::string, std::string>, double> estimates;
    const DeviceModel& model = device_model();
    for (const StepEstimate& step : built.summary.estimates)
      estimates[{step.entry, step.node}] += step.microseconds(model);
    const PlanView& view = built.loaded.view();
    for (uint32_t e = 0; e < view.entry_count(); ++e) {
      const fb::Entry& record = view.entry(e, built.loaded.target());
      const std::string entry(PlanView::text(record.name()));
      std::vector<std::vector<double>> samples;
      RLX_RETURN_IF_ERROR(built.loaded.warm_up(e));
      RLX_RETURN_IF_ERROR(built.loaded.profile(e, options_.runs, samples));
      for (uint32_t s = 0; s < samples.size(); ++s) {
        TimedStep step{.entry = entry,
                       .node = std::string(view.step_names(record, s).node),
                       .kernel = view.step_kernel_name(PlanView::steps(record)[s]),
                       .samples = std::move(samples[s])};
        // The first step of a node has the estimate of all.
        const auto estimate = estimates.find({entry, step.node});
        if (estimate != estimates.end()) step.estimate = std::exchange(estimate->second, 0);
        timed.steps.push_back(std::move(step));
      }
    }
    return {};
  }

  Status time_steps(const FormTable& forms, TimedPlan& timed) {
    BuiltPlan built;
    RLX_RETURN_IF_ERROR(build(forms, built));
    return profile(built, timed);
  }

  // Winners beside what estimates choose, both timed anew, by steps and as whole runs.
  Status confirm() {
    BuiltPlan plain;
    TimedPlan plain_steps;
    TimedPlan tuned_steps;
    RLX_RETURN_IF_ERROR(build({}, plain));
    RLX_RETURN_IF_ERROR(time_steps(search_.winners(), tuned_steps));
    RLX_RETURN_IF_ERROR(profile(plain, plain_steps));
    search_.confirm(tuned_steps, plain_steps);
    if (search_.winners().empty()) return {};
    BuiltPlan tuned;
    RLX_RETURN_IF_ERROR(build(search_.winners(), tuned));
    std::vector<double> plain_runs;
    std::vector<double> tuned_runs;
    for (uint32_t turn = 0; turn < kTurns; ++turn) {
      RLX_RETURN_IF_ERROR(time_entries(plain.loaded, plain_runs.emplace_back()));
      RLX_RETURN_IF_ERROR(time_entries(tuned.loaded, tuned_runs.emplace_back()));
    }
    report_.plain_microseconds = median_of(std::move(plain_runs));
    report_.tuned_microseconds = median_of(std::move(tuned_runs));
    if (report_.tuned_microseconds > (1 - kLeastRunGain) * report_.plain_microseconds)
      search_.drop_winners();
    return {};
  }

  static Status time_entries(LoadedPlan& loaded, double& microseconds) {
    microseconds = 0;
    for (uint32_t e = 0; e < loaded.view().entry_count(); ++e) {
      std::vector<double> samples;
      RLX_RETURN_IF_ERROR(loaded.time_runs(e, kRunsOfEntry, samples));
      microseconds += median_of(std::move(samples));
    }
    return {};
  }

  [[nodiscard]] const DeviceModel& device_model() const {
    const auto asked =
        std::ranges::find(compile_.device_models, report_.target, &ModelForTarget::target);
    if (asked != compile_.device_models.end()) return asked->model;
    return find_target(report_.target)->device;
  }

  const Module& module_;
  CompileOptions compile_;
  Device& device_;
  const FormTuneOptions& options_;
  Diagnostics& diagnostics_;
  FormTuneReport& report_;
  FormSearch search_;
};

std::string number(double value, const char* format = "%.2f") {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string form_text(const Variation& variation) {
  return text_of(variation.kernels, " (", variation.taken, "): ", number(variation.microseconds),
                 " us (expected ", number(variation.estimate), ")");
}

// What estimates are off by: the median over problems of the share of the measured time, and the
// sum of the differences.
struct EstimateErrors {
  double median_share = 0;
  double microseconds = 0;
};

template <typename Pick>
EstimateErrors errors_of(const std::vector<TunedProblem>& problems, const Pick& pick) {
  std::vector<double> shares;
  EstimateErrors errors;
  for (const TunedProblem& problem : problems) {
    const Variation& variation = pick(problem);
    if (!variation.is_timed || variation.microseconds <= 0) continue;
    const double difference = std::abs(variation.estimate - variation.microseconds);
    shares.push_back(difference / variation.microseconds);
    errors.microseconds += difference;
  }
  if (!shares.empty()) errors.median_share = median_of(std::move(shares));
  return errors;
}

std::string error_text(const EstimateErrors& errors) {
  return text_of("off by ", number(100 * errors.median_share, "%.0f"), " % (median), ",
                 number(errors.microseconds), " us in all");
}

}  // namespace

FormTable FormTuneReport::winners() const {
  FormTable table;
  for (const TunedProblem& problem : problems)
    table.insert(problem.won().forms.begin(), problem.won().forms.end());
  return table;
}

Status tune_forms(const Module& module, const CompileOptions& compile, Device& device,
                  const FormTuneOptions& options, Diagnostics& diagnostics,
                  FormTuneReport& report) {
  return FormTuner(module, compile, device, options, diagnostics, report).run();
}

Status tune_forms(const Module& module, const CompileOptions& compile, const std::string& device,
                  const FormTuneOptions& options, Diagnostics& diagnostics,
                  FormTuneReport& report) {
  rlx_device* opened = nullptr;
  if (const rlx_status status = rlx_device_open(device.c_str(), &opened); status != RLX_OK)
    return {status, rlx_last_error()};
  const std::unique_ptr<rlx_device, void (*)(rlx_device*)> handle(opened, rlx_device_close);
  return tune_forms(module, compile, *handle->shared->device, options, diagnostics, report);
}

std::string report_text(const FormTuneReport& report) {
  std::string text =
      text_of("tuned ", report.target, " for ", report.device, ", driver ", report.driver, ": ",
              report.rounds, " plans, ", number(report.seconds, "%.1f"), " s\n");
  size_t timed = 0;
  size_t won = 0;
  for (const TunedProblem& problem : report.problems) {
    for (const Variation& variation : problem.variations) timed += variation.is_timed ? 1 : 0;
    if (problem.winner == 0) continue;
    ++won;
    text += text_of("  ", problem.problem, " (", problem.nodes.size(),
                    problem.nodes.size() == 1 ? " node): " : " nodes): ", form_text(problem.won()),
                    ", instead of ", form_text(problem.chosen()), "\n");
  }
  text += text_of("  ", report.problems.size(), " problems with close forms, ", timed,
                  " forms timed, ", won, " better than the estimates' choice\n");
  const auto chosen = [](const TunedProblem& problem) -> const Variation& {
    return problem.chosen();
  };
  const auto winner = [](const TunedProblem& problem) -> const Variation& { return problem.won(); };
  text += text_of("  estimates of what they choose are ",
                  error_text(errors_of(report.problems, chosen)), "; of what is taken now ",
                  error_text(errors_of(report.problems, winner)), "\n");
  if (report.tuned_microseconds > 0) {
    text += text_of("  a run: ", number(report.plain_microseconds), " us by estimates, ",
                    number(report.tuned_microseconds), " us tuned", won == 0 ? ": not taken" : "",
                    "\n");
  }
  return text;
}

}  // namespace rlx::tune
