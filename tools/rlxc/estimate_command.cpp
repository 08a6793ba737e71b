// SPDX-License-Identifier: Apache-2.0
// `rlxc estimate`: what the cost models expect of each step of models.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/compile.h"
#include "compiler/import/device_profile_json.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/device_models.h"
#include "tools/rlxc/report.h"
#include "tools/tune_forms/form_file.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;

struct EstimateArguments {
  std::vector<std::string> models;
  std::string target = "vulkan";
  std::vector<std::string> device_models;
  std::string tuned;
  std::vector<std::string> dims;
  int optimisation = 2;
  bool tf32 = false;
  bool follow = false;
};

// One model file and its steps.
struct EstimatedModel {
  std::string file;
  std::vector<StepEstimate> steps;
};

Json step_json(const StepEstimate& step, const DeviceModel& device) {
  return {{"entry", step.entry}, {"kernel", step.kernel}, {"node", step.node},
          {"flops", step.flops}, {"bytes", step.bytes},   {"us", step.microseconds(device)}};
}

Json models_json(const std::vector<EstimatedModel>& models, const DeviceModel& device) {
  Json json = Json::array();
  for (const EstimatedModel& model : models) {
    Json steps = Json::array();
    for (const StepEstimate& step : model.steps) steps.push_back(step_json(step, device));
    json.push_back({{"model", model.file}, {"steps", std::move(steps)}});
  }
  return json;
}

// Microseconds alone: a list for each model.
Json times_json(const std::vector<EstimatedModel>& models, const DeviceModel& device) {
  Json json = Json::array();
  for (const EstimatedModel& model : models) {
    Json times = Json::array();
    for (const StepEstimate& step : model.steps) times.push_back(step.microseconds(device));
    json.push_back(std::move(times));
  }
  return json;
}

// Device models from standard input, one a line, answered line by line.
int follow(const std::vector<EstimatedModel>& models, const std::string& target) {
  std::string line;
  for (size_t number = 1; std::getline(std::cin, line); ++number) {
    Diagnostics diagnostics;
    const auto profile = parse_device_profile(line, "line " + std::to_string(number), diagnostics);
    if (!profile) return report(diagnostics);
    const DeviceColumn* column = profile->column(target);
    if (column == nullptr)
      return usage_error("the device model of line " + std::to_string(number) +
                         " says nothing of target " + target);
    std::printf("%s\n", times_json(models, column->model).dump().c_str());
    std::fflush(stdout);
  }
  return kExitOk;
}

int estimate(const EstimateArguments& arguments) {
  const Target* target = find_target(arguments.target);
  if (target == nullptr) return usage_error("target \"" + arguments.target + "\" is unknown");
  const auto dims = parse_dims(arguments.dims);
  if (!dims) return kExitUsage;
  int exit_code = kExitOk;
  auto asked = parse_device_models(arguments.device_models, {arguments.target}, exit_code);
  if (!asked) return exit_code;
  CompileOptions options;
  options.targets = {arguments.target};
  options.optimisation = arguments.optimisation;
  if (arguments.tf32) options.precision = Precision::Tf32;
  options.device_models = std::move(*asked);
  std::vector<EstimatedModel> models;
  Diagnostics diagnostics;
  if (!arguments.tuned.empty()) {
    auto tuned = tune::read_form_file(arguments.tuned, diagnostics);
    if (!tuned) return report(diagnostics);
    options.tuned = {std::move(*tuned)};
  }
  for (const std::string& file : arguments.models) {
    std::optional<Module> module = load_module(file, {.dims = *dims}, diagnostics);
    if (!module) return report(diagnostics);
    auto steps = estimate_steps(std::move(*module), options, diagnostics);
    if (!steps) return report(diagnostics);
    models.push_back({.file = file, .steps = std::move(*steps)});
  }
  static_cast<void>(report(diagnostics));  // warnings
  const DeviceModel& device =
      options.device_models.empty() ? target->device : options.device_models.front().model;
  const Json json = {{"schema_version", tool::kJsonSchemaVersion},
                     {"models", models_json(models, device)}};
  std::printf("%s\n", json.dump(arguments.follow ? -1 : 2).c_str());
  std::fflush(stdout);
  return arguments.follow ? follow(models, arguments.target) : kExitOk;
}

}  // namespace

void add_estimate_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<EstimateArguments>();
  CLI::App* command = app.add_subcommand(
      "estimate",
      "What the cost models expect of each step of models, as JSON; compiles no kernel");
  command->add_option("MODEL", arguments->models, "Graph files: .json, .rlxg or .onnx")->required();
  command->add_option("--target", arguments->target, "One target, as for compiling")
      ->capture_default_str();
  add_device_model_option(*command, arguments->device_models);
  command->add_option("--dim", arguments->dims, "As for compiling")->allow_extra_args(false);
  command->add_option("--tuned", arguments->tuned,
                      "File of forms that were measured (rlxc MODEL -o PLAN --tune), to take them");
  command->add_option("-O", arguments->optimisation, "As for compiling")
      ->check(CLI::Range(0, 2))
      ->capture_default_str();
  command->add_flag("--tf32", arguments->tf32, "As --precision tf32 for compiling");
  command->add_flag("--follow", arguments->follow,
                    "Then read device models from standard input, one a line, and answer each with "
                    "the times of the same steps by it");
  command->callback(
      [arguments, &action] { action = [arguments] { return estimate(*arguments); }; });
}

}  // namespace rlx
