// SPDX-License-Identifier: Apache-2.0
// Flags in, Options out.
#include "tools/rlxrun/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "tools/describe/describe.h"
#include "tools/rlxrun/chat_flags.h"
#include "tools/rlxrun/errors.h"

namespace rlx::tool {
namespace {

// Empty for 64 bits as a number, with a sign or without, which is left without one; what reads it
// next takes other numbers as the nearest, and some versions refuse a sign.
std::string check_seed(std::string& text) {
  const char* end = text.data() + text.size();
  uint64_t whole = 0;
  int64_t with_sign = 0;
  const bool is_whole = std::from_chars(text.data(), end, whole) == std::from_chars_result{end, {}};
  const bool is_signed =
      std::from_chars(text.data(), end, with_sign) == std::from_chars_result{end, {}};
  if (is_signed) text = std::to_string(static_cast<uint64_t>(with_sign));
  if (is_whole || is_signed) return {};
  return "\"" + text + "\" is no number of 64 bits, wanted 0 to 18446744073709551615";
}

constexpr const char* kFooter =
    "Exit codes: 0 ok, 1 usage, 2 input refused, 3 device unsuitable, 4 numeric mismatch or NaN,\n"
    "5 resources (memory, disk, device lost), 70 internal error.\n"
    "Examples:\n"
    "  rlxrun model.plan --inputs x.npy --outputs out\n"
    "  rlxrun model.plan --inputs ids=ids.npy mask=mask.npy --expected y.npy\n"
    "  rlxrun model.plan --seeded --warmup 10 --repeat 100 --profile\n"
    "  rlxrun model.plan --seeded --dim batch=1 --dim seq=77\n"
    "  rlxrun model.plan --inputs x.npy --against other.plan\n"
    "  rlxrun model.plan --self-test\n"
    "  rlxrun model.plan --inputs x.npy --trust signed --key release.pem.pub\n"
    "  rlxrun chat.plan --chat \"What is the capital of France?\" -n 64";

// What the flags say as text, before it is taken apart.
struct RawOptions {
  std::vector<std::string> inputs;
  std::vector<std::string> states;
  std::vector<std::string> state_dumps;
  std::vector<std::string> expected;
  std::vector<std::string> dumps;
  std::vector<std::string> symbols;
  std::string tune;
  std::string trust = "any";
};

TensorFile split_tensor_file(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {.name = {}, .path = text};
  if (equals == 0 || equals + 1 == text.size()) {
    throw CLI::ValidationError("\"" + text + "\" is neither name=file nor a file");
  }
  return {.name = text.substr(0, equals), .path = text.substr(equals + 1)};
}

TensorFile split_state_dump(const std::string& text) {
  TensorFile dump = split_tensor_file(text);
  if (dump.name.empty())
    throw CLI::ValidationError("--dump-state: \"" + text + "\" is not NAME=FILE.npy");
  return dump;
}

// What CLI::NonNegativeNumber lets through is no tolerance: nothing is within NaN.
std::string tolerance_fault(const std::string& text) {
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0) return {};
  return "\"" + text + "\" is no number of 0 or more";
}

std::string budget_fault(const std::string& text) {
  return text.find_first_of("123456789") == std::string::npos || text.starts_with('-')
             ? "\"" + text + "\" is no number of bytes above 0"
             : std::string();
}

std::string cache_file_fault(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored)
             ? "\"" + path + "\" is a folder, wanted a file"
             : std::string();
}

SymbolValue split_symbol(const std::string& text) {
  const size_t equals = text.find('=');
  SymbolValue symbol{.name = text.substr(0, equals)};
  const char* const end = text.data() + text.size();
  const char* const begin = equals == std::string::npos ? end : text.data() + equals + 1;
  const auto [stop, error] = std::from_chars(begin, end, symbol.value);
  if (symbol.name.empty() || error != std::errc() || stop != end)
    throw CLI::ValidationError("--dim: \"" + text + "\" is not NAME=N, as in seq=77");
  return symbol;
}

DumpRequest split_dump(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string left = text.substr(0, equals);
  const size_t colon = left.find(':');
  const std::string digits = left.substr(0, colon);
  DumpRequest request;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), request.step);
  if (equals == std::string::npos || equals + 1 == text.size() || error != std::errc() ||
      end != digits.data() + digits.size()) {
    throw CLI::ValidationError("--dump-after: \"" + text +
                               "\" is neither STEP=FILE.npy nor STEP:VALUE=FILE.npy");
  }
  if (colon != std::string::npos) request.value = left.substr(colon + 1);
  request.path = text.substr(equals + 1);
  return request;
}

void add_data_flags(CLI::App& app, Options& options, RawOptions& raw) {
  app.add_option("plan", options.plan_path, "The plan to run")->type_name("PLAN");
  app.add_option("--entry", options.entry,
                 "Entry to run; may be left out where the plan has one only")
      ->type_name("NAME");
  app.add_option("--dim", raw.symbols,
                 "Value of a free symbol; files that give inputs set the symbols of their shapes, "
                 "what nothing sets is at its maximum")
      ->type_name("NAME=N");
  app.add_option("--inputs", raw.inputs, "x.npy for a plan with one input, name=x.npy, or file.npz")
      ->type_name("FILE");
  app.add_flag(
      "--seeded", options.seeded,
      "Random values for the inputs that no file gives; the same for the same name and seed");
  app.add_option("--seed", options.seed,
                 "Seed of --seeded, of random numbers that the plan draws, or of tokens that "
                 "--temperature draws")
      ->transform(CLI::Validator(check_seed, ""));
  app.add_option("--seeded-max", options.seeded_max,
                 "Seeded integers are at least 0 and below this")
      ->needs("--seeded")
      ->check(CLI::Range(int64_t{1}, INT64_MAX))
      ->capture_default_str();
  app.add_option("--state", raw.states,
                 "What a state begins with instead of its initial value: s.npy for a plan with one "
                 "state, name=s.npy, or file.npz")
      ->type_name("FILE");
  app.add_option("--dump-state", raw.state_dumps, "Write a state as the first run leaves it")
      ->type_name("NAME=FILE.npy");
  app.add_option("--load-states", options.load_states,
                 "Begin with all states as --save-states wrote them, of the same model")
      ->type_name("FILE.safetensors")
      ->excludes("--state");
  app.add_option("--save-states", options.save_states,
                 "Write all states as the runs leave them: the first one and those of --repeat")
      ->type_name("FILE.safetensors");
  app.add_option("-o,--outputs", options.outputs_folder,
                 "Write each output of the first run to DIR/name.npy")
      ->type_name("DIR");
  app.add_option("--expected", raw.expected,
                 "y.npy for a plan with one output, name=y.npy, or file.npz: compare with the "
                 "first run's outputs; "
                 "floats may be given in any float type")
      ->type_name("FILE");
  app.add_option("--rtol", options.rtol,
                 "Relative tolerance; 1e-4 for floats unless given, 0 for other types; of "
                 "--against by type")
      ->check(tolerance_fault);
  app.add_option("--atol", options.atol,
                 "Absolute tolerance; 1e-5 for floats unless given, 0 for other types; of "
                 "--against by type and "
                 "the size of a value")
      ->check(tolerance_fault);
}

void add_run_flags(CLI::App& app, Options& options, RawOptions& raw) {
  app.add_option("--repeat", options.repeat, "Timed runs")
      ->check(CLI::Range(1u, 100000000u))
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "Runs before the timed ones")->capture_default_str();
  app.add_flag("--profile", options.profile, "Time each step: GB/s, TFLOP/s and share");
  app.add_option("--trace", options.trace_path, "Write the profile as a Chrome / Perfetto trace")
      ->type_name("FILE");
  app.add_option("--report", options.report_path,
                 "Write the plan with its measured steps as one page for a browser; implies "
                 "--profile")
      ->type_name("FILE.html");
  app.add_option("--dump-after", raw.dumps,
                 "Write the value that begins at a step, or any that lives then: STEP=FILE.npy or "
                 "STEP:VALUE=FILE.npy");
  app.add_flag(
      "--first-nan", options.first_nan,
      "Say which step makes the first NaN, and which the first infinity; exit code 4 where "
      "there is a NaN");
  app.add_flag("--nvtx", options.nvtx,
               "Tell a profiler (Nsight Systems) by NVTX ranges of preparing, of each run, and of "
               "each step that --first-nan and --dump-after run up to");
  app.add_option(
         "--device", options.device,
         "cuda:N, cuda (the first), vulkan:N, vulkan, null (checks, computes nothing), or auto: "
         "cuda where the plan has code for it and the machine a device, else vulkan")
      ->type_name("ID")
      ->capture_default_str();
  app.add_option("--target", options.target,
                 "Of a plan compiled for several targets of the device's kind, the one to run, as "
                 "vulkan-cpu (default: the best whose needs the device meets)")
      ->type_name("NAME");
  app.add_flag("--list-devices", options.list_devices, "List the devices of this machine and end");
  app.add_option("-j,--threads", options.jobs, "Threads that create pipelines; 0: one per core")
      ->capture_default_str();
  app.add_option("--pipeline-cache", options.pipeline_cache_path,
                 "Keep what the driver compiles in this file (default: in $XDG_CACHE_HOME/rlx or "
                 "~/.cache/rlx)")
      ->check(CLI::Validator(cache_file_fault, ""))
      ->type_name("FILE");
  app.add_flag("--no-pipeline-cache", options.no_pipeline_cache,
               "Keep nothing of what the driver compiles")
      ->excludes("--pipeline-cache");
  app.add_option("--memory-budget", options.memory_budget_bytes,
                 "Refuse a plan that needs more device memory than this: in bytes, or with a unit, "
                 "as 2GiB or 500MB")
      ->transform(CLI::AsSizeValue(true))
      ->transform(CLI::Validator(budget_fault, "BYTES"))
      ->type_name("BYTES");
  app.add_flag("--json", options.json, "Print the result as JSON");
  app.add_flag("--validate", options.validate,
               "Load the Vulkan validation layer; any error it reports fails the run");
  app.add_flag("--tune{write}", raw.tune,
               "Before the run: time how the library's products can be computed and write the "
               "fastest ways into PLAN; --tune=locked: refuse a plan where that was not done for "
               "this device")
      ->check(CLI::IsMember({"write", "locked"}));
  app.add_flag(
      "--check-indices,!--no-check-indices", options.check_indices,
      "Fail (exit code 2) where an index that a tensor holds lies outside what it indexes, a loop "
      "reaches its bound or a branch is taken that cannot be at these sizes; on unless turned off, "
      "or a language model's runs are queued: then an index is clamped, read as zero or dropped");
  app.add_flag("--check-weights", options.check_weights, "Check the weights' checksum too");
  app.add_option("--weights-folder", options.weights_folder,
                 "Where the files lie that hold weights of a plan compiled with --external-weights "
                 "(default: the plan's folder)");
  app.add_option("--poison", options.poison, "Fill the arena with this byte before the first run")
      ->check(CLI::Range(0, 255))
      ->type_name("BYTE");
}

// Whose code may run.
void add_trust_flags(CLI::App& app, Options& options, RawOptions& raw) {
  app.add_option(
         "--trust", raw.trust,
         "Whose kernel code may run: any (the plan is your own), known (all of it is in the "
         "list --known), signed (the plan is signed with --key)")
      ->check(CLI::IsMember({"any", "known", "signed"}))
      ->excludes("--tune")
      ->type_name("POLICY")
      ->capture_default_str();
  app.add_option("--key", options.key_path,
                 "Public keys in PEM form, as rlxc keygen writes them; one of them signed the plan")
      ->type_name("FILE");
  app.add_option("--known", options.known_path,
                 "Digests of code, as rlxc inspect --known prints them")
      ->type_name("FILE");
}

void take_trust(const RawOptions& raw, Options& options) {
  options.trust = raw.trust == "signed"  ? RLX_TRUST_SIGNED
                  : raw.trust == "known" ? RLX_TRUST_KNOWN
                                         : RLX_TRUST_ANY;
  if ((options.trust == RLX_TRUST_SIGNED) == options.key_path.empty())
    throw CLI::ValidationError("--trust signed and --key FILE go together");
  if ((options.trust == RLX_TRUST_KNOWN) == options.known_path.empty())
    throw CLI::ValidationError("--trust known and --known FILE go together");
}

// Of a plain run.
constexpr const char* kRunOnly[] = {"--expected", "--outputs",   "--repeat",     "--warmup",
                                    "--profile",  "--trace",     "--dump-after", "--dump-state",
                                    "--poison",   "--first-nan", "--report",     "--list-devices",
                                    "--nvtx"};

// What comes from the plan's self-test goes by no other flag.
void add_self_test_flags(CLI::App& app, Options& options) {
  CLI::Option* self_test =
      app.add_flag("--self-test", options.self_test,
                   "Judge this machine by the inputs and outputs that `rlxc self-test` put into "
                   "the plan; exit code 4 where one is wrong");
  for (const char* other : kRunOnly) self_test->excludes(app.get_option(other));
  for (const char* other : {"--entry", "--dim", "--inputs", "--seeded", "--seed", "--state",
                            "--rtol", "--atol", "--tune", "--against"})
    self_test->excludes(app.get_option(other));
}

// --against runs the plan in a way of its own: what only a plain run does does not go with it.
void add_against_flags(CLI::App& app, Options& options) {
  CLI::Option* against =
      app.add_option("--against", options.against,
                     "Name the first value of the plan that differs, beyond rounding, from what "
                     "another device makes of it (vulkan:1, cuda:0), another plan of the model "
                     "(OTHER.plan), the f64 evaluator (cpu-reference, with --model), or arrays by "
                     "name (a folder); exit code 4 where one does")
          ->type_name("DEVICE|PLAN|DIR");
  against->excludes(app.get_option("--tune"));
  for (const char* other : kRunOnly) against->excludes(app.get_option(other));
  app.add_option("--model", options.reference_model,
                 "The model that the plan was compiled from, for --against cpu-reference")
      ->type_name("FILE")
      ->needs(against);
  app.add_option("--against-folder", options.against_folder,
                 "Where the tensor that differs is written, as got and as expected")
      ->type_name("DIR")
      ->needs(against)
      ->capture_default_str();
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Runs a plan that rlxc made: rlxrun PLAN", "rlxrun");
  app.footer(kFooter);
  app.set_version_flag("--version", std::string("rlxrun ") + rlx_version());
  ParsedCommandLine parsed;
  Options& options = parsed.options;
  RawOptions raw;
  add_data_flags(app, options, raw);
  add_run_flags(app, options, raw);
  add_trust_flags(app, options, raw);
  add_against_flags(app, options);
  add_self_test_flags(app, options);
  add_chat_flags(app, options);
  add_describe_flags(app);
  refuse_empty_values(app, std::array<std::string_view, 2>{"--chat", "--system"});
  try {
    app.parse(argc, argv);
    if (options.plan_path.empty() && !options.list_devices) throw CLI::RequiredError("PLAN");
    check_chat_flags(app, options);
    options.profile = options.profile || !options.report_path.empty();
    options.gives_seed = app.get_option("--seed")->count() > 0;
    // A flag that is not given is false to CLI11.
    if (app.get_option("--check-indices")->count() == 0) options.check_indices.reset();
    for (const std::string& text : raw.inputs) options.inputs.push_back(split_tensor_file(text));
    for (const std::string& text : raw.states) options.states.push_back(split_tensor_file(text));
    for (const std::string& text : raw.state_dumps)
      options.state_dumps.push_back(split_state_dump(text));
    for (const std::string& text : raw.symbols) {
      options.symbols.push_back(split_symbol(text));
      const std::string& name = options.symbols.back().name;
      if (std::ranges::count(options.symbols, name, &SymbolValue::name) > 1)
        throw CLI::ValidationError("--dim gives \"" + name + "\" twice");
    }
    for (const std::string& text : raw.expected)
      options.expected.push_back(split_tensor_file(text));
    for (const std::string& text : raw.dumps) options.dumps.push_back(split_dump(text));
    take_trust(raw, options);
    if (!raw.tune.empty()) options.tune = raw.tune == "locked" ? TuneMode::Locked : TuneMode::Write;
  } catch (const CLI::ParseError& error) {
    parsed.exit =
        app.exit(error) == 0 ? static_cast<int>(ExitCode::Ok) : static_cast<int>(ExitCode::Usage);
  }
  return parsed;
}

}  // namespace rlx::tool
