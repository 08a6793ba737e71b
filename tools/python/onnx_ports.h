// SPDX-License-Identifier: Apache-2.0
// What an ONNX model's file declares of itself, before any size is known: inputs, outputs, and who
// made it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rlx::python {

// A number, the name of a symbol, or nothing where the dim is open.
using OnnxDim = std::variant<std::monostate, int64_t, std::string>;

struct OnnxPort {
  std::string name;
  int element_type = 0;  // onnx.TensorProto.DataType
  std::vector<OnnxDim> dims;
};

// As the model's and its graph's fields have it.
struct OnnxMetadata {
  std::string producer_name;
  std::string graph_name;
  std::string domain;
  std::string description;
  std::string graph_description;
  int64_t version = 0;
  std::vector<std::pair<std::string, std::string>> custom;
};

struct OnnxPorts {
  std::vector<OnnxPort> inputs;  // without those that have initializers
  std::vector<OnnxPort> outputs;
  OnnxMetadata metadata;
};

// nullopt for bytes that are no ONNX model, and in a build that reads none.
std::optional<OnnxPorts> onnx_ports(std::span<const char> model);

}  // namespace rlx::python
