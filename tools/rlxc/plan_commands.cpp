// SPDX-License-Identifier: Apache-2.0
// `rlxc inspect` and `rlxc verify`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <span>

#include "runtime/base/output_file.h"
#include "runtime/plan/plan_view.h"
#include "tools/inspect/inspect.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {
namespace {

struct InspectArguments {
  std::string plan;
  bool memory = false;
  bool steps = false;
  bool kernels = false;
  bool sizes = false;
  bool why = false;
  bool json = false;
  std::string svg;
  std::string entry;
};

int report_status(const Status& status) {
  std::fprintf(stderr, "rlxc: error: %s\n", status.message().c_str());
  return status.code() == RLX_OUT_OF_HOST_MEMORY ? kExitResources : kExitInputRefused;
}

// The first record of that name among PlanView::records().
std::optional<uint32_t> find_entry(const PlanView& plan, const std::string& name) {
  if (name.empty()) return 0;
  std::string names;
  const std::vector<const fb::Entry*> records = plan.records();
  for (uint32_t i = 0; i < records.size(); ++i) {
    const std::string_view known = PlanView::text(records[i]->name());
    if (known == name) return i;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  usage_error("the plan has no entry \"" + name + "\"; entries are " + names);
  return std::nullopt;
}

int write_svg(const PlanView& plan, const InspectArguments& arguments) {
  const std::optional<uint32_t> entry = find_entry(plan, arguments.entry);
  if (!entry) return kExitUsage;
  const std::string svg = memory_svg(plan, *entry);
  return report_written(write_file(arguments.svg, std::as_bytes(std::span(svg))));
}

int inspect(const InspectArguments& arguments) {
  if (!arguments.entry.empty() && arguments.svg.empty())
    return usage_error("--entry goes with --svg");
  std::shared_ptr<const PlanView> plan;
  if (const Status status = PlanView::open_file(arguments.plan, {}, plan); !status.ok()) {
    return report_status(status);
  }
  const InspectView view = arguments.memory    ? InspectView::Memory
                           : arguments.steps   ? InspectView::Steps
                           : arguments.kernels ? InspectView::Kernels
                           : arguments.sizes   ? InspectView::Sizes
                           : arguments.why     ? InspectView::Why
                                               : InspectView::Summary;
  if (arguments.json) {
    std::printf("%s\n", inspect_json(*plan, view).dump(2).c_str());
  } else {
    std::fputs(inspect_text(*plan, view).c_str(), stdout);
  }
  return arguments.svg.empty() ? kExitOk : write_svg(*plan, arguments);
}

int verify(const std::string& path) {
  std::shared_ptr<const PlanView> plan;
  if (const Status status = PlanView::open_file(path, {.check_weights = true}, plan);
      !status.ok()) {
    return report_status(status);
  }
  std::printf("%s: verified\n", path.c_str());
  return kExitOk;
}

}  // namespace

void add_inspect_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<InspectArguments>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a plan holds");
  command->add_option("PLAN", arguments->plan, "Plan file")->required();
  CLI::Option_group* views = command->add_option_group("views", "One of these; without, a summary");
  views->add_flag("--memory", arguments->memory,
                  "Segments, arena against its lower bound, lifetimes");
  views->add_flag("--steps", arguments->steps, "Each step: kernel, grid, reads, writes, work");
  views->add_flag("--kernels", arguments->kernels,
                  "Each kernel's code: architectures, registers, shared memory");
  views->add_flag("--sizes", arguments->sizes, "Every byte of the file");
  views->add_flag("--why", arguments->why, "Passes, and why each kernel was chosen");
  views->require_option(0, 1);
  command->add_flag("--json", arguments->json, "As JSON");
  command->add_option("--svg", arguments->svg, "Draw the arena of an entry to this file");
  command->add_option("--entry", arguments->entry, "Entry to draw (default: the first)");
  command->callback([arguments, &action] { action = [arguments] { return inspect(*arguments); }; });
}

void add_verify_command(CLI::App& app, Action& action) {
  const auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("verify", "Check a plan completely, weights included");
  command->add_option("PLAN", *path, "Plan file")->required();
  command->callback([path, &action] { action = [path] { return verify(*path); }; });
}

}  // namespace rlx
