// SPDX-License-Identifier: Apache-2.0
// Checking one graph of the fuzzer, compiled in several ways.
#include <cstring>
#include <span>
#include <stdexcept>

#include "compiler/passes/pass.h"
#include "tests/fuzz/fuzz_graph.h"
#include "tests/support/harness.h"

namespace rlx::test {
namespace {

bool equal_bytes(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].to_bytes() != b[i].to_bytes()) return false;
  }
  return true;
}

// Runs a plan on every device, with each of the bytes as what the arena held before, all of that
// `repeats` times.
std::string run_everywhere(const Prepared& prepared, const std::vector<std::byte>& bytes,
                           const std::string& way, std::span<const int> poisons, int repeats) {
  std::shared_ptr<const PlanView> plan;
  const Status opened =
      PlanView::open_memory(bytes, {.check_weights = true, .copy_memory = true}, plan);
  if (!opened.ok()) return way + ": the verifier refuses it: " + opened.message();
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    const std::string where = way + " on " + device->info().id;
    try {
      TestSession session(*device, plan);
      std::vector<Tensor> first;
      for (size_t run = 0; run < poisons.size() * static_cast<size_t>(repeats); ++run) {
        const auto poison = std::byte(poisons[run % poisons.size()]);
        const std::vector<Tensor> got = session.run(0, prepared.inputs, poison);
        const std::string fault = check_run(prepared, got, where);
        if (!fault.empty()) return fault;
        if (first.empty()) first = got;
        if (!equal_bytes(first, got)) {
          return where + ": other bits in run " + std::to_string(run) +
                 "; what the arena held before shows, or the order of the work";
        }
      }
    } catch (const std::runtime_error& error) {
      return where + ": " + error.what();
    }
  }
  return {};
}

std::vector<std::string> fusion_passes() {
  std::vector<std::string> names;
  for (const Pass& pass : all_passes()) {
    if (pass.level > 0) names.emplace_back(pass.name);
  }
  return names;
}

std::string check_prepared(const Prepared& prepared, uint64_t seed, int repeats) {
  const std::vector<std::string> passes = fusion_passes();
  CompileOptions without = test_options(2);
  without.disabled_passes = {passes[seed % passes.size()]};
  without.control = ControlFlow::Regions;
  static constexpr int kOnePoison[] = {0xFF};
  static constexpr int kAllPoisons[] = {0x00, 0xFF, 0xA5};
  struct Way {
    std::string name;
    CompileOptions options;
    std::span<const int> poisons;
  };
  const Way ways[] = {{"-O0", test_options(0), kOnePoison},
                      {"with regions, without " + without.disabled_passes[0], without, kOnePoison},
                      {"-O2", test_options(2), kAllPoisons}};
  std::optional<std::vector<std::byte>> plan;
  for (const Way& way : ways) {
    Diagnostics diagnostics;
    plan = compile_to_bytes(prepared.module, way.options, diagnostics);
    if (!plan) return way.name + ": " + diagnostics.text();
    const std::string fault = run_everywhere(prepared, *plan, way.name, way.poisons, repeats);
    if (!fault.empty()) return fault;
  }
  Diagnostics diagnostics;
  const auto again = compile_to_bytes(prepared.module, test_options(2), diagnostics);
  if (again != plan) return "a second compilation gives other bytes";
  return {};
}

}  // namespace

std::string check_graph(const GraphText& graph, uint64_t seed, int repeats, bool* says_nothing) {
  Diagnostics diagnostics;
  auto prepared = prepare(graph, {}, diagnostics);
  if (says_nothing != nullptr) *says_nothing = !prepared && !diagnostics.has_errors();
  if (!prepared) return diagnostics.has_errors() ? "refused: " + diagnostics.text() : "";
  if (seed % 3 == 0) prepared = in_branches(graph, std::move(*prepared), diagnostics);
  if (!prepared) return "refused in branches: " + diagnostics.text();
  try {
    return check_prepared(*prepared, seed, repeats);
  } catch (const std::exception& error) {
    return std::string("internal error: ") + error.what();
  }
}

}  // namespace rlx::test
