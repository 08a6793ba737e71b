// SPDX-License-Identifier: Apache-2.0
// `rlxc reference`: runs a model on the f64 evaluator.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include "compiler/import/import.h"
#include "compiler/import/keep.h"
#include "compiler/reference/evaluate.h"
#include "tools/npy/array_folder.h"
#include "tools/rlxc/commands.h"
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

// A file of --inputs that does not fit; the exit code tells it from wrong use.
int refuse(const std::string& message) {
  std::fprintf(stderr, "rlxc: error: %s\n", message.c_str());
  return kExitInputRefused;
}

const Graph* find_entry(const Module& module, const std::string& name) {
  std::string names;
  for (const Graph& graph : module.entries) {
    if (graph.name == name || (name.empty() && module.entries.size() == 1)) return &graph;
    names += (names.empty() ? "" : ", ") + graph.name;
  }
  usage_error((name.empty() ? "--entry is missing" : "the model has no entry \"" + name + "\"") +
              std::string("; entries are ") + names);
  return nullptr;
}

std::string input_list(const Graph& graph) {
  std::string list;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    list += (list.empty() ? "" : ", ") + value.name + " " + to_string(value.type);
  }
  return list;
}

bool has_suffix(const std::string& text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.ends_with(suffix);
}

using Arrays = std::map<std::string, npy::Array>;

// What is wrong with an array of this type as input of that name; nothing is converted.
Status check_input(const Graph& graph, std::string_view name, npy::Element element,
                   const std::vector<uint64_t>& dims) {
  const auto input = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                  [&](ValueId id) { return graph.value(id).name == name; });
  if (input == graph.inputs.end()) {
    return {RLX_INVALID_ARGUMENT,
            "there is no input \"" + std::string(name) + "\"; inputs are " + input_list(graph)};
  }
  const Value& value = graph.value(*input);
  const std::vector<uint64_t> wanted(value.type.shape.begin(), value.type.shape.end());
  if (npy::carries(element, static_cast<uint32_t>(value.type.dtype)) && dims == wanted) return {};
  return {RLX_INVALID_ARGUMENT,
          "input \"" + value.name + "\" got " + std::string(npy::element_name(element)) +
              to_string(Shape(dims.begin(), dims.end())) + ", wanted " + to_string(value.type)};
}

// One argument of --inputs: NAME=FILE.npy, FILE.npz, or FILE.npy where the entry has one input.
Status read_argument(const std::string& argument, const Graph& graph, Arrays& arrays) {
  const npy::Wanted wanted = [&](std::string_view name, npy::Element element,
                                 const std::vector<uint64_t>& dims) -> Status {
    RLX_RETURN_IF_ERROR(check_input(graph, name, element, dims));
    if (arrays.contains(std::string(name)))
      return {RLX_INVALID_ARGUMENT, "input \"" + std::string(name) + "\" is given twice"};
    return {};
  };
  if (has_suffix(argument, ".npz")) {
    std::vector<npy::NamedArray> members;
    RLX_RETURN_IF_ERROR(npy::read_npz(argument, wanted, members));
    for (npy::NamedArray& member : members) arrays[member.name] = std::move(member.array);
    return {};
  }
  const size_t equals = argument.find('=');
  if (equals == std::string::npos && graph.inputs.size() != 1) {
    return {RLX_INVALID_ARGUMENT,
            "--inputs \"" + argument + "\" is not NAME=FILE.npy; inputs are " + input_list(graph)};
  }
  const std::string name = equals == std::string::npos ? graph.value(graph.inputs.front()).name
                                                       : argument.substr(0, equals);
  const std::string path = equals == std::string::npos ? argument : argument.substr(equals + 1);
  npy::Array array;
  RLX_RETURN_IF_ERROR(npy::read_npy(path, name, wanted, array));
  arrays[name] = std::move(array);
  return {};
}

// An output as NumPy's type of its dtype, or as f64 before rounding.
Status to_array(const std::string& name, const Tensor& tensor, bool float64, npy::Array& array) {
  array.dims.assign(tensor.type.shape.begin(), tensor.type.shape.end());
  if (float64 && tensor.is_float()) {
    array.element = npy::Element::F64;
    array.data.resize(tensor.floats.size() * sizeof(double));
    if (!array.data.empty())
      std::memcpy(array.data.data(), tensor.floats.data(), array.data.size());
    return {};
  }
  const auto element = npy::element_for(static_cast<uint32_t>(tensor.type.dtype));
  if (!element) {
    return {RLX_INVALID_ARGUMENT,
            "output \"" + name + "\" is " + to_string(tensor.type) + ", which .npy lacks"};
  }
  array.element = *element;
  array.data = tensor.to_bytes();
  return {};
}

// nullopt after a refusal was printed.
std::optional<std::vector<Tensor>> gather_inputs(const Graph& graph, const Arrays& arrays) {
  std::vector<Tensor> tensors;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    const auto found = arrays.find(value.name);
    if (found == arrays.end()) {
      refuse("input \"" + value.name + "\" is missing; inputs are " + input_list(graph));
      return std::nullopt;
    }
    tensors.push_back(Tensor::from_bytes(value.type, found->second.data));
  }
  return tensors;
}

Status write_outputs(const Graph& graph, const std::vector<Tensor>& outputs,
                     const ReferenceArguments& arguments) {
  npy::ArrayFolder folder;
  RLX_RETURN_IF_ERROR(npy::ArrayFolder::open(arguments.outputs, folder));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = graph.output_names.empty() ? graph.value(graph.outputs()[i]).name
                                                         : graph.output_names.at(i);
    npy::Array array;
    RLX_RETURN_IF_ERROR(to_array(name, outputs[i], arguments.float64, array));
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
  std::optional<Module> module = load_module(arguments.model, *import, diagnostics);
  if (!module || !keep_values(*module, arguments.kept, diagnostics) ||
      !apply_training(*module, training, diagnostics))
    return report(diagnostics);
  const Graph* graph = find_entry(*module, arguments.entry);
  if (graph == nullptr) return kExitUsage;
  Arrays arrays;
  for (const std::string& argument : arguments.inputs) {
    if (const Status status = read_argument(argument, *graph, arrays); !status.ok()) {
      return refuse(status.message());
    }
  }
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
