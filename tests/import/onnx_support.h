// SPDX-License-Identifier: Apache-2.0
// Small ONNX models made in place, and reading them.
#pragma once

#include <onnx.pb.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/onnx/onnx_reader.h"
#include "compiler/reference/evaluate.h"
#include "tests/import/import_support.h"

namespace rlx::test {

// Opset 17, one float input "x".
inline onnx::ModelProto model_with_input(const std::vector<std::string>& dims) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  onnx::ValueInfoProto& input = *graph.add_input();
  input.set_name("x");
  auto& tensor = *input.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx::TensorProto::FLOAT);
  tensor.mutable_shape();
  for (const std::string& dim : dims) {
    auto& added = *tensor.mutable_shape()->add_dim();
    if (dim.find_first_not_of("0123456789") == std::string::npos && !dim.empty()) {
      added.set_dim_value(std::stoll(dim));
    } else if (!dim.empty()) {
      added.set_dim_param(dim);
    }
  }
  return model;
}

template <typename Owner>
onnx::NodeProto& add_node(Owner& graph, const std::string& op,
                          const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(outputs.front() + "_node");
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

inline onnx::AttributeProto& add_integer(onnx::NodeProto& node, const std::string& name,
                                         int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
  return attribute;
}

template <typename T>
void add_tensor(onnx::GraphProto& graph, const std::string& name, int32_t type, const Shape& shape,
                const std::vector<T>& values) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t dim : shape) tensor.add_dims(dim);
  tensor.set_raw_data(raw_bytes(values));
}

// A graph as an attribute.
inline onnx::GraphProto& add_graph(onnx::NodeProto& node, const std::string& name) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::GRAPH);
  attribute.mutable_g()->set_name(name);
  return *attribute.mutable_g();
}

inline void add_integers(onnx::GraphProto& graph, const std::string& name,
                         const std::vector<int64_t>& values) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor.add_int64_data(value);
}

inline std::optional<SourceGraph> read(const onnx::ModelProto& model, Diagnostics& diagnostics,
                                       const OnnxOptions& options = {}) {
  return read_onnx_graph(bytes_of(model.SerializeAsString()), "m.onnx", options, diagnostics).graph;
}

inline SourceGraph read_good(const onnx::ModelProto& model, const OnnxOptions& options = {}) {
  Diagnostics diagnostics;
  std::optional<SourceGraph> graph = read(model, diagnostics, options);
  INFO(diagnostics.text());
  REQUIRE(graph.has_value());
  return *graph;
}

inline Diagnostics read_bad(const onnx::ModelProto& model, const OnnxOptions& options = {}) {
  Diagnostics diagnostics;
  CHECK_FALSE(read(model, diagnostics, options).has_value());
  return diagnostics;
}

// What the reference evaluator makes of the first entry.
inline std::vector<Tensor> evaluated(const SourceGraph& source, const std::vector<Tensor>& inputs) {
  Diagnostics diagnostics;
  const auto module = bind_module(source, {}, ".", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  StateValues states;
  auto outputs = evaluate_entry(*module, module->entries[0], inputs, states, {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(outputs.has_value());
  return *outputs;
}

inline Tensor reals(std::vector<double> values) {
  Tensor result = Tensor::zeros({DType::f32, {static_cast<int64_t>(values.size())}});
  result.floats = std::move(values);
  return result;
}

inline void check_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(i << ": got " << got[i] << ", wanted " << wanted[i]);
    CHECK(std::fabs(got[i] - wanted[i]) < 1e-5);
  }
}

inline std::string ops_of(const SourceGraph& graph) {
  std::string ops;
  for (const SourceNode& node : graph.entries.front().nodes)
    ops += (ops.empty() ? "" : " ") + node.op;
  return ops;
}

}  // namespace rlx::test
