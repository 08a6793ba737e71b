// SPDX-License-Identifier: Apache-2.0
// `rlxc inspect` and `rlxc verify`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/input_file.h"
#include "runtime/base/output_file.h"
#include "runtime/plan/free_sizes.h"
#include "runtime/plan/plan_view.h"
#include "tools/inspect/html.h"
#include "tools/inspect/inspect.h"
#include "tools/program/terminal.h"
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
  bool known = false;
  bool json = false;
  std::string svg;
  std::string graph;
  std::string html;
  std::string profile;
  std::string entry;
  std::vector<std::string> dims;  // "NAME=N"
};

int report_status(const Status& status) {
  tool::say_error("rlxc", status.message());
  return status.code() == RLX_OUT_OF_HOST_MEMORY ? kExitResources : kExitInputRefused;
}

// The first record of that name among PlanView::bound_records().
std::optional<uint32_t> find_entry(const PlanView& plan, const std::string& name) {
  if (name.empty()) return 0;
  std::string names;
  const std::vector<const fb::Entry*> records = plan.bound_records();
  for (uint32_t i = 0; i < records.size(); ++i) {
    const std::string_view known = PlanView::text(records[i]->name());
    if (known == name) return i;
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  usage_error("the plan has no entry \"" + name + "\"; entries are " + names);
  return std::nullopt;
}

using Drawing = std::string (*)(const PlanView& plan, uint32_t entry);

int write_svg(const PlanView& plan, const std::string& entry_name, Drawing draw,
              const std::string& path) {
  const std::optional<uint32_t> entry = find_entry(plan, entry_name);
  if (!entry) return kExitUsage;
  const std::string svg = draw(plan, *entry);
  return report_written(write_file(path, std::as_bytes(std::span(svg))));
}

// The symbols of a plan with these at other values than their maximum. Says what is wrong.
std::optional<std::vector<uint64_t>> symbols_of(const PlanView& plan,
                                                const std::vector<std::string>& dims) {
  std::vector<uint64_t> symbols = symbols_at_maximum(plan.index());
  for (const std::string& text : dims) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::string digits = equals == std::string::npos ? "" : text.substr(equals + 1);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
      usage_error("--dim: \"" + text + "\" is not NAME=N, as in seq=77");
      return std::nullopt;
    }
    std::string names;
    bool found = false;
    for (uint32_t i = 0; i < symbols.size(); ++i) {
      const std::string_view known = PlanView::text(plan.index().symbols()->Get(i)->name());
      names += (names.empty() ? "" : ", ") + std::string(known);
      if (known != name) continue;
      symbols[i] = value;
      found = true;
    }
    if (found) continue;
    usage_error("the plan has no symbol \"" + name + "\"" +
                (names.empty() ? ", and no other" : "; symbols are " + names));
    return std::nullopt;
  }
  return symbols;
}

int write_html(const PlanView& plan, const PlanView& file, const InspectArguments& arguments) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 28;
  std::optional<MeasuredSteps> measured;
  if (!arguments.profile.empty()) {
    std::vector<std::byte> bytes;
    Status status = read_file(arguments.profile, kMostBytes, bytes);
    measured.emplace();
    if (status.ok()) {
      status =
          parse_profile({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, *measured);
    }
    if (!status.ok()) return report_status(status);
  }
  const std::string page = report_html(plan, file, measured);
  return report_written(write_file(arguments.html, std::as_bytes(std::span(page))));
}

int show(const PlanView& plan, const PlanView& file, const InspectArguments& arguments) {
  const InspectView view = arguments.memory    ? InspectView::Memory
                           : arguments.steps   ? InspectView::Steps
                           : arguments.kernels ? InspectView::Kernels
                           : arguments.sizes   ? InspectView::Sizes
                           : arguments.why     ? InspectView::Why
                                               : InspectView::Summary;
  // Kernels and the bytes of the file are the same at all sizes.
  const bool is_of_file = view == InspectView::Kernels || view == InspectView::Sizes;
  const PlanView& shown = is_of_file ? file : plan;
  if (arguments.json) {
    nlohmann::ordered_json json = {{"schema_version", tool::kJsonSchemaVersion}};
    json.update(inspect_json(shown, view));
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::fputs(inspect_text(shown, view).c_str(), stdout);
  }
  if (!arguments.html.empty()) {
    if (const int code = write_html(plan, file, arguments); code != kExitOk) return code;
  }
  if (!arguments.graph.empty()) {
    const int code = write_svg(plan, arguments.entry, graph_svg, arguments.graph);
    if (code != kExitOk) return code;
  }
  return arguments.svg.empty() ? kExitOk
                               : write_svg(plan, arguments.entry, memory_svg, arguments.svg);
}

int inspect(const InspectArguments& arguments) {
  if (!arguments.entry.empty() && arguments.svg.empty() && arguments.graph.empty())
    return usage_error("--entry goes with --svg and --graph");
  std::shared_ptr<const PlanView> plan;
  if (const Status status = PlanView::open_file(arguments.plan, {}, plan); !status.ok()) {
    return report_status(status);
  }
  if (arguments.known) {
    std::fputs(known_code_text(*plan).c_str(), stdout);
    return kExitOk;
  }
  if (arguments.dims.empty()) return show(*plan, *plan, arguments);
  const std::optional<std::vector<uint64_t>> symbols = symbols_of(*plan, arguments.dims);
  if (!symbols) return kExitUsage;
  std::shared_ptr<const PlanView> bound;
  std::vector<const fb::Entry*> records = plan->records();
  std::erase_if(records, [&](const fb::Entry* entry) { return !is_made_for(*entry, *symbols); });
  const auto& entries = *plan->index().entries();
  if (std::none_of(entries.begin(), entries.end(),
                   [&](const fb::Entry* entry) { return is_made_for(*entry, *symbols); })) {
    return usage_error("none of the plan's ranges has " + symbols_text(plan->index(), *symbols) +
                       "; rlxc inspect without --dim lists them");
  }
  const Status status = PlanView::bind(*plan, records, *symbols, bound);
  return status.ok() ? show(*bound, *plan, arguments) : report_status(status);
}

struct VerifyArguments {
  std::string plan;
  std::string weights_folder;
};

int verify(const VerifyArguments& arguments) {
  std::shared_ptr<const PlanView> plan;
  const PlanOptions options{.check_weights = true, .weights_folder = arguments.weights_folder};
  if (const Status status = PlanView::open_file(arguments.plan, options, plan); !status.ok())
    return report_status(status);
  std::printf("%s: verified\n", arguments.plan.c_str());
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
  CLI::Option* known = views->add_flag(
      "--known", arguments->known,
      "The digests of its code and nothing else: the list for rlxrun --trust known");
  views->require_option(0, 1);
  command->add_flag("--json", arguments->json, "As JSON")->excludes(known);
  command->add_option("--svg", arguments->svg, "Draw the arena of an entry to this file");
  command->add_option("--graph", arguments->graph,
                      "Draw an entry's steps and what they hand on to this file, as SVG");
  CLI::Option* html =
      command->add_option("--html", arguments->html,
                          "Write all views as one page for a browser, which needs nothing else");
  command
      ->add_option("--profile", arguments->profile,
                   "What rlxrun --profile --json printed: times of the page's steps")
      ->needs(html);
  command->add_option("--entry", arguments->entry, "Entry to draw (default: the first)");
  command
      ->add_option("--dim", arguments->dims,
                   "Show the program with a free symbol at this value; others are at their maximum")
      ->type_name("NAME=N");
  command->callback([arguments, &action] { action = [arguments] { return inspect(*arguments); }; });
}

void add_verify_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command = app.add_subcommand("verify", "Check a plan completely, weights included");
  command->add_option("PLAN", arguments->plan, "Plan file")->required();
  command->add_option("--weights-folder", arguments->weights_folder,
                      "Where files with weights of the plan lie (default: the plan's folder)");
  command->callback([arguments, &action] { action = [arguments] { return verify(*arguments); }; });
}

}  // namespace rlx
