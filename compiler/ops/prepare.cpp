// SPDX-License-Identifier: Apache-2.0
// What a node needs before its types can be inferred, and values that are known by then.
#include "compiler/ops/prepare.h"

#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

// Larger tensors are no sizes or bounds, which is what shape rules want to know.
constexpr int64_t kMostKnownElements = 1024;

bool is_small(const Value& value) {
  return block_elements(value.type.dtype) == 1 &&
         element_count(value.type.shape) <= kMostKnownElements;
}

std::optional<Tensor> known_result(const Module& module, const Graph& graph, const Value& value) {
  const Node& node = graph.node(*value.producer);
  const OpDef* op = find_op(node.op);
  if (op == nullptr || op->evaluate == nullptr || op->has_effect || node.outputs.size() != 1)
    return std::nullopt;
  std::vector<std::optional<Tensor>> inputs;
  std::vector<const Tensor*> pointers;
  for (const std::optional<ValueId>& input : node.inputs) {
    inputs.emplace_back();
    if (!input) continue;
    if (op->shape_only) {
      inputs.back().emplace().type = graph.value(*input).type;
    } else {
      inputs.back() = known_value(module, graph, *input);
      if (!inputs.back()) return std::nullopt;
    }
  }
  if (inputs.empty()) return std::nullopt;
  for (const std::optional<Tensor>& input : inputs) pointers.push_back(input ? &*input : nullptr);
  Diagnostics diagnostics;
  auto results = evaluate_node(node, std::move(pointers), {value.type}, diagnostics);
  if (!results) return std::nullopt;
  results->front().round_to_dtype();
  return std::move(results->front());
}

}  // namespace

std::optional<Tensor> known_value(const Module& module, const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!is_small(value)) return std::nullopt;
  if (value.weight) {
    const Weight& weight = module.weight(*value.weight);
    const auto* host = std::get_if<HostBytes>(&weight.data);
    if (!weight.is_constant || host == nullptr) return std::nullopt;
    return Tensor::from_bytes(value.type, host->bytes);
  }
  if (value.origin != ValueOrigin::Node || !value.producer) return std::nullopt;
  return known_result(module, graph, value);
}

bool prepare_node(const Module& module, Graph& graph, NodeId id, Diagnostics& diagnostics) {
  const std::string& op = graph.node(id).op;
  if (op == "ew_region") return prepare_chain(graph, id, diagnostics);
  if (op == "range") return prepare_range(module, graph, id, diagnostics);
  if (op == "topk") prepare_topk(module, graph, id);
  return true;
}

}  // namespace rlx
