// SPDX-License-Identifier: Apache-2.0
// Constant folding through the reference evaluator.
#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/reference/evaluate.h"

namespace rlx {
namespace {

// A result may be larger than its inputs by this factor, or stay below this size; otherwise the
// plan would swell.
constexpr uint64_t kGrowthLimit = 2;
constexpr uint64_t kSmallBytes = 64 * 1024;
// f64 evaluation needs 8 bytes an element: beyond this the device does the work at every run.
constexpr int64_t kMostElements = int64_t{1} << 26;

bool worth_folding(const Module& module, const Graph& graph, const Node& node) {
  uint64_t input_bytes = 0;
  for (const std::optional<ValueId>& input : node.inputs) {
    if (!input) continue;
    const Weight* weight = weight_of(module, graph, *input);
    if (weight == nullptr || !is_known(*weight)) return false;
    if (element_count(weight->type.shape) > kMostElements) return false;
    input_bytes += byte_size(weight->type);
  }
  uint64_t output_bytes = 0;
  for (ValueId output : node.outputs) {
    const DTypeKind kind = kind_of(graph.value(output).type.dtype);
    if (kind == DTypeKind::Complex || kind == DTypeKind::Storage) return false;
    output_bytes += byte_size(graph.value(output).type);
  }
  return output_bytes <= std::max(kGrowthLimit * input_bytes, kSmallBytes);
}

bool evaluable(const Module& module, const Graph& graph, const Node& node) {
  const OpDef& op = *find_op(node.op);
  if (op.has_effect || op.evaluate == nullptr || node.inputs.empty()) return false;
  for (const std::optional<ValueId>& input : node.inputs) {
    if (!input) continue;
    const DTypeKind kind = kind_of(graph.value(*input).type.dtype);
    if (kind == DTypeKind::Complex || kind == DTypeKind::Storage) return false;
  }
  return worth_folding(module, graph, node);
}

bool fold_node(Module& module, Graph& graph, const Node& node, Diagnostics& diagnostics) {
  std::vector<Tensor> inputs;
  inputs.reserve(node.inputs.size());
  std::vector<const Tensor*> pointers;
  for (const std::optional<ValueId>& input : node.inputs) {
    if (input) inputs.push_back(weight_tensor(*weight_of(module, graph, *input)));
    pointers.push_back(input ? &inputs.back() : nullptr);
  }
  std::vector<TensorType> types;
  for (ValueId output : node.outputs) types.push_back(graph.value(output).type);
  auto outputs = evaluate_node(node, pointers, types, diagnostics);
  if (!outputs) return false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    graph.replace_uses(node.outputs[i],
                       add_constant(module, graph, node.outputs[i], (*outputs)[i]));
  }
  return true;
}

bool is_taken(const Module& module, const std::string& name) {
  return std::any_of(module.weights.begin(), module.weights.end(),
                     [&name](const Weight& weight) { return weight.name == name; });
}

bool same_numbers(const RandomData& a, const RandomData& b) {
  return a.distribution == b.distribution && a.a == b.a && a.b == b.b && a.seed == b.seed &&
         a.stream == b.stream;
}

// A weight of the type and the random numbers of `wanted`: one that an earlier cast left, or a new
// one. Its name is a wish: the model may have a weight of that name.
WeightId generated_weight(Module& module, const Graph& graph, Weight wanted) {
  for (size_t i = 0; i < module.weights.size(); ++i) {
    const Weight& known = module.weights[i];
    const auto* numbers = std::get_if<RandomData>(&known.data);
    const bool same = numbers != nullptr && known.type == wanted.type &&
                      same_numbers(*numbers, std::get<RandomData>(wanted.data));
    if (same) return WeightId(i);
  }
  wanted.name = graph.fresh_name(wanted.name);
  while (is_taken(module, wanted.name))
    wanted.name = graph.fresh_name(wanted.name + "." + graph.name);
  return module.add_weight(std::move(wanted));
}

// cast(generated weight) between floats: the generator rounds to the other type itself.
bool fold_generated_cast(Module& module, Graph& graph, const Node& node) {
  if (node.op != "cast") return false;
  const Weight* weight = weight_of(module, graph, *node.inputs[0]);
  const TensorType type = graph.value(node.outputs[0]).type;
  if (weight == nullptr || is_known(*weight) || !is_float(type.dtype)) return false;
  // Only widening to or rounding from f32 is the same as generating: the generator computes in f32.
  if (weight->type.dtype != DType::f32) return false;
  const Weight cast{.name = weight->name + "." + std::string(name_of(type.dtype)),
                    .type = type,
                    .data = weight->data};
  const WeightId id = generated_weight(module, graph, cast);
  graph.replace_uses(node.outputs[0], graph.weight_value(id, module.weight(id)));
  return true;
}

}  // namespace

ValueId add_constant(Module& module, Graph& graph, ValueId stem, const Tensor& tensor) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(tensor.to_bytes());
  std::string name = graph.fresh_name(graph.value(stem).name + ".const");
  while (is_taken(module, name)) name = graph.fresh_name(name + "." + graph.name);
  const WeightId id = module.add_weight({.name = name,
                                         .type = tensor.type,
                                         .data = HostBytes{.owner = bytes, .bytes = *bytes},
                                         .is_constant = true});
  return graph.weight_value(id, module.weight(id));
}

const Weight* weight_of(const Module& module, const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.origin == ValueOrigin::Weight ? &module.weight(*value.weight) : nullptr;
}

bool is_known(const Weight& weight) {
  return !std::holds_alternative<RandomData>(weight.data);
}

size_t fold_constants(Module& module, const PassOptions&, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      const Node node = graph.node(id);
      const bool folded =
          fold_generated_cast(module, graph, node) ||
          (evaluable(module, graph, node) && fold_node(module, graph, node, diagnostics));
      if (!folded) continue;
      graph.remove_node(id);
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
