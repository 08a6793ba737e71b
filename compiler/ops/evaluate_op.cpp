// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/evaluate_op.h"

#include <map>

#include "compiler/support/check.h"

namespace rlx {

std::vector<Tensor> evaluate_op(std::string_view op, std::vector<const Tensor*> inputs,
                                Attributes attributes, std::vector<TensorType> types) {
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  Node node;
  node.name = op;
  node.op = op;
  node.attributes = std::move(attributes);
  for (const Tensor* input : inputs) {
    node.inputs.push_back(input != nullptr ? std::optional(ValueId{0}) : std::nullopt);
  }
  Diagnostics diagnostics;
  auto result = evaluate_node(node, std::move(inputs), std::move(types), diagnostics);
  RLX_CHECK(result.has_value(), diagnostics.text());
  return std::move(*result);
}

bool evaluate_composition(EvaluateContext& ctx) {
  Module module;
  Graph& graph = module.entries.emplace_back();
  std::map<ValueId, Tensor> tensors;
  Node node = ctx.node();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!ctx.has_input(i)) continue;
    Value value;
    value.name = "input" + std::to_string(i);
    value.type = ctx.input(i).type;
    value.origin = ValueOrigin::Input;
    node.inputs[i] = graph.add_value(std::move(value));
    tensors[*node.inputs[i]] = ctx.input(i);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    Value value;
    value.name = "output" + std::to_string(i);
    value.type = ctx.output_type(i);
    node.outputs[i] = graph.add_value(std::move(value));
  }
  graph.set_outputs(node.outputs);
  const OpDef& op = *find_op(node.op);
  const NodeId id = graph.add_node(std::move(node));
  graph.set_order({id});
  Diagnostics diagnostics;
  RewriteContext rewrite(op, module, graph, id, diagnostics);
  RLX_CHECK(op.decompose(rewrite), diagnostics.text());
  for (const NodeId step : graph.order()) {
    std::vector<const Tensor*> inputs;
    for (const auto& input : graph.node(step).inputs) {
      inputs.push_back(input ? &tensors.at(*input) : nullptr);
    }
    std::vector<TensorType> types;
    for (const ValueId output : graph.node(step).outputs) types.push_back(graph.value(output).type);
    auto results = evaluate_node(graph.node(step), inputs, std::move(types), diagnostics);
    RLX_CHECK(results.has_value(), diagnostics.text());
    for (size_t i = 0; i < results->size(); ++i) {
      tensors[graph.node(step).outputs[i]] = std::move((*results)[i]);
    }
  }
  for (size_t i = 0; i < ctx.output_count(); ++i) {
    const Tensor& result = tensors.at(graph.outputs()[i]);
    ctx.output(i).floats = result.floats;
    ctx.output(i).integers = result.integers;
  }
  return true;
}

const Tensor* input_or_null(const EvaluateContext& ctx, size_t i) {
  return ctx.has_input(i) ? &ctx.input(i) : nullptr;
}

}  // namespace rlx
