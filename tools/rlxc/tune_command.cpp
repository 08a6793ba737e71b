// SPDX-License-Identifier: Apache-2.0
// `rlxc tune`: chooses how a plan's library products are computed, by timing on a device.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "tools/plan_file/plan_file.h"
#include "tools/program/program.h"
#include "tools/program/terminal.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"
#include "tools/tune/tune.h"

namespace rlx {
namespace {

struct TuneArguments {
  std::string plan;
  std::string output;
  std::string device = "cuda";
  tune::TuneOptions options;
  bool quiet = false;
};

int tune_plan(TuneArguments& arguments) {
  if (!arguments.quiet) {
    arguments.options.progress = [](const std::string& line) {
      std::fprintf(stderr, "rlxc: %s\n", line.c_str());
    };
  }
  std::vector<std::byte> index;
  tune::TuneReport report;
  if (const Status status =
          tune::tune_file(arguments.plan, arguments.device, arguments.options, index, report);
      !status.ok()) {
    tool::say_error("rlxc", status.message());
    return static_cast<int>(tool::exit_code_for(status.code()));
  }
  const std::string& output = arguments.output.empty() ? arguments.plan : arguments.output;
  const int code = report_written(write_with_index(arguments.plan, index, output));
  if (code == kExitOk && !arguments.quiet) std::fputs(tune::report_text(report).c_str(), stdout);
  return code;
}

}  // namespace

void add_tune_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<TuneArguments>();
  CLI::App* command = app.add_subcommand(
      "tune", "Time a plan's library products on a device and write the fastest ways into it");
  command->add_option("PLAN", arguments->plan, "Plan file")->required();
  command->add_option("-o,--output", arguments->output,
                      "Plan file to write (default: PLAN itself, replaced as a whole)");
  command->add_option("--device", arguments->device, "cuda:N, or cuda for the first")
      ->capture_default_str();
  command
      ->add_option("--candidates", arguments->options.candidates,
                   "Algorithms of the library to try per product")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command->add_flag("-q,--quiet", arguments->quiet, "Print nothing but errors");
  command->callback(
      [arguments, &action] { action = [arguments] { return tune_plan(*arguments); }; });
}

}  // namespace rlx
