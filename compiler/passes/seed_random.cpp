// SPDX-License-Identifier: Apache-2.0
// Seed and step of a session (ops.md 0.8) as states: each entry that draws by the session's step
// adds one to it at its end, or has the last node that draws do so, so that whatever leaves states
// as they were (a profile, a value read) draws nothing from the runs to come.
#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"
#include "schema/random_states.h"

namespace rlx {
namespace {

// The module's state of that name, made where there is none; nullopt after an error.
std::optional<StateId> random_state(Module& module, const std::string& name, DType dtype,
                                    Diagnostics& diagnostics) {
  const TensorType type{dtype, {}};
  const auto found = std::ranges::find(module.states, name, &State::name);
  if (found == module.states.end()) {
    module.states.push_back({.name = name, .type = type, .init = {}});
    return StateId{static_cast<uint32_t>(module.states.size() - 1)};
  }
  if (found->type == type && !found->init)
    return StateId{static_cast<uint32_t>(found - module.states.begin())};
  diagnostics.error(DiagCode::DuplicateName, {},
                    "state \"" + name + "\" is " + to_string(found->type) +
                        ", and the session's random numbers want it as " + to_string(type) +
                        " without a first value",
                    "rename the model's state");
  return std::nullopt;
}

// What an entry reads of the two states.
class RandomStates {
 public:
  RandomStates(Module& module, Graph& graph, Diagnostics& diagnostics)
      : module_(module), graph_(graph), diagnostics_(diagnostics) {}

  // Whether the node was given anything; nullopt after an error.
  std::optional<bool> give(NodeId id, size_t seed_input) {
    const Node& node = graph_.node(id);
    const bool wants_seed = !input_at(node, seed_input) && !node.attributes.contains("seed");
    const bool wants_step = !input_at(node, seed_input + 1);
    if (wants_seed && !find(seed_, kRandomSeedState, DType::i64)) return std::nullopt;
    if (wants_step && !find(step_, kRandomStepState, DType::u32)) return std::nullopt;
    if (!wants_seed && !wants_step) return false;
    if (wants_step) last_ = id;
    graph_.change_node(id, [&](Node& drawing) {
      drawing.inputs.resize(std::max(drawing.inputs.size(), seed_input + 2));
      if (wants_seed) drawing.inputs[seed_input] = seed_;
      if (wants_step) drawing.inputs[seed_input + 1] = step_;
    });
    return true;
  }

  // The step of the next run.
  void advance() {
    if (!step_) return;
    if (find_op(graph_.node(last_).op)->next_step_output) {
      add("state_write", {step_, next_step_of_last()});
      return;
    }
    Tensor one = Tensor::zeros({DType::u32, {}});
    one.integers[0] = 1;
    const ValueId next = add("add", {step_, add_constant(module_, graph_, "rlx.random.one", one)});
    add("state_write", {step_, next});
  }

 private:
  bool find(std::optional<ValueId>& value, const char* name, DType dtype) {
    if (value) return true;
    const std::optional<StateId> state = random_state(module_, name, dtype, diagnostics_);
    if (!state) return false;
    value = graph_.add_value({.name = graph_.fresh_name(name),
                              .type = {dtype, {}},
                              .origin = ValueOrigin::State,
                              .weight = {},
                              .state = state,
                              .producer = {}});
    return true;
  }

  // The last output of the last node that draws, which stands for it with the outputs that it
  // lacks.
  ValueId next_step_of_last() {
    const size_t position = *find_op(graph_.node(last_).op)->next_step_output;
    Node drawing = graph_.node(last_);
    while (drawing.outputs.size() <= position)
      drawing.outputs.push_back(graph_.add_value({.name = graph_.fresh_name(drawing.name)}));
    const ValueId next = drawing.outputs[position];
    const NodeId made = graph_.insert_node_before(last_, std::move(drawing));
    graph_.remove_node(last_);
    RLX_CHECK(check_and_infer(graph_, made, diagnostics_), diagnostics_.text());
    return next;
  }

  ValueId add(const std::string& op, std::vector<std::optional<ValueId>> inputs) {
    const std::string name = graph_.fresh_name("rlx.random." + op);
    const ValueId output = graph_.add_value(
        {.name = name, .type = {DType::u32, {}}, .weight = {}, .state = {}, .producer = {}});
    graph_.add_node({.name = name,
                     .op = op,
                     .inputs = std::move(inputs),
                     .outputs = {output},
                     .attributes = {},
                     .region = {},
                     .place = {},
                     .source = {}});
    return output;
  }

  Module& module_;
  Graph& graph_;
  Diagnostics& diagnostics_;
  std::optional<ValueId> seed_;
  std::optional<ValueId> step_;
  NodeId last_{};  // that draws by the step
};

}  // namespace

size_t seed_random(Module& module, const PassOptions&, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    RandomStates states(module, graph, diagnostics);
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      const OpDef& op = *find_op(graph.node(id).op);
      if (!op.seed_input) continue;
      const std::optional<bool> given = states.give(id, *op.seed_input);
      if (!given) return changed;
      changed += *given ? 1 : 0;
    }
    states.advance();
  }
  return changed;
}

}  // namespace rlx
