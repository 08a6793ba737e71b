// SPDX-License-Identifier: Apache-2.0
// Loading, seeding and timing.
#include "tools/tune/loaded_plan.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "tools/rlxrun/inputs.h"

namespace rlx::tune {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kSeededMax = 8;  // indices stay inside small tables
// H200: from its idle clock to its full one.
constexpr std::chrono::milliseconds kWarmUp{250};

}  // namespace

Status LoadedPlan::load(std::shared_ptr<const PlanView> view, Device& device, LoadedPlan& loaded) {
  loaded.session_.reset();
  loaded.plan_.reset();
  loaded.view_ = std::move(view);
  RLX_RETURN_IF_ERROR(device.load(*loaded.view_, {.profile = true}, loaded.plan_));
  return loaded.plan_->create_session({}, loaded.session_);
}

Status LoadedPlan::fill_inputs(uint32_t entry) {
  const fb::Entry& record = view_->entry(entry, target());
  for (const uint32_t v : *record.inputs()) {
    const fb::Value& value = PlanView::value(record, v);
    const tool::Tensor tensor{.name = std::string(PlanView::text(value.name())),
                              .dtype = value.dtype(),
                              .dims = {value.dims()->begin(), value.dims()->end()},
                              .size_bytes = value.size_bytes()};
    const npy::Array array = tool::seeded_array(tensor, kSeed, kSeededMax);
    RLX_RETURN_IF_ERROR(session_->write(entry, v, array.data));
  }
  return {};
}

Status LoadedPlan::profile(uint32_t entry, uint32_t runs,
                           std::vector<std::vector<double>>& samples) {
  RLX_RETURN_IF_ERROR(fill_inputs(entry));
  samples.clear();
  std::vector<StepTime> times;
  for (uint32_t run = 0; run <= runs; ++run) {
    RLX_RETURN_IF_ERROR(session_->profile(entry, times));
    if (run == 0) continue;  // warms up
    samples.resize(times.size());
    for (const StepTime& time : times) samples.at(time.step).push_back(time.microseconds);
  }
  return {};
}

Status LoadedPlan::run(uint32_t entry) {
  RLX_RETURN_IF_ERROR(session_->submit(entry));
  return session_->wait(std::numeric_limits<uint64_t>::max());
}

Status LoadedPlan::warm_up(uint32_t entry) {
  RLX_RETURN_IF_ERROR(fill_inputs(entry));
  const auto start = std::chrono::steady_clock::now();
  do {
    RLX_RETURN_IF_ERROR(run(entry));
  } while (std::chrono::steady_clock::now() - start < kWarmUp);
  return session_->reset_states();
}

Status LoadedPlan::time_runs(uint32_t entry, uint32_t runs, std::vector<double>& samples) {
  RLX_RETURN_IF_ERROR(warm_up(entry));
  samples.clear();
  for (uint32_t r = 0; r < runs; ++r) {
    RLX_RETURN_IF_ERROR(run(entry));
    samples.push_back(session_->last_run_microseconds());
  }
  return session_->reset_states();
}

double median_of(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace rlx::tune
