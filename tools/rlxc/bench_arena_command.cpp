// SPDX-License-Identifier: Apache-2.0
// `rlxc bench-arena SOURCE`: how well and how fast arenas are packed. SOURCE is a packing problem
// in CSV, or a model, whose arenas are planned with and without fusion and in-place results.
#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/compile.h"
#include "compiler/import/import.h"
#include "compiler/lower/arena.h"
#include "compiler/lower/arena_csv.h"
#include "runtime/base/input_file.h"
#include "tools/program/terminal.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxCsvBytes = uint64_t{1} << 30;

struct BenchArguments {
  std::string source;
  uint64_t capacity_bytes = 0;  // 0: none
  std::vector<std::string> targets;
  std::vector<std::string> dims;
  bool json = false;
};

// One way of compiling a model.
struct Variant {
  const char* name;
  int optimisation;
  bool in_place;
};
constexpr std::array kVariants = {
    Variant{.name = "as compiled", .optimisation = 2, .in_place = true},
    Variant{.name = "not in place", .optimisation = 2, .in_place = false},
    Variant{.name = "no fusion (-O1)", .optimisation = 1, .in_place = true},
    Variant{.name = "no fusion, not in place", .optimisation = 1, .in_place = false},
};

double ratio_of(uint64_t bytes, uint64_t bound_bytes) {
  return bound_bytes == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(bound_bytes);
}

// Whether everything printed fits; true without a capacity.
bool fits(const BenchArguments& arguments, uint64_t bytes) {
  return arguments.capacity_bytes == 0 || bytes <= arguments.capacity_bytes;
}

std::string fit_text(const BenchArguments& arguments, uint64_t bytes) {
  if (arguments.capacity_bytes == 0) return {};
  return std::string(fits(arguments, bytes) ? ", fits " : ", does not fit ") +
         std::to_string(arguments.capacity_bytes);
}

void print_packed(const BenchArguments& arguments, const ArenaCsv& problem,
                  const ArenaLayout& layout, double seconds) {
  const double ratio = ratio_of(layout.height_bytes, layout.lower_bound_bytes);
  if (arguments.json) {
    Json json = {{"schema_version", tool::kJsonSchemaVersion},
                 {"items", problem.items.size()},
                 {"alignment_bytes", problem.alignment_bytes},
                 {"arena_bytes", layout.height_bytes},
                 {"lower_bound_bytes", layout.lower_bound_bytes},
                 {"ratio", ratio},
                 {"total_bytes", layout.total_bytes},
                 {"packer", layout.packer},
                 {"seconds", seconds}};
    if (arguments.capacity_bytes != 0) {
      json["capacity_bytes"] = arguments.capacity_bytes;
      json["fits"] = fits(arguments, layout.height_bytes);
    }
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  std::printf("%s: %zu items, %llu bytes, lower bound %llu, ratio %.4f, %.1f ms, found by %.*s%s\n",
              arguments.source.c_str(), problem.items.size(),
              static_cast<unsigned long long>(layout.height_bytes),
              static_cast<unsigned long long>(layout.lower_bound_bytes), ratio, seconds * 1e3,
              static_cast<int>(layout.packer.size()), layout.packer.data(),
              fit_text(arguments, layout.height_bytes).c_str());
}

int bench_csv(const BenchArguments& arguments) {
  if (!arguments.targets.empty() || !arguments.dims.empty())
    return usage_error("--target and --dim go with a model, not with a packing problem");
  std::vector<std::byte> bytes;
  if (const Status status = read_file(arguments.source, kMaxCsvBytes, bytes); !status.ok()) {
    tool::say_error("rlxc", status.message());
    return kExitInputRefused;
  }
  const auto parsed = parse_arena_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (const std::string* fault = std::get_if<std::string>(&parsed)) {
    tool::say_error("rlxc", arguments.source + ": " + *fault);
    return kExitInputRefused;
  }
  const ArenaCsv& problem = std::get<ArenaCsv>(parsed);
  const auto start = std::chrono::steady_clock::now();
  const ArenaLayout layout =
      pack(problem.items, problem.alignment_bytes, {.enough_bytes = arguments.capacity_bytes});
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  print_packed(arguments, problem, layout, elapsed.count());
  return fits(arguments, layout.height_bytes) ? kExitOk : kExitResources;
}

Json summary_json(const BenchArguments& arguments, const Variant& variant,
                  const ArenaSummary& arena) {
  Json json = {{"variant", variant.name},
               {"target", arena.target},
               {"entry", arena.entry},
               {"steps", arena.steps},
               {"waves", arena.waves},
               {"arena_bytes", arena.arena_bytes},
               {"lower_bound_bytes", arena.lower_bound_bytes},
               {"ratio", ratio_of(arena.arena_bytes, arena.lower_bound_bytes)},
               {"unplanned_bytes", arena.unplanned_bytes},
               {"packer", arena.packer},
               {"wave_choice", arena.wave_choice},
               {"seconds", arena.seconds}};
  if (arguments.capacity_bytes != 0) json["fits"] = fits(arguments, arena.arena_bytes);
  return json;
}

void print_summary(const BenchArguments& arguments, const Variant& variant,
                   const ArenaSummary& arena) {
  std::printf(
      "%s, %s, %s: %zu steps, %u waves, %llu bytes, lower bound %llu, ratio %.4f, %.1f ms, "
      "found by %s over %s%s\n",
      arena.entry.c_str(), arena.target.c_str(), variant.name, arena.steps, arena.waves,
      static_cast<unsigned long long>(arena.arena_bytes),
      static_cast<unsigned long long>(arena.lower_bound_bytes),
      ratio_of(arena.arena_bytes, arena.lower_bound_bytes), arena.seconds * 1e3,
      arena.packer.c_str(), arena.wave_choice.c_str(),
      fit_text(arguments, arena.arena_bytes).c_str());
}

int bench_model(const BenchArguments& arguments) {
  const auto dims = parse_dims(arguments.dims);
  if (!dims) return kExitUsage;
  Diagnostics diagnostics;
  const std::optional<Module> module = load_module(arguments.source, {.dims = *dims}, diagnostics);
  if (!module) return report(diagnostics);
  Json rows = Json::array();
  bool all_fit = true;
  for (const Variant& variant : kVariants) {
    CompileOptions options;
    if (!arguments.targets.empty()) options.targets = arguments.targets;
    options.optimisation = variant.optimisation;
    options.in_place = variant.in_place;
    const auto arenas = plan_arenas(*module, options, diagnostics);
    if (!arenas) return report(diagnostics);
    for (const ArenaSummary& arena : *arenas) {
      // Whether a model fits is said of the plan that a user would get.
      if (&variant == kVariants.data()) all_fit = all_fit && fits(arguments, arena.arena_bytes);
      if (arguments.json)
        rows.push_back(summary_json(arguments, variant, arena));
      else
        print_summary(arguments, variant, arena);
    }
  }
  static_cast<void>(report(diagnostics));  // warnings
  if (arguments.json) std::printf("%s\n", rows.dump(2).c_str());
  return all_fit ? kExitOk : kExitResources;
}

}  // namespace

void add_bench_arena_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand(
      "bench-arena",
      "Pack the arena of a packing problem (.csv), or of a model with and without fusion and "
      "in-place results: bytes, lower bound, ratio, time");
  command->add_option("SOURCE", arguments->source, "File: .csv, or a graph as .json or .rlxg")
      ->required();
  command
      ->add_option("--capacity", arguments->capacity_bytes,
                   "What is enough; exit code 5 where the arena takes more: in bytes, or with a "
                   "unit, as 2GiB or 500MB")
      ->transform(CLI::AsSizeValue(true))
      ->check(CLI::PositiveNumber)
      ->type_name("BYTES");
  command->add_option("--target", arguments->targets, "Of a model: as for compiling")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--dim", arguments->dims, "Of a model: as for compiling")
      ->allow_extra_args(false);
  command->add_flag("--json", arguments->json, "As JSON");
  command->callback([arguments, &action] {
    action = [arguments] {
      return std::filesystem::path(arguments->source).extension() == ".csv"
                 ? bench_csv(*arguments)
                 : bench_model(*arguments);
    };
  });
}

}  // namespace rlx
