// SPDX-License-Identifier: Apache-2.0
// `rlxc reference`: runs a model on the f64 evaluator.
#include <CLI/CLI.hpp>
#include <memory>

#include "compiler/import/import.h"
#include "compiler/import/keep.h"
#include "compiler/reference/evaluate.h"
#include "tools/npy/array_folder.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/model_inputs.h"
#include "tools/rlxc/report.h"
#include "tools/rlxc/training.h"

namespace rlx {
namespace {

struct ReferenceArguments {
  std::string model;
  std::vector<std::string> inputs;
  std::string outputs;
  std::string entry;
  ImportArguments import;
  KeptValues kept;
  TrainingArguments training;
  bool float64 = false;
};

Status write_outputs(const Graph& graph, const std::vector<Tensor>& outputs,
                     const ReferenceArguments& arguments) {
  npy::ArrayFolder folder;
  RLX_RETURN_IF_ERROR(npy::ArrayFolder::open(arguments.outputs, folder));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = output_name(graph, i);
    npy::Array array;
    RLX_RETURN_IF_ERROR(array_of(name, outputs[i], arguments.float64, array));
    std::string path;
    RLX_RETURN_IF_ERROR(folder.write(name, array, path));
  }
  return {};
}

int reference(const ReferenceArguments& arguments) {
  TrainingArguments training = arguments.training;
  if (const auto misuse = find_training_misuse(training)) return usage_error(*misuse);
  const auto import = parse_model_options(arguments.import);
  if (!import) return kExitUsage;
  Diagnostics diagnostics;
  if (!load_extensions(arguments.import, diagnostics)) return report(diagnostics);
  std::optional<Module> module = load_module(arguments.model, *import, diagnostics);
  if (!module || !keep_values(*module, arguments.kept, diagnostics) ||
      !apply_training(*module, training, diagnostics))
    return report(diagnostics);
  const Graph* graph = find_graph(*module, arguments.entry);
  if (graph == nullptr) return kExitUsage;
  Arrays arrays;
  if (const Status status = read_arguments(arguments.inputs, *graph, arrays); !status.ok())
    return refuse(status.message());
  const std::optional<std::vector<Tensor>> inputs = gather_inputs(*graph, arrays);
  if (!inputs) return kExitInputRefused;
  StateValues states;
  const auto outputs = evaluate_entry(*module, *graph, *inputs, states, {}, diagnostics);
  const int code = report(diagnostics);
  if (!outputs) return code != kExitOk ? code : kExitInternal;
  return report_written(write_outputs(*graph, *outputs, arguments));
}

}  // namespace

void add_reference_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<ReferenceArguments>();
  CLI::App* command = app.add_subcommand("reference", "Run a model on the host in 64-bit floats");
  command
      ->add_option("MODEL", arguments->model,
                   "Graph file: .json, .rlxg, .onnx or .gguf; or a checkpoint's folder")
      ->required();
  command->add_option("--inputs", arguments->inputs,
                      "NAME=FILE.npy, FILE.npz, or FILE.npy for a single input");
  command->add_option("--outputs", arguments->outputs, "Folder for one .npy file per output")
      ->required();
  command->add_option("--entry", arguments->entry, "Entry to run (default: the only one)");
  add_import_options(*command, arguments->import);
  add_keep_options(*command, arguments->kept);
  add_training_options(*command, arguments->training);
  command->add_flag("--auto-promote", arguments->import.auto_promote,
                    "Cast operands of elementwise ops to a common type");
  command->add_flag("--float64", arguments->float64, "Write float outputs unrounded as f64");
  command->callback(
      [arguments, &action] { action = [arguments] { return reference(*arguments); }; });
}

}  // namespace rlx
