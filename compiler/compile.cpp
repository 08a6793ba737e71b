// SPDX-License-Identifier: Apache-2.0
// The whole compilation in the order of architecture.md section 1.
#include "compiler/compile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

#include "compiler/emit/compile_kernels.h"
#include "compiler/emit/plan_writer.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/schedule.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"
#include "compiler/version.h"

namespace rlx {
namespace {

constexpr std::array kPrecisionNames = {"f32", "f16", "bf16"};

// Everything between the module and the bytes of the plan; owns what PlanContent points to.
struct Compilation {
  Module module;
  std::vector<std::string> pass_log;
  std::vector<Program> programs;  // of the entries, then init
  std::vector<Schedule> schedules;
  KernelSet kernels;
  CompiledKernels codes;
  PlanContent content;
};

class PhaseTimer {
 public:
  explicit PhaseTimer(const CompileOptions& options) : options_(options) {}
  void end(const std::string& phase) {
    const auto now = std::chrono::steady_clock::now();
    if (options_.timing)
      options_.timing(phase, std::chrono::duration<double>(now - start_).count());
    start_ = now;
  }

 private:
  const CompileOptions& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool check_targets(const CompileOptions& options, Diagnostics& diagnostics) {
  for (const std::string& target : options.targets) {
    if (target == "vulkan") continue;
    diagnostics.error(DiagCode::UnsupportedTarget, {}, "target \"" + target + "\" is unknown",
                      "this build compiles for: vulkan");
  }
  return !diagnostics.has_errors();
}

// Keeps the entries asked for, in the module's order.
bool select_entries(Module& module, const CompileOptions& options, Diagnostics& diagnostics) {
  for (const std::string& wanted : options.entries) {
    std::string known;
    bool found = false;
    for (const Graph& graph : module.entries) {
      found = found || graph.name == wanted;
      known += (known.empty() ? "" : ", ") + graph.name;
    }
    if (!found) {
      diagnostics.error(DiagCode::BadOption, {}, "the model has no entry \"" + wanted + "\"",
                        "its entries are: " + known);
    }
  }
  if (!options.entries.empty()) {
    std::erase_if(module.entries, [&options](const Graph& graph) {
      return std::find(options.entries.begin(), options.entries.end(), graph.name) ==
             options.entries.end();
    });
  }
  return !diagnostics.has_errors();
}

// Fixes the outputs' names before passes replace values. A value listed twice is told apart as
// "name.2".
void name_outputs(Graph& graph) {
  std::map<std::string, size_t> uses;
  for (ValueId id : graph.outputs) {
    const std::string& name = graph.value(id).name;
    const size_t use = ++uses[name];
    graph.output_names.push_back(use == 1 ? name : name + "." + std::to_string(use));
  }
}

bool transform(Compilation& compilation, const CompileOptions& options, Diagnostics& diagnostics) {
  for (Graph& graph : compilation.module.entries) {
    if (graph.output_names.empty()) name_outputs(graph);
  }
  const PassOptions passes{.optimisation = options.optimisation,
                           .precision = kPrecisionNames.at(static_cast<size_t>(options.precision)),
                           .disabled = options.disabled_passes,
                           .dump_after = options.dump_after,
                           .dump = options.dump,
                           .timing = options.timing};
  return run_passes(compilation.module, passes, diagnostics, compilation.pass_log);
}

bool lower(Compilation& compilation, Diagnostics& diagnostics) {
  for (const Graph& graph : compilation.module.entries) {
    auto program = lower_entry(compilation.module, graph, diagnostics);
    if (program) compilation.programs.push_back(std::move(*program));
  }
  if (diagnostics.has_errors()) return false;
  compilation.programs.push_back(lower_init(compilation.module, compilation.programs));
  for (const Program& program : compilation.programs) {
    compilation.schedules.push_back(schedule(program));
  }
  return true;
}

bool generate(Compilation& compilation, const CompileOptions& options, Diagnostics& diagnostics) {
  std::vector<const Program*> programs;
  for (const Program& program : compilation.programs) programs.push_back(&program);
  if (programs.back()->steps.empty()) programs.pop_back();
  compilation.kernels = gather_kernels(programs);
  CompileKernelsOptions code{.jobs = options.jobs, .cache_folder = {}, .kernels_folder = {}};
  if (!options.cache_dir.empty()) code.cache_folder = options.cache_dir;
  if (!options.kernels_dir.empty()) code.kernels_folder = options.kernels_dir;
  auto compiled = compile_kernels(compilation.kernels, code, diagnostics);
  if (!compiled) return false;
  compilation.codes = std::move(*compiled);
  return true;
}

void assemble(Compilation& compilation, const CompileOptions& options) {
  PlanContent& content = compilation.content;
  content.module = &compilation.module;
  const size_t entry_count = compilation.module.entries.size();
  for (size_t i = 0; i < compilation.programs.size(); ++i) {
    const PlanEntry entry{&compilation.programs[i], &compilation.schedules[i]};
    if (i < entry_count) {
      content.entries.push_back(entry);
    } else if (!entry.program->steps.empty()) {
      content.init = entry;
    }
  }
  content.kernels = &compilation.kernels;
  content.codes = compilation.codes.codes;
  content.producer = kProducer;
  content.precision = kPrecisionNames.at(static_cast<size_t>(options.precision));
  content.debug_section = options.debug_section;
  content.pass_log = compilation.pass_log;
}

bool compile(Compilation& compilation, const CompileOptions& options, Diagnostics& diagnostics) {
  PhaseTimer timer(options);
  if (!check_targets(options, diagnostics)) return false;
  if (!select_entries(compilation.module, options, diagnostics)) return false;
  if (!transform(compilation, options, diagnostics)) return false;
  timer.end("passes");
  if (!lower(compilation, diagnostics)) return false;
  timer.end("lower and schedule");
  if (!generate(compilation, options, diagnostics)) return false;
  timer.end("kernel code");
  assemble(compilation, options);
  return true;
}

void summarise(const Compilation& compilation, CompileSummary& summary) {
  for (const PlanEntry& entry : compilation.content.entries) {
    summary.steps += entry.program->steps.size();
    summary.arena_bytes = std::max(summary.arena_bytes, entry.schedule->arena_bytes);
    summary.arena_lower_bound_bytes =
        std::max(summary.arena_lower_bound_bytes, entry.schedule->lower_bound_bytes);
  }
  summary.kernels = compilation.kernels.kernels.size();
}

}  // namespace

std::optional<std::vector<std::byte>> compile_to_bytes(Module module, const CompileOptions& options,
                                                       Diagnostics& diagnostics,
                                                       CompileSummary* summary) {
  Compilation compilation;
  compilation.module = std::move(module);
  if (!compile(compilation, options, diagnostics)) return std::nullopt;
  std::vector<std::byte> bytes = plan_bytes(compilation.content);
  if (summary != nullptr) {
    summarise(compilation, *summary);
    summary->plan_bytes = bytes.size();
  }
  return bytes;
}

bool compile_to_file(Module module, const CompileOptions& options, const std::string& path,
                     Diagnostics& diagnostics, CompileSummary* summary) {
  Compilation compilation;
  compilation.module = std::move(module);
  if (!compile(compilation, options, diagnostics)) return false;
  PhaseTimer timer(options);
  const auto written = write_plan(compilation.content, path, diagnostics);
  timer.end("write plan");
  if (written && summary != nullptr) {
    summarise(compilation, *summary);
    summary->plan_bytes = written->plan_bytes;
    summary->weights_bytes = written->weights_bytes;
  }
  return written.has_value();
}

}  // namespace rlx
