// SPDX-License-Identifier: Apache-2.0
// `rlxc check`: has a driver compile a plan's kernels, and tells what it made of them.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/plan_kernels.h"
#include "runtime/plan/plan_view.h"
#include "runtime/plan/profiles.h"
#include "runtime/vulkan/vulkan_device.h"
#include "tools/program/program.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {
namespace {

struct CheckArguments {
  std::vector<std::string> plans;
  std::string driver;
  std::string gpu;
  std::string device = "vulkan:0";
  uint32_t jobs = 0;
  bool json = false;
};

// Names that drivers give to what is told here in columns of its own; the first that a driver has.
constexpr const char* kRegisters[] = {"VGPRs", "Register Count"};
constexpr const char* kSpills[] = {"Spilled VGPRs", "Spill count", "Local Memory Size"};
constexpr const char* kShared[] = {"LDS size", "LDS Size", "Shared Memory Size"};
constexpr const char* kWaves[] = {"Subgroups per SIMD"};

template <size_t kCount>
std::optional<double> number_of(const PipelineReport& report, const char* const (&names)[kCount]) {
  for (const char* name : names) {
    for (const auto& [known, number] : report.statistics) {
      if (known == name) return number;
    }
  }
  return std::nullopt;
}

bool spills(const PipelineReport& report) {
  return number_of(report, kSpills).value_or(0) > 0;
}

// One of a plan's programs for Vulkan.
struct CheckedProgram {
  std::string plan;
  std::string name;
  std::shared_ptr<const PlanView> view;
  Status suits;  // or what the device lacks
  std::vector<PipelineReport> reports;
};

// The pipelines of one kernel: how many, and the worst of each number.
struct KernelSummary {
  uint32_t pipelines = 0;
  uint32_t failed = 0;
  uint32_t spilling = 0;
  double milliseconds = 0;
  std::optional<double> registers;
  std::optional<double> shared_bytes;
  std::optional<double> waves;
};

void take_most(std::optional<double>& most, std::optional<double> number) {
  if (number) most = std::max(most.value_or(*number), *number);
}

std::map<std::string, KernelSummary> rows_of(const CheckedProgram& program) {
  std::map<std::string, KernelSummary> rows;
  for (const PipelineReport& report : program.reports) {
    const fb::Kernel& kernel = program.view->kernel(report.kernel);
    KernelSummary& row = rows[std::string(PlanView::text(kernel.name()))];
    ++row.pipelines;
    row.failed += report.status.ok() ? 0 : 1;
    row.spilling += spills(report) ? 1 : 0;
    row.milliseconds += report.milliseconds;
    take_most(row.registers, number_of(report, kRegisters));
    take_most(row.shared_bytes, number_of(report, kShared));
    const std::optional<double> waves = number_of(report, kWaves);
    if (waves) row.waves = std::min(row.waves.value_or(*waves), *waves);
  }
  return rows;
}

std::string cell(const std::optional<double>& number) {
  return number ? std::to_string(static_cast<uint64_t>(*number)) : "-";
}

void print_program(const CheckedProgram& program) {
  std::printf("%s, program %s", program.plan.c_str(), program.name.c_str());
  if (!program.suits.ok()) {
    std::printf(": not checked, %s\n", program.suits.message().c_str());
    return;
  }
  const auto failed = std::ranges::count_if(
      program.reports, [](const PipelineReport& report) { return !report.status.ok(); });
  std::printf(": %zu pipelines, %td refused, %td spill registers\n", program.reports.size(), failed,
              std::ranges::count_if(program.reports, spills));
  std::printf(
      "| kernel | pipelines | ms | registers | spilling | shared bytes | fewest waves |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const auto& [name, row] : rows_of(program)) {
    std::printf("| %s | %u | %.0f | %s | %u | %s | %s |\n", name.c_str(), row.pipelines,
                row.milliseconds, cell(row.registers).c_str(), row.spilling,
                cell(row.shared_bytes).c_str(), cell(row.waves).c_str());
  }
  for (const PipelineReport& report : program.reports) {
    const std::string kernel = kernel_text(program.view->kernel(report.kernel));
    if (!report.status.ok())
      std::printf("refused: %s: %s\n", kernel.c_str(), report.status.message().c_str());
    if (spills(report)) {
      std::printf("spills: %s: %s\n", kernel.c_str(), cell(number_of(report, kSpills)).c_str());
    }
  }
}

nlohmann::ordered_json json_of(const CheckedProgram& program) {
  nlohmann::ordered_json json = {{"plan", program.plan}, {"program", program.name}};
  if (!program.suits.ok()) json["not_checked"] = program.suits.message();
  nlohmann::ordered_json pipelines = nlohmann::ordered_json::array();
  for (const PipelineReport& report : program.reports) {
    const fb::Kernel& kernel = program.view->kernel(report.kernel);
    nlohmann::ordered_json told = {{"kernel", PlanView::text(kernel.name())},
                                   {"specialization", PlanView::text(kernel.specialization())},
                                   {"ms", report.milliseconds},
                                   {"spills", spills(report)}};
    if (!report.status.ok()) told["refused"] = report.status.message();
    for (const auto& [name, number] : report.statistics) told["statistics"][name] = number;
    pipelines.push_back(std::move(told));
  }
  json["pipelines"] = std::move(pipelines);
  return json;
}

// Nothing is allocated, and a driver without its GPU has no memory.
PlanHeader without_memory(PlanHeader header) {
  header.weights_bytes = header.state_bytes = header.arena_bytes = 0;
  header.io_bytes = header.index_error_bytes = 0;
  return header;
}

// The plan's programs for Vulkan, checked.
Status check_plan(const CheckArguments& arguments, const std::string& path, const Device& device,
                  std::vector<CheckedProgram>& checked) {
  std::shared_ptr<const PlanView> plan;
  RLX_RETURN_IF_ERROR(PlanView::open_file(path, {}, plan));
  constexpr auto kVulkan = fb::TargetKind::Vulkan;
  std::vector<std::shared_ptr<const PlanView>> views;
  for (const uint32_t profile : profiles_of(plan->header(), kVulkan))
    views.push_back(PlanView::of_profile(plan, profile));
  if (views.empty()) views.push_back(plan);
  for (const std::shared_ptr<const PlanView>& view : views) {
    CheckedProgram& program =
        checked.emplace_back(CheckedProgram{.plan = path,
                                            .name = std::string(view->program_name(kVulkan)),
                                            .view = view,
                                            .suits = {},
                                            .reports = {}});
    program.suits = device.check_suits(without_memory(view->header()));
    if (!program.suits.ok()) continue;
    RLX_RETURN_IF_ERROR(check_vulkan_pipelines(device, *view, arguments.jobs, program.reports));
  }
  return {};
}

// What the loader and Mesa's drivers read when they are opened.
void choose_driver(const CheckArguments& arguments) {
  if (!arguments.driver.empty()) {
    for (const char* name : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"})
      ::setenv(name, arguments.driver.c_str(), 1);
  }
  if (!arguments.gpu.empty()) ::setenv("RADV_FORCE_FAMILY", arguments.gpu.c_str(), 1);
}

// Mesa's driver ends the process at a GPU that it does not know: asked by one apart.
bool survives_opening(const CheckArguments& arguments) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::shared_ptr<Device> device;
    (void)open_vulkan_device(arguments.device, device, {});
    ::_exit(0);
  }
  int status = 0;
  return child < 0 || ::waitpid(child, &status, 0) != child || WIFEXITED(status);
}

int report_refusal(const Status& status) {
  std::fprintf(stderr, "rlxc: error: %s\n", status.message().c_str());
  return static_cast<int>(tool::exit_code_for(status.code()));
}

// A refused pipeline, and a plan of which the device suits no program, are the device's fault.
int exit_code_of(const std::vector<CheckedProgram>& checked) {
  std::map<std::string, bool> suits;
  bool has_spills = false;
  bool has_refusals = false;
  for (const CheckedProgram& program : checked) {
    suits[program.plan] = suits[program.plan] || program.suits.ok();
    for (const PipelineReport& report : program.reports) {
      has_refusals = has_refusals || !report.status.ok();
      has_spills = has_spills || spills(report);
    }
  }
  const bool all_suit = std::ranges::all_of(suits, [](const auto& plan) { return plan.second; });
  if (has_refusals || !all_suit) return kExitDeviceUnsuitable;
  return has_spills ? kExitMismatch : kExitOk;
}

int check_plans(const CheckArguments& arguments) {
  std::error_code ignored;
  if (!arguments.driver.empty() && !std::filesystem::exists(arguments.driver, ignored))
    return usage_error("--driver: there is no file " + arguments.driver +
                       "; Debian's are in /usr/share/vulkan/icd.d");
  choose_driver(arguments);
  if (!arguments.gpu.empty() && !survives_opening(arguments))
    return report_refusal({RLX_NO_DEVICE, "--gpu " + arguments.gpu +
                                              ": the driver ended at this name; Mesa's version "
                                              "knows which GPUs there are"});
  std::shared_ptr<Device> device;
  if (Status status = open_vulkan_device(arguments.device, device, {.pipeline_statistics = true});
      !status.ok())
    return report_refusal(status);
  const DeviceInfo& info = device->info();
  if (!arguments.gpu.empty() && info.name.find("RADV " + arguments.gpu) == std::string::npos) {
    return report_refusal(
        {RLX_NO_DEVICE, "--gpu " + arguments.gpu + ": the driver opened " + info.name +
                            ", which is none; --driver names radv's manifest, and "
                            "Mesa's version knows which GPUs there are"});
  }
  std::vector<CheckedProgram> checked;
  for (const std::string& plan : arguments.plans) {
    if (Status status = check_plan(arguments, plan, *device, checked); !status.ok())
      return report_refusal(status);
  }
  if (arguments.json) {
    nlohmann::ordered_json json = {{"schema_version", tool::kJsonSchemaVersion},
                                   {"device", {{"name", info.name}, {"driver", info.driver}}}};
    for (const CheckedProgram& program : checked) json["programs"].push_back(json_of(program));
    const std::string text =
        json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    std::printf("%s\n", text.c_str());
  } else {
    std::printf("%s %s (%s), subgroups of %u\n", info.id.c_str(), info.name.c_str(),
                info.driver.c_str(), info.subgroup_size);
    for (const CheckedProgram& program : checked) print_program(program);
  }
  return exit_code_of(checked);
}

}  // namespace

void add_check_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command = app.add_subcommand(
      "check",
      "Have a Vulkan driver compile a plan's kernels: which it refuses, and what it makes of the "
      "others. Exit code 3 where one is refused, 4 where one spills registers");
  command->add_option("PLAN", arguments->plans, "Plan files")->required();
  command
      ->add_option("--driver", arguments->driver,
                   "The driver, instead of those that are installed: its manifest, as "
                   "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json")
      ->type_name("ICD.json");
  command
      ->add_option("--gpu", arguments->gpu,
                   "Of Mesa's radv: a GPU that need not be there, as NAVI21, VEGA10 or GFX1100")
      ->type_name("FAMILY");
  command->add_option("--device", arguments->device, "vulkan:N")->capture_default_str();
  command->add_option("-j,--threads", arguments->jobs, "Threads; 0: one per core")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "Print everything that the driver tells as JSON");
  command->callback(
      [arguments, &action] { action = [arguments] { return check_plans(*arguments); }; });
}

}  // namespace rlx
