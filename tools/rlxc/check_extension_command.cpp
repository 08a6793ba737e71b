// SPDX-License-Identifier: Apache-2.0
// `rlxc check-extension`: an extension's description, kernels, gradients and cases.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "tools/program/cache_folder.h"
#include "tools/request/request.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/extension_cases.h"
#include "tools/rlxc/report.h"

namespace rlx {
namespace {

struct CheckExtensionArguments {
  std::string folder;
  std::string device = "vulkan";
  bool no_device = false;
};

bool tell(const ExtensionCase& test, const char* where, const std::optional<std::string>& fault) {
  if (!fault) return true;
  std::fprintf(stderr, "rlxc: error: %s \"%s\" (%s): %s\n", test.op->name.c_str(),
               test.name.c_str(), where, fault->c_str());
  return false;
}

bool check_case(const ExtensionCase& test, const CheckExtensionArguments& arguments,
                const CompileOptions& options) {
  std::optional<std::vector<Tensor>> outputs;
  if (!tell(test, "evaluator", check_on_evaluator(test, outputs))) return false;
  if (!tell(test, "gradient", check_gradient_of(test))) return false;
  return arguments.no_device ||
         tell(test, "device", check_on_device(test, arguments.device, options, outputs));
}

int check_extension(const CheckExtensionArguments& arguments) {
  Diagnostics diagnostics;
  std::optional<ExtensionFamily> family;
  for (const ExtensionFamily& built_in : built_in_extensions()) {
    if (built_in.files.folder == "built-in:" + arguments.folder) family = built_in;
  }
  if (!family) family = load_extension(arguments.folder, diagnostics);
  if (!family) return report(diagnostics);
  const auto cases = read_extension_cases(*family, diagnostics);
  if (!cases) return report(diagnostics);
  CompileOptions options;
  options.targets = {arguments.device.substr(0, arguments.device.find(':'))};
  options.cache_dir = tool::default_cache_folder();
  size_t good = 0;
  for (const ExtensionCase& test : *cases) good += check_case(test, arguments, options) ? 1 : 0;
  std::printf("%s: %zu ops, %zu of %zu cases good\n", arguments.folder.c_str(), family->ops.size(),
              good, cases->size());
  return good == cases->size() ? kExitOk : kExitInputRefused;
}

}  // namespace

void add_check_extension_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<CheckExtensionArguments>();
  CLI::App* command = app.add_subcommand(
      "check-extension",
      "Read an extension and run its table of cases: on the evaluator, its gradients against "
      "differences, its kernels on a device");
  command
      ->add_option("DIR", arguments->folder,
                   "Folder that holds extension.json, or the name of a built-in family")
      ->required();
  command
      ->add_option("--device", arguments->device, "Device that kernels run on, as vulkan or cuda:0")
      ->capture_default_str();
  command->add_flag("--no-device", arguments->no_device, "Only what needs no device");
  command->callback(
      [arguments, &action] { action = [arguments] { return check_extension(*arguments); }; });
}

}  // namespace rlx
