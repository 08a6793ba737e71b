// SPDX-License-Identifier: Apache-2.0
// Runs an entry on host tensors.
#include "compiler/reference/evaluate.h"

#include <map>
#include <utility>

#include "compiler/ops/control/control_forms.h"
#include "compiler/ops/lowering/weight_fill.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/reference/evaluate_control.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

// True where a node rounds its result to a type that it is told, as a cast behind it would.
bool rounds_result(const Graph& graph, const Node& node) {
  if (!node.attributes.contains("out_dtype") || node.inputs.empty() || !node.inputs[0])
    return false;
  const DType from = graph.value(*node.inputs[0]).type.dtype;
  const DType to = graph.value(node.outputs[0]).type.dtype;
  return is_half(to) ? from != to : from == DType::f64 && to == DType::f32;
}

class Evaluation {
 public:
  // `shift`: of the random streams, where the graph is the body of a loop.
  Evaluation(const Module& module, const Graph& graph, StateValues& states,
             const EvaluateOptions& options, uint32_t shift = 0)
      : module_(module),
        graph_(graph),
        states_(states),
        options_(options),
        shift_(shift),
        values_(graph.value_count()),
        remaining_(graph.value_count()) {
    for (NodeId id : graph.order()) {
      for (const std::optional<ValueId>& input : graph.node(id).inputs) {
        if (input) ++remaining_[index_of(*input)];
      }
    }
    for (ValueId id : graph.outputs()) ++remaining_[index_of(id)];
  }

  void set(ValueId id, Tensor tensor) { values_[index_of(id)] = std::move(tensor); }

  const Tensor& get(ValueId id) {
    std::optional<Tensor>& slot = values_[index_of(id)];
    if (!slot) slot = leaf(graph_.value(id));
    return *slot;
  }

  bool run_node(const Node& node, Diagnostics& diagnostics) {
    std::vector<const Tensor*> inputs;
    for (const std::optional<ValueId>& input : node.inputs) {
      inputs.push_back(input ? &get(*input) : nullptr);
    }
    std::vector<TensorType> types;
    for (ValueId output : node.outputs) types.push_back(graph_.value(output).type);
    auto outputs = node.bodies.empty() ? evaluate_node(node_of_trip(node, shift_), inputs,
                                                       std::move(types), diagnostics)
                                       : run_control(node, inputs, diagnostics);
    if (!outputs) return false;
    if (node.op == OpId::state_write) {
      new_states_[module_.state(*graph_.value(*node.inputs[0]).state).name] = *inputs[1];
    }
    if (rounds_result(graph_, node) && !options_.round_intermediates) {
      unrounded_.emplace(node.outputs[0], (*outputs)[0]);
      (*outputs)[0].round_to_dtype();
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (options_.round_intermediates) (*outputs)[i].round_to_dtype();
      set(node.outputs[i], std::move((*outputs)[i]));
    }
    release_inputs(node);
    return true;
  }

  // Runs every node on inputs in the order of the graph's; the outputs as nodes would read them, or
  // nullopt where anything was reported.
  std::optional<std::vector<Tensor>> run(std::vector<Tensor> inputs, Diagnostics& diagnostics) {
    for (size_t i = 0; i < inputs.size(); ++i) set(graph_.inputs[i], std::move(inputs[i]));
    for (NodeId id : graph_.order()) {
      if (!run_node(graph_.node(id), diagnostics)) return std::nullopt;
    }
    std::vector<Tensor> outputs;
    for (ValueId id : graph_.outputs()) outputs.push_back(get(id));
    return outputs;
  }

  // The outputs as they are judged: what their nodes round is not rounded twice.
  void give_unrounded(std::vector<Tensor>& outputs) {
    const std::vector<ValueId>& ids = graph_.outputs();
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto found = unrounded_.find(ids[i]);
      if (found != unrounded_.end()) outputs[i] = found->second;
    }
  }

  void commit_states() {
    for (auto& [name, tensor] : new_states_) {
      tensor.round_to_dtype();
      states_[name] = std::move(tensor);
    }
  }

 private:
  // What a body writes to states is written by the node; the last trip's values stay.
  std::optional<std::vector<Tensor>> run_control(const Node& node,
                                                 const std::vector<const Tensor*>& inputs,
                                                 Diagnostics& diagnostics) {
    const RunBody run_body = [&](const Graph& body, std::vector<Tensor> arguments, uint32_t shift) {
      Evaluation inner(module_, body, states_, options_, shift);
      auto outputs = inner.run(std::move(arguments), diagnostics);
      for (auto& [name, tensor] : inner.new_states_) new_states_[name] = std::move(tensor);
      return outputs;
    };
    return evaluate_control(graph_, node, inputs, shift_, run_body, diagnostics);
  }

  Tensor leaf(const Value& value) {
    if (value.origin == ValueOrigin::Weight)
      return weight_tensor(module_, module_.weight(*value.weight));
    RLX_CHECK(value.origin == ValueOrigin::State, "value \"" + value.name + "\" was not evaluated");
    const State& state = module_.state(*value.state);
    if (const auto found = states_.find(state.name); found != states_.end()) return found->second;
    return state.init ? weight_tensor(module_, module_.weight(*state.init))
                      : Tensor::zeros(state.type);
  }

  // Intermediates are dropped after their last reader, so that memory follows the largest live set.
  void release_inputs(const Node& node) {
    for (const std::optional<ValueId>& input : node.inputs) {
      if (!input || --remaining_[index_of(*input)] > 0) continue;
      values_[index_of(*input)].reset();
      unrounded_.erase(*input);
    }
  }

  const Module& module_;
  const Graph& graph_;
  StateValues& states_;
  EvaluateOptions options_;
  uint32_t shift_ = 0;
  std::vector<std::optional<Tensor>> values_;
  std::map<ValueId, Tensor> unrounded_;  // results that nodes round, until nothing reads them
  std::vector<size_t> remaining_;
  StateValues new_states_;
};

Tensor computed_tensor(const Module& module, const Weight& weight, const ComputedData& computed) {
  Node node;
  node.name = weight.name;
  node.op = computed.op;
  node.attributes = computed.attributes;
  std::vector<Tensor> inputs;
  inputs.reserve(computed.inputs.size());
  std::vector<const Tensor*> pointers;
  for (const std::optional<WeightId>& input : computed.inputs) {
    if (input) inputs.push_back(weight_tensor(module, module.weight(*input)));
    pointers.push_back(input ? &inputs.back() : nullptr);
    // Evaluation sees which inputs are there, not what they are called.
    node.inputs.push_back(input ? std::optional<ValueId>(ValueId{0}) : std::nullopt);
  }
  Diagnostics diagnostics;
  auto outputs = evaluate_node(node, pointers, {weight.type}, diagnostics);
  RLX_CHECK(outputs.has_value(), diagnostics.text());
  outputs->front().round_to_dtype();
  return std::move(outputs->front());
}

}  // namespace

Tensor weight_tensor(const Module& module, const Weight& weight) {
  if (const auto* host = std::get_if<HostBytes>(&weight.data)) {
    return Tensor::from_bytes(weight.type, host->bytes);
  }
  if (const auto* computed = std::get_if<ComputedData>(&weight.data)) {
    return computed_tensor(module, weight, *computed);
  }
  return evaluate_weight_fill(weight);
}

std::optional<std::vector<Tensor>> evaluate_entry(const Module& module, const Graph& graph,
                                                  const std::vector<Tensor>& inputs,
                                                  StateValues& states,
                                                  const EvaluateOptions& options,
                                                  Diagnostics& diagnostics) {
  RLX_CHECK(inputs.size() == graph.inputs.size(), "inputs of entry " + graph.name);
  Evaluation evaluation(module, graph, states, options);
  for (size_t i = 0; i < inputs.size(); ++i) {
    RLX_CHECK(inputs[i].type == graph.value(graph.inputs[i]).type, "input types of " + graph.name);
  }
  auto outputs = evaluation.run(inputs, diagnostics);
  if (outputs) evaluation.commit_states();
  if (outputs) evaluation.give_unrounded(*outputs);
  return outputs;
}

}  // namespace rlx
