// SPDX-License-Identifier: Apache-2.0
// `rlxc MODEL -o PLAN`.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "compiler/compile.h"
#include "compiler/emit/cuda_architecture.h"
#include "compiler/import/import.h"
#include "compiler/import/keep.h"
#include "compiler/import/model_files.h"
#include "compiler/lower/offer_names.h"
#include "compiler/passes/pass.h"
#include "tools/rlxc/check_text.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/device_models.h"
#include "tools/rlxc/report.h"
#include "tools/rlxc/training.h"

namespace rlx {
namespace {

constexpr std::array kPrecisions = {
    std::pair("f32", Precision::F32), std::pair("tf32", Precision::Tf32),
    std::pair("f16", Precision::F16), std::pair("bf16", Precision::Bf16),
    std::pair("mixed", Precision::Mixed)};

struct CompileArguments {
  std::string model;
  std::string plan;
  std::vector<std::string> targets = {"vulkan"};
  std::vector<std::string> architectures;  // names; none: the default ones
  std::vector<std::string> device_models;
  std::string nvrtc;
  std::vector<std::string> entries;
  ImportArguments import;
  KeptValues kept;
  TrainingArguments training;
  int optimisation = 2;
  std::optional<Precision> precision;  // none: what the model's kind wants
  uint32_t jobs = 0;
  std::string cache;
  bool no_cache = false;
  std::string kernels;
  std::vector<std::string> disabled_passes;
  std::vector<std::string> without;
  std::string dump_after;
  bool time_passes = false;
  bool no_debug = false;
  bool external_weights = false;
  bool json = false;
  bool quiet = false;
};

// $XDG_CACHE_HOME/rlx or ~/.cache/rlx; empty where neither is known.
std::string default_cache_folder() {
  const char* cache_home = std::getenv("XDG_CACHE_HOME");
  if (cache_home != nullptr && *cache_home == '/') return std::string(cache_home) + "/rlx";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/rlx";
  return {};
}

// One line on the terminal that is overwritten by the next phase.
class Progress {
 public:
  explicit Progress(bool enabled) : enabled_(enabled) {}
  ~Progress() { show(""); }
  void show(const std::string& text) const {
    if (!enabled_) return;
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    std::fflush(stderr);
  }

 private:
  bool enabled_;
};

std::string architecture_names(bool only_default) {
  std::string names;
  for (const CudaArchitecture& architecture : all_cuda_architectures()) {
    if (only_default && !architecture.by_default) continue;
    names += (names.empty() ? "" : ",") + std::string(architecture.name);
  }
  return names;
}

// What is wrong with --arch; nothing where all is well.
std::optional<std::string> find_architecture_misuse(const CompileArguments& arguments) {
  if (arguments.architectures.empty()) return std::nullopt;
  const std::vector<std::string>& targets = arguments.targets;
  if (std::find(targets.begin(), targets.end(), "cuda") == targets.end())
    return "--arch names architectures for --target cuda, which is not asked for";
  for (const std::string& name : arguments.architectures) {
    if (find_cuda_architecture(name) == nullptr) {
      return "there is no architecture \"" + name + "\"; architectures are " +
             architecture_names(false);
    }
  }
  return std::nullopt;
}

// Compute capabilities, each once, ascending.
std::vector<uint32_t> architecture_numbers(const std::vector<std::string>& names) {
  std::vector<uint32_t> numbers;
  for (const CudaArchitecture& architecture : all_cuda_architectures()) {
    if (std::find(names.begin(), names.end(), architecture.name) != names.end())
      numbers.push_back(architecture.number);
  }
  return numbers;
}

// A name that no table of kernels has would be left out in vain.
std::optional<std::string> find_offer_misuse(const std::vector<std::string>& names) {
  const std::vector<std::string> known = all_offer_names();
  for (const std::string& name : names) {
    if (std::binary_search(known.begin(), known.end(), name)) continue;
    std::string list;
    for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
    return "--without \"" + name + "\": no kernel of that name is chosen among others; these are " +
           list;
  }
  return std::nullopt;
}

std::optional<std::string> find_misuse(const CompileArguments& arguments) {
  if (arguments.model.empty()) return "MODEL is missing; see rlxc --help";
  if (arguments.plan.empty()) return "-o PLAN is missing; see rlxc --help";
  if (arguments.no_cache && !arguments.cache.empty())
    return "--cache and --no-cache exclude each other";
  if (auto misuse = find_architecture_misuse(arguments)) return misuse;
  const auto check_pass = [](const std::string& name) -> std::optional<std::string> {
    std::string names;
    for (const Pass& pass : all_passes()) {
      if (pass.name == name) return std::nullopt;
      names += (names.empty() ? "" : ", ") + std::string(pass.name);
    }
    return "there is no pass \"" + name + "\"; passes are " + names;
  };
  if (!arguments.dump_after.empty()) {
    if (auto misuse = check_pass(arguments.dump_after)) return misuse;
  }
  for (const std::string& name : arguments.disabled_passes) {
    if (auto misuse = check_pass(name)) return misuse;
  }
  return find_offer_misuse(arguments.without);
}

struct PhaseTime {
  std::string name;
  double seconds = 0;
};

// Whether the file is a language model's, by its first bytes; what cannot be read is refused later.
bool is_gguf(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  std::array<char, 4> begin = {};
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), begin.size());
  return detect_format(std::as_bytes(std::span(begin))) == GraphFormat::Gguf;
}

// Weights of a language model have so few bits that f16 beside them changes no token.
Precision precision_of(const CompileArguments& arguments) {
  const Precision usual = is_gguf(arguments.model) ? Precision::Mixed : Precision::F32;
  return arguments.precision.value_or(usual);
}

CompileOptions make_options(const CompileArguments& arguments, const Progress& progress,
                            std::vector<PhaseTime>& times) {
  CompileOptions options;
  options.targets = arguments.targets;
  options.architectures = architecture_numbers(arguments.architectures);
  options.nvrtc = arguments.nvrtc;
  options.optimisation = arguments.optimisation;
  options.precision = precision_of(arguments);
  options.jobs = arguments.jobs;
  if (!arguments.no_cache) {
    options.cache_dir = arguments.cache.empty() ? default_cache_folder() : arguments.cache;
    options.trust_cache = !arguments.cache.empty();
  }
  options.kernels_dir = arguments.kernels;
  options.disabled_passes = arguments.disabled_passes;
  options.without = arguments.without;
  options.debug_section = !arguments.no_debug;
  options.external_weights = arguments.external_weights;
  options.dump_after = arguments.dump_after;
  options.dump = [](const std::string& text) { std::fputs(text.c_str(), stdout); };
  options.timing = [&](const std::string& phase, double seconds) {
    progress.show(phase);
    times.push_back({.name = phase, .seconds = seconds});
  };
  return options;
}

// A plan looks for the model's files in its own folder.
void tell_of_files(const CompileArguments& arguments) {
  const std::string model = folder_of(model_file(arguments.model));
  const std::string plan = folder_of(arguments.plan);
  std::error_code failed;
  if (!arguments.external_weights || std::filesystem::equivalent(model, plan, failed)) return;
  std::fprintf(stderr,
               "rlxc: note: the plan's weights stay in files of \"%s\": rlxrun finds them with "
               "--weights-folder, or in the plan's folder\n",
               model.c_str());
}

void print_summary(const CompileArguments& arguments, const CompileSummary& summary,
                   double seconds) {
  if (arguments.json) {
    const nlohmann::ordered_json json = {
        {"plan", arguments.plan},
        {"steps", summary.steps},
        {"kernels", summary.kernels},
        {"arena_bytes", summary.arena_bytes},
        {"arena_lower_bound_bytes", summary.arena_lower_bound_bytes},
        {"weights_bytes", summary.weights_bytes},
        {"plan_bytes", summary.plan_bytes},
        {"seconds", seconds}};
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  if (arguments.quiet) return;
  const double ratio = summary.arena_lower_bound_bytes == 0
                           ? 1.0
                           : static_cast<double>(summary.arena_bytes) /
                                 static_cast<double>(summary.arena_lower_bound_bytes);
  std::printf(
      "%s: %zu steps, %zu kernels, arena %s (%.3f of its bound), weights %s, plan %s, %.2f s\n",
      arguments.plan.c_str(), summary.steps, summary.kernels,
      size_text(summary.arena_bytes).c_str(), ratio, size_text(summary.weights_bytes).c_str(),
      size_text(summary.plan_bytes).c_str(), seconds);
}

void print_times(const std::vector<PhaseTime>& times) {
  for (const PhaseTime& time : times) {
    std::fprintf(stderr, "%10.3f ms  %s\n", time.seconds * 1e3, time.name.c_str());
  }
}

// An embedded kernel that does not compile is no fault of the model's.
bool is_own_mistake(const CompileArguments& arguments, const Diagnostics& diagnostics) {
  const std::vector<Diagnostic>& all = diagnostics.all();
  return arguments.kernels.empty() &&
         std::any_of(all.begin(), all.end(), [](const Diagnostic& diagnostic) {
           return diagnostic.code == DiagCode::Kernel && diagnostic.severity == Severity::Error;
         });
}

// Of a language model's caches.
DType cache_type(Precision precision) {
  if (precision == Precision::Bf16) return DType::bf16;
  const bool is_low = precision == Precision::F16 || precision == Precision::Mixed;
  return is_low ? DType::f16 : DType::f32;
}

int compile(const CompileArguments& arguments) {
  if (const auto misuse = find_misuse(arguments)) return usage_error(*misuse);
  TrainingArguments training = arguments.training;
  if (const auto misuse = find_training_misuse(training)) return usage_error(*misuse);
  auto import = parse_import_options(arguments.import);
  const auto entries = parse_entries(arguments.entries);
  if (!import || !entries) return kExitUsage;
  import->language.cache = cache_type(precision_of(arguments));
  int exit_code = kExitOk;
  const auto models = parse_device_models(arguments.device_models, arguments.targets, exit_code);
  if (!models) return exit_code;
  Diagnostics diagnostics;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds_since = [](std::chrono::steady_clock::time_point from) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  std::vector<PhaseTime> times;
  CompileSummary summary;
  bool good = false;
  {
    const Progress progress(!arguments.quiet && isatty(STDERR_FILENO) != 0);
    progress.show("import");
    std::optional<Module> module = load_entries(arguments.model, *import, *entries, diagnostics);
    times.push_back({.name = "import", .seconds = seconds_since(start)});
    if (module) check_text(module->text, {arguments.model, ""}, diagnostics);
    if (module && !diagnostics.has_errors() && keep_values(*module, arguments.kept, diagnostics) &&
        apply_training(*module, training, diagnostics)) {
      CompileOptions options = make_options(arguments, progress, times);
      options.device_models = *models;
      good = compile_to_file(std::move(*module), options, arguments.plan, diagnostics, &summary);
    }
  }
  const int code = report(diagnostics);
  if (!good)
    return is_own_mistake(arguments, diagnostics) || code == kExitOk ? kExitInternal : code;
  if (arguments.time_passes) print_times(times);
  print_summary(arguments, summary, seconds_since(start));
  if (!arguments.quiet) tell_of_files(arguments);
  return kExitOk;
}

}  // namespace

void add_compile_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<CompileArguments>();
  app.add_option("MODEL", arguments->model,
                 "Graph file: .json, .rlxg, .onnx or .gguf; or a checkpoint's folder");
  app.add_option("-o,--output", arguments->plan, "Plan file to write");
  app.add_option(
         "--target", arguments->targets,
         "Devices to compile for: vulkan, or vulkan-nvidia (cooperative matrices), and cuda; "
         "for two, as vulkan,cuda")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--arch", arguments->architectures,
                 "CUDA architectures, as sm_80,sm_90a (default: " + architecture_names(true) + ")")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_device_model_option(app, arguments->device_models);
  app.add_option("--nvrtc", arguments->nvrtc,
                 "NVRTC's library or the folder that holds it (default: the loader's path, then "
                 "/usr/local/cuda/lib64)");
  app.add_option(
         "--entry", arguments->entries,
         "Entry to compile (default: all), with symbolic dimensions of its own as "
         "short:batch=1,seq=32, or under another name as short=main:seq=32; may be repeated: "
         "the entries of a plan share its weights and states")
      ->allow_extra_args(false);
  add_import_options(app, arguments->import);
  add_keep_options(app, arguments->kept);
  add_training_options(app, arguments->training);
  app.add_flag(
      "--auto-promote", arguments->import.auto_promote,
      "Cast operands of elementwise ops to a common type, as \"auto_promote\" in the file does");
  app.add_option("-O", arguments->optimisation, "0: as written, 1: clean-ups, 2: everything")
      ->check(CLI::Range(0, 2))
      ->capture_default_str();
  app.add_option(
         "--precision", arguments->precision,
         "Type of f32 tensors between inputs and outputs; tf32: f32 whose products round their "
         "operands to tf32; mixed: f32 but for what products multiply with weights of fewer bits, "
         "and for a language model's caches (f16)")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Precision>(kPrecisions.begin(), kPrecisions.end()),
          CLI::ignore_case))
      ->default_str("f32, of a language model mixed");
  app.add_option("-j,--jobs", arguments->jobs, "Threads; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--cache", arguments->cache,
                 "Folder of compiled kernels (default: $XDG_CACHE_HOME/rlx or ~/.cache/rlx, unless "
                 "others may write to it); who writes to it decides what plans run");
  app.add_flag("--no-cache", arguments->no_cache, "Compile every kernel anew");
  app.add_option("--kernels", arguments->kernels,
                 "Folder with shaders/ or cuda_kernels/ that replace the embedded ones");
  app.add_option("--disable-pass", arguments->disabled_passes, "Pass to leave out; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--without", arguments->without,
                 "Kernels that are not to be taken where another one fits, as inspect --why names "
                 "them, with commas between; \"library\" for the vendor's")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--dump-after", arguments->dump_after, "Print the module after this pass");
  app.add_flag("--time-passes", arguments->time_passes, "Print the time of each phase to stderr");
  app.add_flag("--no-debug", arguments->no_debug,
               "Leave out node names, reasons and choices of kernels");
  app.add_flag("--external-weights", arguments->external_weights,
               "Leave weights in the model's files where the plan can use their bytes as they are; "
               "the plan finds them in its own folder, or where --weights-folder says");
  app.add_flag("--json", arguments->json, "Print the summary as JSON");
  app.add_flag("-q,--quiet", arguments->quiet, "Print nothing but errors");
  action = [arguments] { return compile(*arguments); };
}

}  // namespace rlx
