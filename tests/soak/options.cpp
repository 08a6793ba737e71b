// SPDX-License-Identifier: Apache-2.0
// Flags in, Options out.
#include "tests/soak/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "tools/rlxrun/errors.h"

namespace rlx::soak {
namespace {

constexpr std::array<std::pair<const char*, Beside>, 4> kBesides = {
    {{"none", Beside::None}, {"self", Beside::Self}, {"copy", Beside::Copy}, {"all", Beside::All}}};

constexpr const char* kFooter =
    "Each plan runs in a process of its own for each --beside, so a lost device ends one of them.\n"
    "Growth of memory and objects is judged from a quarter of the replays on.\n"
    "Exit codes: 0 all right, 1 usage, 3 no device, or one that every plan is refused for, 4 any\n"
    "fault, 70 internal error.\n"
    "Example:\n"
    "  rlx_soak plans --device cuda --beside none,self,copy,all --copy copy.plan --replays 100000\n"
    "           --seconds 600 --jobs 16";

// Folders become the plans below them.
std::vector<std::string> plan_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".plan") found.push_back(entry.path().string());
    }
    if (found.empty()) throw CLI::ValidationError("there is no .plan file below " + path);
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

Beside beside_of(const std::string& name) {
  for (const auto& [known, beside] : kBesides) {
    if (name == known) return beside;
  }
  throw CLI::ValidationError("--beside: \"" + name + "\" is none of none, self, copy, all");
}

void add_flags(CLI::App& app, Options& options, std::vector<std::string>& beside) {
  app.add_option("plans", options.plans, "Plan files, and folders of them")
      ->required()
      ->check(CLI::ExistingPath)
      ->type_name("PLAN|FOLDER");
  app.add_option("--device", options.device, "cuda, cuda:N, vulkan, vulkan:N or null")
      ->required()
      ->type_name("ID");
  app.add_option("--replays", options.replays, "At most, per plan and --beside")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds,
                 "For the whole campaign, shared out evenly; 0: until all replays are done")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--beside", beside,
                 "What shares the device, any of: none; self, a second session of the plan; copy, "
                 "the plan of --copy; all, both")
      ->delimiter(',')
      ->type_name("LIST");
  app.add_option("--copy", options.copy_plan, "The plan that runs beside the others")
      ->check(CLI::ExistingFile)
      ->type_name("PLAN");
  app.add_option(
         "--keep", options.keep_folder,
         "Writes what an output gave and what was wanted, of the first that differ, to files "
         "PLAN.OUTPUT.NUMBER.got and .wanted of this folder")
      ->check(CLI::ExistingDirectory)
      ->type_name("FOLDER");
  app.add_option("-j,--jobs", options.jobs, "Processes at a time")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the inputs")->capture_default_str();
  app.add_option("--seeded-max", options.seeded_max, "Integer inputs are at least 0 and below this")
      ->check(CLI::Range(int64_t{1}, INT64_MAX))
      ->capture_default_str();
  app.add_option("--compare", options.compare_bytes,
                 "Bytes of outputs to compare after each run; larger outputs wait for their turn")
      ->check(CLI::Range(uint64_t{1}, UINT64_MAX))
      ->capture_default_str();
  app.add_option("--growth", options.growth_bytes, "Resident memory may grow by this many bytes")
      ->capture_default_str();
  app.add_option("--stall", options.stall_seconds, "A process without a replay for so long hangs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print the result as JSON");
}

}  // namespace

const char* name_of(Beside beside) {
  return std::find_if(kBesides.begin(), kBesides.end(),
                      [&](const auto& known) { return known.second == beside; })
      ->first;
}

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
  CLI::App app("rlx_soak: replays plans again and again and compares every bit", "rlx_soak");
  app.footer(kFooter);
  ParsedCommandLine parsed;
  Options& options = parsed.options;
  std::vector<std::string> beside;
  add_flags(app, options, beside);
  try {
    app.parse(argc, argv);
    options.plans = plan_files(options.plans);
    if (!beside.empty()) options.beside.clear();
    for (const std::string& name : beside) options.beside.push_back(beside_of(name));
    const bool copies = std::any_of(options.beside.begin(), options.beside.end(), [](Beside each) {
      return each == Beside::Copy || each == Beside::All;
    });
    if (copies && options.copy_plan.empty())
      throw CLI::RequiredError("--copy PLAN, which --beside copy and all need,");
  } catch (const CLI::ParseError& error) {
    parsed.exit = app.exit(error) == 0 ? static_cast<int>(tool::ExitCode::Ok)
                                       : static_cast<int>(tool::ExitCode::Usage);
  }
  return parsed;
}

}  // namespace rlx::soak
