// SPDX-License-Identifier: Apache-2.0
#include "tools/rlxc/model_inputs.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tools/program/terminal.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {
namespace {

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

}  // namespace

int refuse(const std::string& message) {
  tool::say_error("rlxc", message);
  return kExitInputRefused;
}

const Graph* find_graph(const Module& module, const std::string& name) {
  std::string names;
  for (const Graph& graph : module.entries) {
    if (graph.name == name || (name.empty() && module.entries.size() == 1)) return &graph;
    names += (names.empty() ? "" : ", ") + graph.name;
  }
  usage_error((name.empty() ? "--entry is missing" : "the model has no entry \"" + name + "\"") +
              std::string("; entries are ") + names);
  return nullptr;
}

Status read_arguments(const std::vector<std::string>& arguments, const Graph& graph,
                      Arrays& arrays) {
  for (const std::string& argument : arguments)
    RLX_RETURN_IF_ERROR(read_argument(argument, graph, arrays));
  return {};
}

const std::string& output_name(const Graph& graph, size_t output) {
  return graph.output_names.empty() ? graph.value(graph.outputs()[output]).name
                                    : graph.output_names.at(output);
}

Status array_of(const std::string& name, const Tensor& tensor, bool float64, npy::Array& array) {
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

}  // namespace rlx
