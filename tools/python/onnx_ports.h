// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of an ONNX model as its file declares them, before any size is known.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

struct OnnxPorts {
  std::vector<OnnxPort> inputs;  // without those that have initializers
  std::vector<OnnxPort> outputs;
};

// nullopt for bytes that are no ONNX model, and in a build that reads none.
std::optional<OnnxPorts> onnx_ports(std::span<const char> model);

}  // namespace rlx::python
