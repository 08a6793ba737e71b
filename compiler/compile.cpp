// SPDX-License-Identifier: Apache-2.0
// The whole compilation in the order of architecture.md section 1.
#include "compiler/compile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>

#include "compiler/emit/compile_kernels.h"
#include "compiler/emit/cuda_architecture.h"
#include "compiler/emit/plan_writer.h"
#include "compiler/emit/specialized_source.h"
#include "compiler/ir/merge_weights.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/schedule.h"
#include "compiler/lower/share_kernels.h"
#include "compiler/lower/share_scratch.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/recompute.h"
#include "compiler/support/check.h"
#include "compiler/version.h"
#include "schema/plan_header.h"

namespace rlx {
namespace {

constexpr std::array kPrecisionNames = {"f32", "f16", "bf16", "tf32", "mixed"};

// The model as one target runs it.
struct TargetBuild {
  std::unique_ptr<const Target> target;  // with the device model that was asked for
  Module module;
  std::vector<Program> programs;                 // of the entries, then init
  std::vector<std::vector<StepRegion>> regions;  // of the programs
  std::vector<Schedule> schedules;               // of the programs
  std::vector<double> schedule_seconds;          // what each took
};

// Everything between the module and the bytes of the plan; owns what PlanContent points to.
struct Compilation {
  Module module;  // at first the source, in the end the weights and states of all targets
  std::vector<std::string> pass_log;
  std::vector<TargetBuild> builds;
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

std::string target_names() {
  std::string names;
  for (const Target& target : all_targets()) {
    names += (names.empty() ? "" : ", ") + std::string(target.name);
  }
  return names;
}

bool check_targets(const CompileOptions& options, Diagnostics& diagnostics) {
  if (options.targets.empty()) {
    diagnostics.error(DiagCode::UnsupportedTarget, {}, "no target is named",
                      "targets are: " + target_names());
  }
  for (const std::string& target : options.targets) {
    if (find_target(target) != nullptr) continue;
    diagnostics.error(DiagCode::UnsupportedTarget, {}, "target \"" + target + "\" is unknown",
                      "targets are: " + target_names());
  }
  if (diagnostics.has_errors()) return false;
  return !diagnostics.has_errors();
}

// Fixes the outputs' names before passes replace values. A value listed twice is told apart as
// "name.2".
void name_outputs(Graph& graph) {
  std::map<std::string, size_t> uses;
  for (ValueId id : graph.outputs()) {
    const std::string& name = graph.value(id).name;
    const size_t use = ++uses[name];
    graph.output_names.push_back(use == 1 ? name : name + "." + std::to_string(use));
  }
}

PassOptions pass_options(const CompileOptions& options, const Target* target) {
  return {.target = target,
          .optimisation = options.optimisation,
          .precision = kPrecisionNames.at(static_cast<size_t>(options.precision)),
          .disabled = options.disabled_passes,
          .without = options.without,
          .prefer = options.prefer,
          .control = options.control,
          .dump_after = options.dump_after,
          .dump = options.dump,
          .timing = options.timing};
}

// Of a workgroup on the roomiest of the architectures that code is made for.
uint64_t most_shared_bytes(const std::vector<uint32_t>& architectures) {
  uint64_t most = 0;
  for (const CudaArchitecture& architecture : all_cuda_architectures()) {
    const bool is_listed = architectures.empty()
                               ? architecture.by_default
                               : std::ranges::count(architectures, architecture.number) > 0;
    if (is_listed) most = std::max(most, uint64_t{architecture.max_shared_bytes});
  }
  return most;
}

// The target with the model asked for; another one than its own is a line of the log, so that the
// plan says by which numbers it was chosen.
std::unique_ptr<const Target> with_model(const Target& known, const CompileOptions& options,
                                         std::vector<std::string>& log) {
  auto target = std::make_unique<Target>(known);
  for (const ModelForTarget& asked : options.device_models) {
    if (asked.target != known.name || asked.model == known.device) continue;
    target->device = asked.model;
    log.push_back("device model " + asked.name);
  }
  if (known.kind == TargetKind::Cuda) {
    uint64_t& room = target->device.resident.shared_bytes;
    room = std::min(room, most_shared_bytes(options.architectures));
  }
  return target;
}

// The neutral passes once, then a copy of the module and the later passes for each target, in the
// order of all_targets().
bool transform(Compilation& compilation, const CompileOptions& options, Diagnostics& diagnostics) {
  for (Graph& graph : compilation.module.entries) {
    if (graph.output_names.empty()) name_outputs(graph);
  }
  if (!run_passes(compilation.module, PassStage::Neutral, pass_options(options, nullptr),
                  diagnostics, compilation.pass_log)) {
    return false;
  }
  for (const Target& known : all_targets()) {
    if (std::ranges::find(options.targets, known.name) == options.targets.end()) continue;
    TargetBuild& build = compilation.builds.emplace_back();
    std::vector<std::string> log;
    build.target = with_model(known, options, log);
    for (const std::string& name : options.prefer) log.push_back("--prefer " + name);
    for (const TunedTarget& tuned : options.tuned) {
      if (tuned.target == known.name)
        log.push_back("forms tuned on " + tuned.device + ", driver " + tuned.driver);
    }
    build.module = compilation.module;
    if (!run_passes(build.module, PassStage::PerTarget, pass_options(options, build.target.get()),
                    diagnostics, log)) {
      return false;
    }
    for (const std::string& line : log) {
      compilation.pass_log.push_back(std::string(known.name) + ": " + line);
    }
  }
  return true;
}

void schedule_programs(TargetBuild& build, const CompileOptions& options) {
  for (size_t i = 0; i < build.programs.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    build.schedules.push_back(schedule(
        build.programs[i],
        {.in_place = options.in_place, .regions = build.regions[i], .serial = options.serial}));
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    build.schedule_seconds.push_back(elapsed.count());
  }
}

// What was measured for the target, or nullptr.
const TunedTarget* tuned_target(const CompileOptions& options, std::string_view target) {
  const auto tuned = std::ranges::find(options.tuned, target, &TunedTarget::target);
  return tuned == options.tuned.end() ? nullptr : &*tuned;
}

// With kernels that steps share, where the options say so; nullopt where anything was reported.
std::optional<Program> lower_entry(const TargetBuild& build, const Graph& graph,
                                   const CompileOptions& options, LowerOptions lowering,
                                   Diagnostics& diagnostics, std::vector<StepRegion>& regions) {
  auto program = lower_entry(build.module, graph, lowering, diagnostics, &regions);
  if (!program) return program;
  if (options.share_kernels) {
    lowering.offers_words = true;
    std::vector<StepRegion> same_regions;
    Diagnostics told_already;
    const auto worded = lower_entry(build.module, graph, lowering, told_already, &same_regions);
    if (worded) share_kernels(*program, *worded);
  }
  share_scratch(*program);
  return program;
}

bool lower(TargetBuild& build, const CompileOptions& options, Diagnostics& diagnostics) {
  const TunedTarget* tuned = tuned_target(options, build.target->name);
  const LowerOptions lowering{.target = build.target.get(),
                              .products = options.precision == Precision::Tf32
                                              ? ProductPrecision::Tf32
                                              : ProductPrecision::F32,
                              .without = &options.without,
                              .prefer = &options.prefer,
                              .tuned = tuned == nullptr ? nullptr : &tuned->forms};
  for (const Graph& graph : build.module.entries) {
    std::vector<StepRegion>& regions = build.regions.emplace_back();
    auto program = lower_entry(build, graph, options, lowering, diagnostics, regions);
    if (program) build.programs.push_back(std::move(*program));
  }
  if (diagnostics.has_errors()) return false;
  auto init = lower_init(build.module, build.programs, lowering, diagnostics);
  if (!init) return false;
  build.programs.push_back(std::move(*init));
  build.regions.emplace_back();
  schedule_programs(build, options);
  return true;
}

// Gives the programs of all targets one table of weights.
void join_weights(Compilation& compilation) {
  compilation.module = compilation.builds.front().module;
  for (size_t i = 1; i < compilation.builds.size(); ++i) {
    TargetBuild& build = compilation.builds[i];
    const std::vector<WeightId> ids =
        merge_weights(compilation.module, build.module, "@" + std::string(build.target->name));
    for (Program& program : build.programs) {
      for (Buffer& buffer : program.buffers) {
        if (buffer.weight) buffer.weight = ids.at(index_of(*buffer.weight));
      }
    }
  }
}

uint64_t largest_arena(const TargetBuild& build) {
  uint64_t bytes = 0;
  for (const Schedule& schedule : build.schedules) bytes = std::max(bytes, schedule.arena_bytes);
  return bytes;
}

// Takes the form that computes cheap results again where its arena is smaller.
bool lower_into_less(TargetBuild& build, const CompileOptions& options, Diagnostics& diagnostics,
                     std::vector<std::string>& log) {
  TargetBuild other{.target = std::make_unique<Target>(*build.target), .module = build.module};
  if (!lower(build, options, diagnostics)) return false;
  const size_t repeated = recompute(other.module);
  const std::optional<std::string> fault = find_fault(other.module);
  RLX_CHECK(!fault, "recompute: " + fault.value_or(""));
  if (repeated == 0) return true;
  if (!lower(other, options, diagnostics)) return false;
  const uint64_t kept = largest_arena(build);
  const uint64_t less = largest_arena(other);
  const bool pays = less < kept;
  log.push_back(std::string(build.target->name) + ": recompute: " + std::to_string(repeated) +
                " nodes again, arena " + std::to_string(less) + " bytes instead of " +
                std::to_string(kept) + (pays ? "" : ": not taken"));
  if (pays) build = std::move(other);
  return true;
}

bool lower(Compilation& compilation, const CompileOptions& options, Diagnostics& diagnostics) {
  for (TargetBuild& build : compilation.builds) {
    const bool good = options.recompute
                          ? lower_into_less(build, options, diagnostics, compilation.pass_log)
                          : lower(build, options, diagnostics);
    if (!good) return false;
  }
  join_weights(compilation);
  return true;
}

// The records of the plan: per target its entries, then per target init where it has steps.
void list_entries(Compilation& compilation, const CompileOptions& options) {
  PlanContent& content = compilation.content;
  for (const TargetBuild& build : compilation.builds) {
    const TunedTarget* tuned = tuned_target(options, build.target->name);
    for (size_t i = 0; i < build.programs.size(); ++i) {
      PlanEntry entry{&build.programs[i], &build.schedules[i], build.target.get()};
      if (tuned != nullptr && i + 1 < build.programs.size()) {
        entry.tuned_device = tuned->device;
        entry.tuned_driver = tuned->driver;
      }
      if (i + 1 < build.programs.size()) {
        content.entries.push_back(entry);
      } else if (!entry.program->steps.empty()) {
        content.inits.push_back(entry);
      }
    }
  }
}

bool generate(Compilation& compilation, const CompileOptions& options, Diagnostics& diagnostics) {
  std::vector<TargetProgram> programs;
  for (const PlanEntry& entry : compilation.content.all_entries())
    programs.push_back({entry.program, entry.target});
  compilation.kernels = gather_kernels(programs);
  CompileKernelsOptions code{.jobs = options.jobs, .architectures = options.architectures};
  if (!options.cache_dir.empty()) code.cache_folder = options.cache_dir;
  if (options.trust_cache) code.cache_trust = CacheTrust::Anyone;
  if (!options.kernels_dir.empty()) code.kernels_folder = options.kernels_dir;
  if (!options.nvrtc.empty()) code.nvrtc = options.nvrtc;
  auto compiled = compile_kernels(compilation.kernels, code, diagnostics);
  if (!compiled) return false;
  compilation.codes = std::move(*compiled);
  return true;
}

void assemble(Compilation& compilation, const CompileOptions& options) {
  PlanContent& content = compilation.content;
  content.module = &compilation.module;
  content.kernels = &compilation.kernels;
  content.compiled = &compilation.codes;
  content.producer = kProducer;
  content.precision = kPrecisionNames.at(static_cast<size_t>(options.precision));
  content.debug_section = options.debug_section;
  content.external_weights = options.external_weights;
  content.pass_log = compilation.pass_log;
}

// From the module to scheduled programs.
bool plan(Compilation& compilation, const CompileOptions& options, PhaseTimer& timer,
          Diagnostics& diagnostics) {
  if (!check_targets(options, diagnostics)) return false;
  if (!transform(compilation, options, diagnostics)) return false;
  timer.end("passes");
  if (!lower(compilation, options, diagnostics)) return false;
  timer.end("lower and schedule");
  return true;
}

bool compile(Compilation& compilation, const CompileOptions& options, Diagnostics& diagnostics) {
  PhaseTimer timer(options);
  if (!plan(compilation, options, timer, diagnostics)) return false;
  list_entries(compilation, options);
  if (!generate(compilation, options, diagnostics)) return false;
  timer.end("kernel code");
  assemble(compilation, options);
  return true;
}

std::string kernel_text(const Program& program, const Step& step) {
  if (step.kind == StepKind::LibraryGemm) return "library";
  if (step.kind == StepKind::Copy) return "copy";
  if (step.kind == StepKind::Fill) return "fill";
  return std::string(kernel_row(program.kernels.at(index_of(step.kernel.value())).kernel).name);
}

std::string specialization_text(const Program& program, const Step& step) {
  return step.kernel ? describe(program.kernels.at(index_of(*step.kernel))) : "";
}

StepEstimate estimate_of(const Program& program, const Step& step) {
  StepEstimate estimate{.entry = program.entry,
                        .kernel = kernel_text(program, step),
                        .specialization = specialization_text(program, step),
                        .node = step.node,
                        .flops = static_cast<uint64_t>(step.flops.bound()),
                        .bytes = static_cast<uint64_t>(step.bytes_moved.bound()),
                        .microseconds = step.estimate};
  if (!estimate.microseconds) {
    estimate.microseconds = [bytes = estimate.bytes](const DeviceModel& device) {
      return static_cast<double>(bytes) / device.memory_gigabytes_per_second * 1e-3 +
             device.step_microseconds;
    };
  }
  return estimate;
}

void summarise(const Compilation& compilation, CompileSummary& summary) {
  for (const PlanEntry& entry : compilation.content.entries) {
    summary.steps += entry.program->steps.size();
    summary.arena_bytes = std::max(summary.arena_bytes, entry.schedule->arena_bytes);
    summary.arena_lower_bound_bytes =
        std::max(summary.arena_lower_bound_bytes, entry.schedule->lower_bound_bytes);
    const Program& program = *entry.program;
    for (const Step& step : program.steps)
      if (step.runs_at_bound()) summary.estimates.push_back(estimate_of(program, step));
    summary.form_choices.insert(summary.form_choices.end(), program.form_choices.begin(),
                                program.form_choices.end());
  }
  summary.kernels = compilation.kernels.kernels.size();
}

ArenaSummary summarise_arena(const TargetBuild& build, size_t index) {
  const Program& program = build.programs[index];
  const Schedule& schedule = build.schedules[index];
  return {.target = std::string(build.target->name),
          .entry = program.entry,
          .steps = program.steps.size(),
          .waves = schedule.wave_count,
          .arena_bytes = schedule.arena_bytes,
          .lower_bound_bytes = schedule.lower_bound_bytes,
          .unplanned_bytes = schedule.unplanned_bytes,
          .packer = schedule.packer,
          .wave_choice = schedule.wave_choice,
          .seconds = build.schedule_seconds[index]};
}

}  // namespace

std::optional<std::vector<ArenaSummary>> plan_arenas(Module module, const CompileOptions& options,
                                                     Diagnostics& diagnostics) {
  Compilation compilation;
  compilation.module = std::move(module);
  PhaseTimer timer(options);
  if (!plan(compilation, options, timer, diagnostics)) return std::nullopt;
  std::vector<ArenaSummary> summaries;
  for (const TargetBuild& build : compilation.builds) {
    for (size_t i = 0; i + 1 < build.programs.size(); ++i) {  // the last one is init
      summaries.push_back(summarise_arena(build, i));
    }
  }
  return summaries;
}

std::optional<std::vector<StepEstimate>> estimate_steps(Module module,
                                                        const CompileOptions& options,
                                                        Diagnostics& diagnostics) {
  RLX_CHECK(options.targets.size() == 1, "estimates are of one target");
  Compilation compilation;
  compilation.module = std::move(module);
  PhaseTimer timer(options);
  if (!plan(compilation, options, timer, diagnostics)) return std::nullopt;
  std::vector<StepEstimate> estimates;
  const std::vector<Program>& programs = compilation.builds.front().programs;
  for (size_t i = 0; i + 1 < programs.size(); ++i) {  // the last one is init
    for (const Step& step : programs[i].steps)
      if (step.runs_at_bound()) estimates.push_back(estimate_of(programs[i], step));
  }
  return estimates;
}

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
    PlanHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    summary->weights_bytes = header.weights_bytes;
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
