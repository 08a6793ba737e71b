// SPDX-License-Identifier: Apache-2.0
// Guarded runs of good plans: every step of plan files, or of the conformance cases' plans, may
// touch the values that it names and nothing else, and the outputs do not depend on what memory
// held before. Without arguments it takes a slice of the cases.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>

#include "tests/support/guarded_run.h"
#include "tests/support/harness.h"

namespace rlx::test {

#define RLX_OPS(family, ...) std::vector<Case> family##_cases();
#include "compiler/ops/ops.def"
#undef RLX_OPS
std::vector<Case> element_type_cases();

namespace {

struct Options {
  std::vector<std::string> plans;  // files and folders
  std::string family;              // of cases; empty: all
  uint32_t every = 40;             // one batch of so many
  uint32_t offset = 0;
  int optimisation = 0;
};

struct Counts {
  size_t plans = 0;
  size_t skipped = 0;
  size_t failed = 0;
};

struct Family {
  std::string name;
  std::vector<Case> (*cases)();
};

std::vector<Family> families() {
  return {
#define RLX_OPS(family, ...) {#family, family##_cases},
#include "compiler/ops/ops.def"
#undef RLX_OPS
      {"element_type", element_type_cases}};
}

using Bytes = std::vector<std::byte>;

void guard(GuardedDevice& device, const PlanView& plan, const std::string& name,
           const std::vector<std::vector<Bytes>>& inputs, Counts& counts) {
  ++counts.plans;
  const GuardedRun begin =
      run_guarded(device, plan, {.side = GuardSide::Begin, .fill = std::byte{0xFF}}, inputs);
  if (!begin.skipped.empty()) {
    ++counts.skipped;
    std::cout << name << ": SKIPPED, " << begin.skipped << "\n";
    return;
  }
  const GuardedRun end =
      run_guarded(device, plan, {.side = GuardSide::End, .fill = std::byte{0x5A}}, inputs);
  bool good = true;
  for (const GuardedRun* run : {&begin, &end}) {
    for (const std::string& fault : run->faults) {
      good = false;
      std::cout << "FAILED: " << name << ": " << fault << "\n";
    }
  }
  if (good && begin.outputs != end.outputs) {
    good = false;
    std::cout << "FAILED: " << name << ": its outputs depend on what memory held before\n";
  }
  if (!good) ++counts.failed;
}

void guard_cases(GuardedDevice& device, const Options& options, std::span<const Case> cases,
                 const std::string& name, Counts& counts) {
  Diagnostics diagnostics;
  auto graph = build_graph(cases, diagnostics);
  CompileOptions compile;
  compile.optimisation = options.optimisation;
  compile.cache_dir = std::string(RLX_BUILD_DIR) + "/kernel-cache";
  const auto plan = graph ? compile_plan(graph->module, compile, diagnostics) : nullptr;
  if (plan == nullptr) {
    // Of several cases one may be refused by a device's limits: each by itself then.
    for (size_t i = 0; cases.size() > 1 && i < cases.size(); ++i)
      guard_cases(device, options, cases.subspan(i, 1), name + ": " + cases[i].name, counts);
    if (cases.size() > 1) return;
    ++counts.failed;
    std::cout << "FAILED: " << name << " does not compile: " << diagnostics.text() << "\n";
    return;
  }
  std::vector<Bytes> inputs;
  for (const Tensor& input : graph->inputs) inputs.push_back(input.to_bytes());
  guard(device, *plan, name, {inputs}, counts);
}

void guard_families(GuardedDevice& device, const Options& options, Counts& counts) {
  constexpr size_t kBatch = 8;
  size_t number = 0;
  for (const Family& family : families()) {
    if (!options.family.empty() && family.name != options.family) continue;
    const std::vector<Case> cases = family.cases();
    for (size_t first = 0; first < cases.size(); first += kBatch, ++number) {
      if (number % options.every != options.offset % options.every) continue;
      const auto batch = std::span(cases).subspan(first, std::min(kBatch, cases.size() - first));
      guard_cases(device, options, batch,
                  family.name + " " + std::to_string(first) + " to " +
                      std::to_string(first + batch.size() - 1),
                  counts);
    }
  }
}

void guard_files(GuardedDevice& device, const std::string& place, Counts& counts) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(place)) {
    for (const auto& file : std::filesystem::directory_iterator(place)) {
      if (file.path().extension() == ".plan") files.push_back(file.path());
    }
  } else {
    files.emplace_back(place);
  }
  for (const std::filesystem::path& file : files) {
    std::shared_ptr<const PlanView> plan;
    const Status status = PlanView::open_file(file.string(), {.check_weights = true}, plan);
    if (status.ok()) {
      guard(device, *plan, file.string(), {}, counts);
    } else {
      ++counts.failed;
      std::cout << "FAILED: " << status.message() << "\n";
    }
  }
}

int run(const Options& options) {
  std::unique_ptr<GuardedDevice> device;
  if (const Status status = GuardedDevice::open(device); !status.ok()) {
    std::cout << "SKIPPED: " << status.message() << "; 0 failed\n";
    return 0;
  }
  const auto start = std::chrono::steady_clock::now();
  Counts counts;
  for (const std::string& place : options.plans) guard_files(*device, place, counts);
  if (options.plans.empty()) guard_families(*device, options, counts);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::cout << counts.plans << " plans guarded, " << counts.skipped << " skipped, " << counts.failed
            << " failed, " << took.count() << " s\n";
  return counts.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rlx::test

int main(int argc, char** argv) {
  rlx::test::Options options;
  CLI::App app("Runs plans on lavapipe with every value between forbidden pages");
  app.add_option("plans", options.plans, "plan files, or folders of them, instead of the cases");
  app.add_option("--family", options.family, "conformance cases of one family of operators");
  app.add_option("--every", options.every, "one batch of so many; 1: all")
      ->check(CLI::PositiveNumber);
  app.add_option("--offset", options.offset, "which one of these");
  app.add_option("-O", options.optimisation, "optimisation level");
  CLI11_PARSE(app, argc, argv);
  try {
    return rlx::test::run(options);
  } catch (const std::exception& error) {
    std::cout << "FAILED: " << error.what() << "\n";
    return 1;
  }
}
