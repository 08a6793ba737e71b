// SPDX-License-Identifier: Apache-2.0
// `rlxc diff`: what two plans have not in common.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "tools/inspect/diff.h"
#include "tools/program/terminal.h"
#include "tools/rlxc/commands.h"

namespace rlx {
namespace {

constexpr int kExitDifferent = 1;
constexpr size_t kMostRows = 20;

struct DiffArguments {
  std::string a;
  std::string b;
  std::string weights_folder;
  bool all = false;
  bool json = false;
};

int refuse(const Status& status) {
  tool::say_error("rlxc", status.message());
  return status.code() == RLX_OUT_OF_HOST_MEMORY ? kExitResources : kExitInputRefused;
}

int diff(const DiffArguments& arguments) {
  const PlanOptions options{.check_weights = true, .weights_folder = arguments.weights_folder};
  std::shared_ptr<const PlanView> a;
  std::shared_ptr<const PlanView> b;
  if (const Status status = PlanView::open_file(arguments.a, options, a); !status.ok())
    return refuse(status);
  if (const Status status = PlanView::open_file(arguments.b, options, b); !status.ok())
    return refuse(status);
  PlanDifferences differences;
  if (const Status status = compare_plans(*a, *b, differences); !status.ok()) return refuse(status);
  if (arguments.json) {
    nlohmann::ordered_json json = {{"schema_version", tool::kJsonSchemaVersion}};
    json.update(differences_json(differences));
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::fputs(differences_text(differences, arguments.all ? SIZE_MAX : kMostRows).c_str(), stdout);
  }
  return differences.none() ? kExitOk : kExitDifferent;
}

}  // namespace

void add_diff_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<DiffArguments>();
  CLI::App* command = app.add_subcommand("diff", "Compare two plans, weights included");
  command->add_option("A", arguments->a, "Plan file")->required();
  command->add_option("B", arguments->b, "Plan file")->required();
  command->add_flag("--all", arguments->all, "Every difference, not the first 20 of a kind");
  command->add_flag("--json", arguments->json, "As JSON, with every difference");
  command->add_option("--weights-folder", arguments->weights_folder,
                      "Where files with weights of both plans lie (default: each plan's folder)");
  command->footer(
      "Exit codes: 0 the plans are equal, 1 they differ, 2 a file is refused or the use wrong, 5 "
      "resources.");
  command->callback([arguments, &action] { action = [arguments] { return diff(*arguments); }; });
}

}  // namespace rlx
