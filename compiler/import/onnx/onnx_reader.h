// SPDX-License-Identifier: Apache-2.0
// ONNX models in: the same SourceGraph as from the other readers, with symbols bound or kept.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/ir/tensor.h"

namespace rlx {

struct OnnxOptions {
  DimBindings dims;                     // of symbolic dims; an unnamed one is called "input.axis"
  std::map<std::string, Shape> shapes;  // of inputs, whole
  // Inputs that become constants of the model: their values, or texts for const_tensor.
  std::map<std::string, std::variant<std::string, Tensor>> fixed_inputs;
  std::string folder;         // where external data is looked for
  bool keep_symbols = false;  // what is not bound stays a symbol of the graph
  // Of loops whose end only the run knows, the most trips; none: they are refused.
  std::optional<int64_t> max_iterations = std::nullopt;
  MaxCounts max_counts = {};
};

struct OnnxResult {
  std::optional<SourceGraph> graph;  // nullopt after at least one error
  std::vector<std::string> inputs;   // of the model, in order, without those that it initializes
  // Inputs of the model whose values the importer would have to know (shapes, axes, pads, ...).
  std::set<std::string> wanted_inputs;
};

// True where this build can read ONNX models.
bool can_read_onnx();

// An operator that is read, and the opsets of its domain that defined it anew.
struct OnnxOperator {
  std::string domain;  // "" for the default one
  std::string name;
  std::vector<int64_t> opsets;
};
// All of them, in order of their domains and names.
std::vector<OnnxOperator> onnx_operators();
// The oldest opset whose definitions are read as they stand, and the newest. Of older ones a node
// is read where its definition said the same.
inline constexpr int64_t kOldestWholeOpset = 6;
inline constexpr int64_t kNewestOpset = 28;

// Reads a ModelProto. Opsets 7 and newer of the default domain are read as ops.md 19 defines them,
// older ones where an operator meant the same or says what it means. Every node that cannot be
// expressed is reported, with why and what would help.
OnnxResult read_onnx_graph(const GraphBytes& bytes, const std::string& file,
                           const OnnxOptions& options, Diagnostics& diagnostics);

// Reads a TensorProto, as in test data of ONNX, where uint16 stands for bfloat16. nullopt after an
// error.
std::optional<Tensor> read_onnx_tensor(const GraphBytes& bytes, const std::string& file,
                                       Diagnostics& diagnostics);

}  // namespace rlx
