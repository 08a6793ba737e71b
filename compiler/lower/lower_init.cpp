// SPDX-License-Identifier: Apache-2.0
// The init program: every weight that is made on the device, in an order in which its inputs exist.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/dispatch/builder.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/lower_node.h"
#include "compiler/ops/lowering/weight_fill.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

// The weights that entries read or states begin as.
std::set<WeightId> weights_in_use(const Module& module, std::span<const Program> entries) {
  std::set<WeightId> used;
  for (const Program& entry : entries) {
    for (const Buffer& buffer : entry.buffers) {
      if (buffer.weight) used.insert(*buffer.weight);
    }
  }
  for (const State& state : module.states) {
    if (state.init) used.insert(*state.init);
  }
  return used;
}

bool is_made(const Weight& weight) {
  return !std::holds_alternative<HostBytes>(weight.data) && element_count(weight.type.shape) > 0;
}

// The weights as a graph: a node per computed weight. A weight's inputs stand before it in the
// module, so ids are a topological order.
class InitGraph {
 public:
  InitGraph(const Module& module, const std::set<WeightId>& used) : module_(module) {
    for (WeightId id : used) gather(id);
    graph.name = "init";
    for (WeightId id : needed_) add(id);
  }

  Graph graph;
  std::map<WeightId, ValueId> values;
  std::vector<WeightId> weights;  // per value

 private:
  // The weight and all that it is computed from.
  void gather(WeightId id) {
    if (!needed_.insert(id).second) return;
    const auto* computed = std::get_if<ComputedData>(&module_.weight(id).data);
    if (computed == nullptr) return;
    for (const std::optional<WeightId>& input : computed->inputs) {
      if (input) gather(*input);
    }
  }

  void add(WeightId id) {
    const Weight& weight = module_.weight(id);
    Value value{
        .name = weight.name, .type = weight.type, .weight = {}, .state = {}, .producer = {}};
    if (!is_made(weight)) {
      value.origin = ValueOrigin::Weight;
      value.weight = id;
    }
    const ValueId made = graph.add_value(std::move(value));
    values[id] = made;
    weights.push_back(id);
    const auto* computed = std::get_if<ComputedData>(&weight.data);
    if (computed == nullptr) return;
    Node node{.name = weight.name,
              .op = computed->op,
              .inputs = {},
              .outputs = {made},
              .attributes = computed->attributes,
              .region = {}};
    for (const std::optional<WeightId>& input : computed->inputs) {
      node.inputs.push_back(input ? std::optional<ValueId>(values.at(*input)) : std::nullopt);
    }
    graph.add_node(std::move(node));
  }

  const Module& module_;
  std::set<WeightId> needed_;
};

Step step_of(const std::string& weight, const std::string& op) {
  Step step;
  step.node = weight;
  step.op = op;
  return step;
}

class InitLowering {
 public:
  InitLowering(const Module& module, const InitGraph& init, const LowerOptions& options,
               Program& program, Diagnostics& diagnostics)
      : module_(module),
        init_(init),
        diagnostics_(diagnostics),
        state_(module, init.graph, options, program) {}

  bool run(const std::set<WeightId>& used) {
    for (WeightId id : used) place(id);
    place_concat_parts(state_, diagnostics_);
    for (NodeId id : init_.graph.order()) {
      if (!make(init_.graph.node(id))) return false;
    }
    for (WeightId id : used) {
      if (is_made(module_.weight(id)) && !fill(id)) return false;
    }
    return true;
  }

 private:
  // A weight that entries read is made where they read it; the others live in the arena.
  void place(WeightId id) {
    const Weight& weight = module_.weight(id);
    if (!is_made(weight)) return;
    const BufferId buffer = state_.program.add_buffer({.name = weight.name,
                                                       .type = weight.type,
                                                       .size_bytes = byte_size(weight.type),
                                                       .segment = Segment::Weights,
                                                       .weight = id,
                                                       .state = {},
                                                       .input_index = {},
                                                       .output_index = {}});
    const TensorRef place{.buffer = buffer,
                          .offset_bytes = 0,
                          .type = weight.type,
                          .strides = dense_strides(weight.type.shape)};
    places_[init_.values.at(id)] = place;
    state_.place(init_.values.at(id), place);
  }

  // Splats and random weights, right before their first reader.
  bool fill(WeightId id) {
    const Weight& weight = module_.weight(id);
    const bool fills = !std::holds_alternative<ComputedData>(weight.data) && is_made(weight);
    if (!fills || !filled_.insert(id).second) return true;
    try {
      fill(id, weight);
      return true;
    } catch (const TooManyGroups& fault) {
      diagnostics_.error(DiagCode::Limit, {},
                         "the filling of \"" + weight.name + "\": " + fault.what(),
                         "split the tensor");
      return false;
    }
  }

  void fill(WeightId id, const Weight& weight) {
    const ValueId value = init_.values.at(id);
    const TensorRef place = state_.allocate(value);
    if (place.offset_bytes % kFillAlignmentBytes == 0) {
      lower_weight_fill(state_.program, place, weight);
      return;
    }
    // A part of a concat that begins between two fills.
    state_.set_ref(value, state_.scratch(weight.type, weight.name));
    lower_weight_fill(state_.program, state_.ref(value), weight);
    state_.copy_into(place, value, step_of(weight.name, "fill"));
    state_.set_ref(value, place);
  }

  bool make(const Node& node) {
    for (const std::optional<ValueId>& input : node.inputs) {
      if (input && !fill(init_.weights.at(index_of(*input)))) return false;
    }
    std::vector<Step>& steps = state_.program.steps;
    const size_t first_step = steps.size();
    if (!lower_node(state_, node, diagnostics_)) return false;
    const auto place = places_.find(node.outputs[0]);
    if (place == places_.end()) return true;
    // Only a view of other weights is elsewhere.
    state_.copy_into(place->second, node.outputs[0], step_of(node.name, node.op));
    const std::string growth = growth_text(node);
    for (size_t i = first_step; i < steps.size() && !growth.empty(); ++i)
      steps[i].reason += (steps[i].reason.empty() ? "" : "; ") + growth;
    return true;
  }

  // Why a weight that is larger than all that it is made of is one; empty for others.
  [[nodiscard]] std::string growth_text(const Node& node) const {
    uint64_t made_of = 0;
    for (const std::optional<ValueId>& input : node.inputs) {
      if (input) made_of += byte_size(module_.weight(init_.weights.at(index_of(*input))).type);
    }
    const uint64_t bytes = byte_size(init_.graph.value(node.outputs[0]).type);
    if (bytes <= made_of) return {};
    return "once, in " + std::to_string(bytes) + " bytes of weights, instead of at every run";
  }

  const Module& module_;
  const InitGraph& init_;
  Diagnostics& diagnostics_;
  LoweringState state_;
  std::map<ValueId, TensorRef> places_;
  std::set<WeightId> filled_;
};

}  // namespace

std::optional<Program> lower_init(const Module& module, std::span<const Program> entries,
                                  const LowerOptions& options, Diagnostics& diagnostics) {
  const std::set<WeightId> used = weights_in_use(module, entries);
  const InitGraph init(module, used);
  Program program;
  program.entry = "init";
  program.counts_index_errors = false;
  LowerOptions once = options;
  once.runs_once = true;
  if (!InitLowering(module, init, once, program, diagnostics).run(used)) return std::nullopt;
  return program;
}

}  // namespace rlx
