// SPDX-License-Identifier: Apache-2.0
// `rlxc MODEL -o PLAN`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/compile.h"
#include "compiler/import/model_files.h"
#include "tools/describe/choice.h"
#include "tools/embed/embed.h"
#include "tools/program/cache_folder.h"
#include "tools/program/terminal.h"
#include "tools/request/request.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/device_models.h"
#include "tools/rlxc/report.h"
#include "tools/rlxc/training.h"
#include "tools/tune_forms/form_file.h"
#include "tools/tune_forms/tune_forms.h"

namespace rlx {
namespace {

struct CompileArguments {
  std::string model;
  std::string plan;
  std::vector<std::string> targets = {"vulkan"};
  std::vector<std::string> architectures;  // names; none: the default ones
  std::vector<std::string> device_models;
  std::string nvrtc;
  std::vector<std::string> entries;
  ImportArguments import;
  std::string tokenizer;
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
  std::vector<std::string> prefer;
  std::string tune;   // "locked", "measured" or a device; empty: no
  std::string tuned;  // file; empty: beside the plan
  std::string dump_after;
  bool time_passes = false;
  bool no_debug = false;
  bool external_weights = false;
  std::string embed;
  bool serial = false;
  bool recompute = false;
  bool kernel_per_shape = false;
  ControlFlow control = CompileOptions().control;
  bool json = false;
  bool quiet = false;
};

constexpr const char* kTuneOnAny = "measured";

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

std::optional<std::string> find_misuse(const CompileArguments& arguments,
                                       const CompileRequest& request) {
  if (arguments.model.empty()) return "MODEL is missing; see rlxc --help";
  if (arguments.plan.empty()) return "-o PLAN is missing; see rlxc --help";
  if (is_same_file(arguments.plan, arguments.model) ||
      is_same_file(arguments.plan, model_file(arguments.model)))
    return "-o \"" + arguments.plan + "\" is the model itself, which the plan would replace";
  if (arguments.no_cache && !arguments.cache.empty())
    return "--cache and --no-cache exclude each other";
  std::error_code failed;
  if (std::filesystem::exists(arguments.cache, failed) &&
      !std::filesystem::is_directory(arguments.cache, failed))
    return "--cache \"" + arguments.cache + "\" is no folder";
  if (!arguments.embed.empty()) {
    if (auto misuse = find_embed_misuse(arguments.embed, arguments.plan)) return misuse;
    if (arguments.external_weights)
      return "--embed and --external-weights exclude each other: the program would look for the "
             "weights' files";
  }
  return find_misuse(request);
}

// The file of the model's weights that the plan would replace.
std::optional<std::string> find_replaced(const CompileArguments& arguments, const Module& module) {
  const auto folder = std::filesystem::path(model_file(arguments.model)).parent_path();
  for (const ModelFile& file : module.files) {
    if (is_same_file(arguments.plan, (folder / file.name).string()))
      return "-o \"" + arguments.plan +
             "\" holds weights of the model, which the plan would replace";
  }
  return std::nullopt;
}

struct PhaseTime {
  std::string name;
  double seconds = 0;
};

CompileOptions make_options(const CompileArguments& arguments, const Progress& progress,
                            std::vector<PhaseTime>& times) {
  CompileOptions options;
  options.targets = arguments.targets;
  options.nvrtc = arguments.nvrtc;
  options.optimisation = arguments.optimisation;
  options.jobs = arguments.jobs;
  if (!arguments.no_cache) {
    options.cache_dir = arguments.cache.empty() ? tool::default_cache_folder() : arguments.cache;
    options.trust_cache = !arguments.cache.empty();
  }
  options.kernels_dir = arguments.kernels;
  options.disabled_passes = arguments.disabled_passes;
  options.without = arguments.without;
  options.prefer = arguments.prefer;
  options.debug_section = !arguments.no_debug;
  options.external_weights = arguments.external_weights;
  options.serial = arguments.serial;
  options.recompute = arguments.recompute;
  options.share_kernels = !arguments.kernel_per_shape;
  options.control = arguments.control;
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
        {"schema_version", tool::kJsonSchemaVersion},
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

// To the plan's file, or into source or an object file.
bool write_plan(Module module, const CompileArguments& arguments, const CompileOptions& options,
                Diagnostics& diagnostics, CompileSummary& summary) {
  if (arguments.embed.empty())
    return compile_to_file(std::move(module), options, arguments.plan, diagnostics, &summary);
  const auto plan = compile_to_bytes(std::move(module), options, diagnostics, &summary);
  if (!plan) return false;
  const Status status = write_embedded(*plan, arguments.embed, arguments.plan);
  if (!status.ok()) diagnostics.error(DiagCode::FileWrite, {arguments.plan, ""}, status.message());
  return status.ok();
}

std::string form_file(const CompileArguments& arguments) {
  return arguments.tuned.empty() ? arguments.plan + ".tuned.json" : arguments.tuned;
}

// The forms of a file. It is refused where it is for none of the plan's targets.
int take_tuned_forms(const CompileArguments& arguments, CompileOptions& options) {
  Diagnostics diagnostics;
  auto tuned = tune::read_form_file(form_file(arguments), diagnostics);
  if (!tuned) return report(diagnostics);
  if (std::ranges::find(options.targets, tuned->target) == options.targets.end())
    return usage_error("the forms of " + form_file(arguments) + " are for target " + tuned->target +
                       ", which is none of the plan's");
  options.tuned = {std::move(*tuned)};
  return kExitOk;
}

// Times forms on the device, and leaves the winners in the options and the file.
int measure_forms(const CompileArguments& arguments, const Module& module, const Progress& progress,
                  CompileOptions& options) {
  tune::FormTuneOptions tuning;
  tuning.progress = [&](const std::string& line) { progress.show("tuning: " + line); };
  const bool is_named = arguments.tune != kTuneOnAny;
  const bool is_cuda = std::ranges::count(options.targets, "cuda") > 0;
  const std::string device = is_named ? arguments.tune : is_cuda ? "cuda" : "vulkan";
  Diagnostics diagnostics;
  tune::FormTuneReport tuned;
  const Status status = tune::tune_forms(module, options, device, tuning, diagnostics, tuned);
  progress.show("");
  if (diagnostics.has_errors()) return report(diagnostics);
  if (!status.ok()) {
    tool::say_error("rlxc", status.message());
    return static_cast<int>(tool::exit_code_for(status.code()));
  }
  options.tuned = {{.target = tuned.target,
                    .device = tuned.device,
                    .driver = tuned.driver,
                    .forms = tuned.winners()}};
  if (!arguments.quiet) std::fputs(tune::report_text(tuned).c_str(), stdout);
  return report_written(tune::write_form_file(form_file(arguments), tuned));
}

int tune(const CompileArguments& arguments, const Module& module, const Progress& progress,
         CompileOptions& options) {
  if (arguments.tune.empty()) return kExitOk;
  if (arguments.tune == "locked") return take_tuned_forms(arguments, options);
  return measure_forms(arguments, module, progress, options);
}

int compile(const CompileArguments& arguments) {
  Progress progress(!arguments.quiet && tool::is_on_terminal());
  std::vector<PhaseTime> times;
  CompileRequest request{.model = arguments.model,
                         .tokenizer = arguments.tokenizer,
                         .kept = arguments.kept,
                         .precision = arguments.precision,
                         .architectures = arguments.architectures,
                         .options = make_options(arguments, progress, times)};
  if (const auto misuse = find_misuse(arguments, request)) return usage_error(*misuse);
  TrainingArguments training = arguments.training;
  if (const auto misuse = find_training_misuse(training)) return usage_error(*misuse);
  auto import = parse_import_options(arguments.import);
  auto entries = parse_entries(arguments.entries);
  if (!import || !entries) return kExitUsage;
  request.import = std::move(*import);
  request.entries = std::move(*entries);
  int exit_code = kExitOk;
  const auto models = parse_device_models(arguments.device_models, arguments.targets, exit_code);
  if (!models) return exit_code;
  request.options.device_models = *models;
  Diagnostics diagnostics;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds_since = [](std::chrono::steady_clock::time_point from) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  };
  CompileSummary summary;
  progress.show("import");
  std::optional<Module> module;
  if (load_extensions(arguments.import, diagnostics)) module = load_request(request, diagnostics);
  times.insert(times.begin(), {.name = "import", .seconds = seconds_since(start)});
  if (module) {
    if (const auto misuse = find_replaced(arguments, *module)) return usage_error(*misuse);
  }
  bool good = module && apply_training(*module, training, diagnostics);
  if (good) {
    const int tuned = tune(arguments, *module, progress, request.options);
    if (tuned != kExitOk) return tuned;
  }
  good = good && write_plan(std::move(*module), arguments, request.options, diagnostics, summary);
  progress.show("");
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
  app.add_option("--target", arguments->targets,
                 "Devices to compile for: vulkan, or with cooperative matrices vulkan-khr-coop or "
                 "vulkan-nvidia, and cuda; for two, as vulkan,cuda")
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
  app.add_option("--tokenizer", arguments->tokenizer,
                 "A tokenizer.json or vocab.txt, the folder of one, or a GGUF file, whose "
                 "tokenizer the plan is to carry in "
                 "place of the model's own: for networks that read text, as sentence embeddings");
  add_keep_options(app, arguments->kept);
  add_training_options(app, arguments->training);
  app.add_flag(
      "--auto-promote", arguments->import.auto_promote,
      "Cast operands of elementwise ops to a common type, as \"auto_promote\" in the file does");
  app.add_option("-O", arguments->optimisation, "0: as written, 1: clean-ups, 2: everything")
      ->check(CLI::Range(0, 2))
      ->capture_default_str();
  const tool::Choices<Precision> precisions = {{"f32", Precision::F32},
                                               {"tf32", Precision::Tf32},
                                               {"f16", Precision::F16},
                                               {"bf16", Precision::Bf16},
                                               {"mixed", Precision::Mixed}};
  tool::add_choice(
      app, "--precision", arguments->precision, precisions,
      "Type of f32 tensors between inputs and outputs; f32, of a language model mixed, unless "
      "given. tf32: f32 whose products round their operands to tf32; mixed: f32 but for what "
      "products multiply with weights of fewer bits, and for a language model's caches (f16)");
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
  app.add_option("--without,--forbid", arguments->without,
                 "Kernels that are not to be taken where another one fits, as inspect --why names "
                 "them, with commas between; \"library\" for the vendor's")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--prefer", arguments->prefer,
                 "Kernels that are to be taken wherever they fit, even where another one is "
                 "expected to be faster; named as for --without")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--tune{measured}", arguments->tune,
               "Time on a device the kernels and tiles that are expected to be about as fast as "
               "the best, in place, and take the winners; --tune=vulkan:0: on this device; "
               "--tune=locked: take what was measured before, without a device");
  app.add_option("--tuned", arguments->tuned,
                 "File of what --tune measured (default: PLAN.tuned.json)")
      ->needs("--tune");
  app.add_option("--dump-after", arguments->dump_after, "Print the module after this pass");
  app.add_flag("--time-passes", arguments->time_passes, "Print the time of each phase to stderr");
  app.add_flag("--no-debug", arguments->no_debug,
               "Leave out node names, reasons and choices of kernels");
  app.add_flag("--external-weights", arguments->external_weights,
               "Leave weights in the model's files where the plan can use their bytes as they are; "
               "the plan finds them in its own folder, or where --weights-folder says");
  app.add_option(
         "--embed", arguments->embed,
         "Write the plan as a part of a program: -o FILE.c or FILE.o, with FILE.h beside it, "
         "whose NAME_open opens it")
      ->type_name("NAME");
  app.add_flag("--recompute", arguments->recompute,
               "Compute cheap results again where keeping them is what the arena's peak is made "
               "of, as in a training step: less memory for some more time, the same values");
  app.add_flag("--kernel-per-shape", arguments->kernel_per_shape,
               "A kernel for each shape, also where steps could run one to which sizes are "
               "parameters: compiles longer and may run a little faster");
  app.add_flag("--serial", arguments->serial,
               "A barrier behind each step, in the model's order: for looking for faults");
  const tool::Choices<ControlFlow> controls = {{"unrolled", ControlFlow::Unrolled},
                                               {"auto", ControlFlow::Auto},
                                               {"regions", ControlFlow::Regions}};
  tool::add_choice(
      app, "--control", arguments->control, controls,
      "Loops and branches that the run decides: unrolled, unless given: as straight steps, "
      "branches "
      "computed both ways; regions: repeated by the device as often as it must, wherever that can "
      "be; auto: where that is worth it");
  app.add_flag("--json", arguments->json, "Print the summary as JSON");
  app.add_flag("-q,--quiet", arguments->quiet, "Print nothing but errors");
  action = [arguments] { return compile(*arguments); };
}

}  // namespace rlx
