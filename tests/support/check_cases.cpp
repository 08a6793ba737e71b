// SPDX-License-Identifier: Apache-2.0
// Runs a table of conformance cases.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/dispatch/device_profile.h"
#include "compiler/ops/op_def.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/complex_bits.h"
#include "tests/support/catch.h"
#include "tests/support/harness.h"
#include "tests/support/judge.h"

namespace rlx::test {
namespace {

constexpr size_t kBatch =
    48;  // cases in one plan: fewer pipelines to load, still small enough to tell apart

std::string label(const Case& test) {
  return test.op + ": " + test.name + " " + test.attributes;
}

std::string tally_key(const Case& test, const std::string& device) {
  return test::tally_key(test) + " " + device;
}

// What golden values stand for: the elements, of c64 both parts.
std::vector<double> golden_elements(const Tensor& output) {
  if (output.is_float()) return output.floats;
  std::vector<double> elements;
  for (const int64_t bits : output.integers) {
    if (output.type.dtype == DType::c64) {
      elements.push_back(complex_from_bits(bits).real());
      elements.push_back(complex_from_bits(bits).imag());
    } else {
      elements.push_back(static_cast<double>(bits));
    }
  }
  return elements;
}

void check_golden(const Case& test, const std::vector<Tensor>& outputs) {
  for (size_t k = 0; k < test.golden.size(); ++k) {
    const std::vector<double> output = golden_elements(outputs[k]);
    REQUIRE(output.size() == test.golden[k].size());
    for (size_t i = 0; i < test.golden[k].size(); ++i) {
      const double wanted = test.golden[k][i];
      const double got = output[i];
      INFO("golden output " << k << " element " << i << ": evaluator gives " << got << ", wanted "
                            << wanted);
      const bool special = std::isnan(wanted) ? std::isnan(got) : got == wanted;
      const bool near =
          std::fabs(got - wanted) <= test.golden_tolerance * std::max(1.0, std::fabs(wanted));
      CHECK((special || near));
    }
  }
}

// Equal bits, but for NaN, whose payload is free.
bool equal_bits(const Tensor& a, const Tensor& b) {
  for (size_t i = 0; i < a.floats.size(); ++i) {
    const bool both_nan = std::isnan(a.floats[i]) && std::isnan(b.floats[i]);
    if (!both_nan && std::memcmp(&a.floats[i], &b.floats[i], sizeof(double)) != 0) return false;
  }
  return a.integers == b.integers && a.blocks == b.blocks;
}

// Batches that do not compile as a whole are compiled case by case, so that the one at fault is
// named.
struct Batch {
  std::span<const Case> cases;
  CaseGraph graph;
  std::shared_ptr<const PlanView> plan;
  std::vector<Tensor> reference;  // empty where nothing is compared with it
};

bool is_vulkan(const Device& device) {
  return device.info().architecture == 0;
}

bool is_for(const PlanView& plan, const Device& device) {
  return plan.is_for(is_vulkan(device) ? fb::TargetKind::Vulkan : fb::TargetKind::Cuda);
}

bool meets_needs(const Device& device, const PlanView& plan) {
  return !is_vulkan(device) || (plan.header().vulkan.features & ~device.info().features) == 0;
}

// Code that no device here runs is only compiled: what it should give would be compared with
// nothing.
bool is_compared(const Batch& batch, const CaseOptions& wanted) {
  const auto runs = [&](const std::shared_ptr<Device>& device) {
    return is_for(*batch.plan, *device) && meets_needs(*device, *batch.plan);
  };
  return wanted.target.empty() || std::ranges::any_of(present_devices().devices, runs) ||
         !std::ranges::all_of(batch.cases, &std::vector<std::vector<double>>::empty, &Case::golden);
}

std::optional<Batch> prepare(std::span<const Case> cases, const CaseOptions& wanted,
                             Diagnostics& diagnostics) {
  auto built = build_graph(cases, diagnostics);
  if (!built) return std::nullopt;
  Batch batch{.cases = cases, .graph = std::move(*built), .plan = {}, .reference = {}};
  const Module& module = batch.graph.module;
  CompileOptions options = test_options(wanted.optimisation);
  if (!wanted.target.empty()) options.targets = {wanted.target};
  options.without = wanted.without;
  for (const DeviceProfile& profile : built_in_profiles()) {
    for (const std::string& target : options.targets) {
      const DeviceColumn* column = profile.column(target);
      if (profile.name == wanted.device_model && column != nullptr)
        options.device_models.push_back({target, profile.name, column->model});
    }
  }
  batch.plan = compile_plan(module, options, diagnostics);
  if (!batch.plan) return std::nullopt;
  if (!is_compared(batch, wanted)) return batch;
  StateValues states;
  auto reference =
      evaluate_entry(module, module.entries[0], batch.graph.inputs, states, {}, diagnostics);
  if (!reference) return std::nullopt;
  batch.reference = std::move(*reference);
  return batch;
}

Tolerance tolerance_of(const Case& test, const Tensor& reference) {
  const auto is_short = [](const std::optional<CaseTensor>& input) {
    return input && is_float(input->type.dtype) && input->type.dtype != DType::f64;
  };
  const bool doubles = test.tolerance == Tolerance::Norm && reference.type.dtype == DType::f64 &&
                       std::none_of(test.inputs.begin(), test.inputs.end(), is_short);
  return doubles ? Tolerance::NormDouble : test.tolerance;
}

void check_outputs(const Batch& batch, const std::vector<std::vector<Tensor>>& runs,
                   const std::string& device, std::map<std::string, Tally>& tallies) {
  for (size_t c = 0; c < batch.cases.size(); ++c) {
    const Case& test = batch.cases[c];
    INFO(label(test) << " on " << device);
    Tally& tally = tallies[tally_key(test, device)];
    ++tally.cases;
    bool good = true;
    for (size_t k = 0; k < test.outputs; ++k) {
      const size_t output = batch.graph.first_output[c] + k;
      const Verdict verdict = judge(runs[0][output], batch.reference[output],
                                    tolerance_of(test, batch.reference[output]));
      tally.worst_ratio = std::max(tally.worst_ratio, verdict.worst_ratio);
      INFO("output " << k << ": " << verdict.fault);
      CHECK(verdict.good);
      const bool repeats = equal_bits(runs[0][output], runs[1][output]) &&
                           equal_bits(runs[0][output], runs[2][output]);
      INFO("the same bits whatever the arena held before");
      CHECK(repeats);
      good = good && verdict.good && repeats;
    }
    if (!good) ++tally.failed;
  }
}

// A device of the plan's kind without features that its code needs must say so.
void check_refusal(Device& device, const Batch& batch, std::map<std::string, Tally>& tallies) {
  std::shared_ptr<DevicePlan> loaded;
  const Status status = device.load(*batch.plan, {}, loaded);
  INFO(device.info().id << ": " << status.message());
  CHECK(status.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(status.message().find("lacks what the plan needs: ") != std::string::npos);
  for (const Case& test : batch.cases) ++tallies[tally_key(test, device.info().id)].skipped;
}

void run_batch(const Batch& batch, std::map<std::string, Tally>& tallies) {
  for (size_t c = 0; c < batch.cases.size(); ++c) {
    if (batch.cases[c].golden.empty()) continue;
    INFO(label(batch.cases[c]));
    const auto first = batch.reference.begin() + static_cast<int64_t>(batch.graph.first_output[c]);
    check_golden(batch.cases[c],
                 std::vector<Tensor>(first, first + static_cast<int64_t>(batch.cases[c].outputs)));
  }
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    if (!is_for(*batch.plan, *device)) continue;
    if (!meets_needs(*device, *batch.plan)) {
      check_refusal(*device, batch, tallies);
      continue;
    }
    TestSession session(*device, batch.plan);
    std::vector<std::vector<Tensor>> runs;
    for (const int poison : {0x00, 0xFF, 0xA5}) {
      runs.push_back(session.run(0, batch.graph.inputs, std::byte(poison)));
    }
    check_outputs(batch, runs, device->info().id, tallies);
  }
}

}  // namespace

std::string tally_key(const Case& test) {
  const bool without = test.inputs.empty() || !test.inputs[0];
  return test.op + " " +
         (without ? std::string("-") : std::string(name_of(test.inputs[0]->type.dtype)));
}

void check_cases(std::span<const Case> cases, std::map<std::string, Tally>& tallies,
                 const CaseOptions& options) {
  for (size_t first = 0; first < cases.size(); first += kBatch) {
    const auto chunk = cases.subspan(first, std::min(kBatch, cases.size() - first));
    Diagnostics diagnostics;
    if (auto batch = prepare(chunk, options, diagnostics)) {
      run_batch(*batch, tallies);
      continue;
    }
    for (const Case& test : chunk) {
      Diagnostics own;
      auto single = prepare(std::span(&test, 1), options, own);
      INFO(label(test) << "\n" << own.text());
      CHECK(single.has_value());
      if (single) run_batch(*single, tallies);
    }
  }
}

}  // namespace rlx::test
