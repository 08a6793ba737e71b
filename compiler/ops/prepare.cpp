// SPDX-License-Identifier: Apache-2.0
// What a node needs before its types can be inferred, and values that are known by then.
#include "compiler/ops/prepare.h"

#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

// Larger tensors are no sizes or bounds, which is what shape rules want to know.
constexpr int64_t kMostKnownElements = 1024;
// Of all known values of a graph; what would exceed it is not known. 8 bytes each.
constexpr int64_t kMostKeptElements = int64_t{1} << 24;

bool is_small(const Value& value) {
  return block_elements(value.type.dtype) == 1 &&
         element_count(value.type.shape) <= kMostKnownElements;
}

// The node whose evaluation gives the value, or nullptr.
const Node* evaluable_producer(const Graph& graph, const Value& value) {
  if (value.origin != ValueOrigin::Node || !value.producer) return nullptr;
  const Node& node = graph.node(*value.producer);
  const OpDef* op = find_op(node.op);
  if (op == nullptr || op->evaluate == nullptr || op->has_effect || op->seed_input ||
      node.outputs.size() != 1)
    return nullptr;
  return node.inputs.empty() ? nullptr : &node;
}

std::optional<Tensor> constant_of(const Module& module, const Value& value) {
  const Weight& weight = module.weight(*value.weight);
  const auto* host = std::get_if<HostBytes>(&weight.data);
  if (!weight.is_constant || host == nullptr) return std::nullopt;
  return Tensor::from_bytes(value.type, host->bytes);
}

}  // namespace

const Tensor* KnownValues::find(const Module& module, const Graph& graph, ValueId id) {
  // Inputs before what is made of them, without recursion: chains are as long as graphs.
  std::vector<ValueId> open = {id};
  while (!open.empty()) {
    const ValueId next = open.back();
    const Value& value = graph.value(next);
    const Node* node = is_small(value) ? evaluable_producer(graph, value) : nullptr;
    const size_t before = open.size();
    if (!values_.contains(next) && node != nullptr && !find_op(node->op)->shape_only) {
      for (const std::optional<ValueId>& input : node->inputs) {
        if (input && !values_.contains(*input)) open.push_back(*input);
      }
    }
    if (open.size() > before) continue;
    open.pop_back();
    if (!values_.contains(next)) work_out(module, graph, next);
  }
  const std::optional<Tensor>& known = values_.at(id);
  return known ? &*known : nullptr;
}

void KnownValues::work_out(const Module& module, const Graph& graph, ValueId id) {
  std::optional<Tensor>& result = values_[id];
  const Value& value = graph.value(id);
  const int64_t elements = element_count(value.type.shape);
  if (!is_small(value) || elements_ + elements > kMostKeptElements) return;
  if (value.weight) {
    result = constant_of(module, value);
  } else if (const Node* node = evaluable_producer(graph, value)) {
    const bool by_shape = find_op(node->op)->shape_only;
    std::vector<Tensor> shapes(node->inputs.size());
    std::vector<const Tensor*> inputs;
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      inputs.push_back(nullptr);
      if (!node->inputs[i]) continue;
      shapes[i].type = graph.value(*node->inputs[i]).type;
      const std::optional<Tensor>* known = by_shape ? nullptr : &values_.at(*node->inputs[i]);
      if (known != nullptr && !known->has_value()) return;
      inputs.back() = known != nullptr ? &**known : &shapes[i];
    }
    Diagnostics diagnostics;
    auto results = evaluate_node(*node, std::move(inputs), {value.type}, diagnostics);
    if (!results) return;
    results->front().round_to_dtype();
    result = std::move(results->front());
  }
  if (result) elements_ += elements;
}

bool prepare_node(const Module& module, Graph& graph, NodeId id, KnownValues& known,
                  Diagnostics& diagnostics) {
  const std::string& op = graph.node(id).op;
  if (op == "ew_region") return prepare_chain(graph, id, diagnostics);
  if (op == "loop") return prepare_loop(module, graph, id, known, diagnostics);
  if (op == "range") return prepare_range(module, graph, id, known, diagnostics);
  if (op == "topk") prepare_topk(module, graph, id, known);
  const OpDef* def = find_op(op);
  if (def != nullptr && def->seed_input) prepare_stream(graph, id);
  return true;
}

}  // namespace rlx
