// SPDX-License-Identifier: Apache-2.0
// --device-model, and `rlxc device-models`.
#include "tools/rlxc/device_models.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/import/device_profile_json.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {
namespace {

std::string built_in_names() {
  std::string names;
  for (const DeviceProfile& profile : built_in_profiles())
    names += (names.empty() ? "" : ", ") + profile.name;
  return names;
}

std::optional<DeviceProfile> find_built_in(const std::string& name) {
  for (DeviceProfile& profile : built_in_profiles()) {
    if (profile.name == name) return std::move(profile);
  }
  return std::nullopt;
}

// One argument: which targets it is for, and the profile.
struct AskedModel {
  std::string target;  // empty: all
  DeviceProfile profile;
};

// Built-in names come before files; nullopt where it is neither, or a file that is refused.
std::optional<AskedModel> load_argument(const std::string& argument, int& exit_code) {
  AskedModel asked;
  std::string name = argument;
  const size_t equals = argument.find('=');
  if (equals != std::string::npos && find_target(argument.substr(0, equals)) != nullptr) {
    asked.target = argument.substr(0, equals);
    name = argument.substr(equals + 1);
  }
  std::optional<DeviceProfile> profile = find_built_in(name);
  std::error_code ignored;
  if (!profile && !std::filesystem::exists(name, ignored)) {
    exit_code = usage_error("--device-model " + argument + ": there is no file " + name +
                            ", and built-in models are " + built_in_names());
    return std::nullopt;
  }
  if (!profile) {
    Diagnostics diagnostics;
    profile = read_device_profile(name, diagnostics);
    exit_code = report(diagnostics);
    if (!profile) return std::nullopt;
  }
  asked.profile = std::move(*profile);
  return asked;
}

std::string target_list(const DeviceProfile& profile) {
  std::string names;
  for (const DeviceColumn& column : profile.columns)
    names += (names.empty() ? "" : ", ") + column.target;
  return names;
}

// The argument for a target: one that names it before one that names none.
const AskedModel* model_for(const std::vector<AskedModel>& models, const std::string& target) {
  const AskedModel* found = nullptr;
  for (const AskedModel& asked : models) {
    if (asked.target == target) return &asked;
    if (asked.target.empty()) found = &asked;
  }
  return found;
}

std::optional<std::string> find_misuse(const std::vector<AskedModel>& models,
                                       const std::vector<std::string>& targets) {
  for (const AskedModel& asked : models) {
    const auto same = [&](const AskedModel& other) { return other.target == asked.target; };
    if (std::count_if(models.begin(), models.end(), same) > 1) {
      return "--device-model is given twice for " +
             (asked.target.empty() ? "all targets" : "target " + asked.target);
    }
    if (!asked.target.empty() &&
        std::find(targets.begin(), targets.end(), asked.target) == targets.end())
      return "--device-model names target " + asked.target + ", which is not asked for";
  }
  return std::nullopt;
}

int list_models() {
  for (const DeviceProfile& profile : built_in_profiles()) {
    std::printf("%s\n", profile.name.c_str());
    for (const DeviceColumn& column : profile.columns)
      std::printf("  %-14s %s\n", column.target.c_str(), column.fitted_from.c_str());
  }
  return kExitOk;
}

// Every number of any target, once.
std::vector<DeviceNumber> all_numbers(DeviceModel& model) {
  std::vector<DeviceNumber> numbers;
  for (const Target& target : all_targets()) {
    for (const DeviceNumber& number : numbers_of(model, target)) {
      const auto same = [&](const DeviceNumber& other) { return other.place == number.place; };
      if (std::none_of(numbers.begin(), numbers.end(), same)) numbers.push_back(number);
    }
  }
  return numbers;
}

int explain_numbers(bool as_json) {
  DeviceModel model;
  nlohmann::ordered_json numbers = nlohmann::ordered_json::array();
  for (const DeviceNumber& number : all_numbers(model)) {
    if (as_json) {
      numbers.push_back({{"number", number.path()},
                         {"unit", number.unit},
                         {"least", number.least},
                         {"most", number.most},
                         {"whole", number.whole()},
                         {"meaning", number.meaning}});
    } else {
      std::printf("%-32s %-10s %g to %g: %s\n", number.path().c_str(),
                  std::string(number.unit).c_str(), number.least, number.most,
                  std::string(number.meaning).c_str());
    }
  }
  if (as_json) {
    const nlohmann::ordered_json json = {{"schema_version", tool::kJsonSchemaVersion},
                                         {"numbers", std::move(numbers)}};
    std::printf("%s\n", json.dump(2).c_str());
  }
  return kExitOk;
}

int print_model(const std::string& name) {
  int exit_code = kExitOk;
  std::optional<AskedModel> asked = load_argument(name, exit_code);
  if (!asked) return exit_code;
  std::fputs(device_profile_json(std::move(asked->profile)).c_str(), stdout);
  return kExitOk;
}

}  // namespace

void add_device_model_option(CLI::App& command, std::vector<std::string>& arguments) {
  command
      .add_option("--device-model", arguments,
                  "Device that estimates reckon with: a built-in one (" + built_in_names() +
                      ") or a file, for every target or, as cuda=h100.json, for one; may be "
                      "repeated (default: h200)")
      ->allow_extra_args(false);
}

std::optional<std::vector<ModelForTarget>> parse_device_models(
    const std::vector<std::string>& arguments, const std::vector<std::string>& targets,
    int& exit_code) {
  std::vector<AskedModel> models;
  for (const std::string& argument : arguments) {
    std::optional<AskedModel> asked = load_argument(argument, exit_code);
    if (!asked) return std::nullopt;
    models.push_back(std::move(*asked));
  }
  if (const auto misuse = find_misuse(models, targets)) {
    exit_code = usage_error(*misuse);
    return std::nullopt;
  }
  std::vector<ModelForTarget> result;
  for (const std::string& target : targets) {
    const AskedModel* asked = model_for(models, target);
    if (asked == nullptr) continue;
    const DeviceColumn* column = asked->profile.column(target);
    if (column == nullptr) {
      exit_code =
          usage_error("device model \"" + asked->profile.name + "\" says nothing of target " +
                      target + ", only of " + target_list(asked->profile) +
                      "; name one for each target, as --device-model " + target + "=h200");
      return std::nullopt;
    }
    result.push_back({.target = target, .name = asked->profile.name, .model = column->model});
  }
  return result;
}

void add_device_models_command(CLI::App& app, Action& action) {
  struct Arguments {
    std::string name;
    bool numbers = false;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "device-models", "The devices that --device-model knows, and where their numbers come from");
  command->add_option("NAME", arguments->name, "Print this one, or a file, as JSON");
  command->add_flag("--numbers", arguments->numbers, "Say what each number of a model is");
  command->add_flag("--json", arguments->json, "With --numbers: as JSON");
  command->callback([arguments, &action] {
    action = [arguments] {
      if (arguments->numbers) return explain_numbers(arguments->json);
      return arguments->name.empty() ? list_models() : print_model(arguments->name);
    };
  });
}

}  // namespace rlx
