// SPDX-License-Identifier: Apache-2.0
// Editing a graph.
#include "compiler/ir/graph.h"

#include <algorithm>

#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {

ValueId Graph::add_value(Value value) {
  const ValueId id{narrow<uint32_t>(values_.size())};
  names_.insert(value.name);
  if (value.weight) weights_.try_emplace(*value.weight, id);
  values_.push_back(std::move(value));
  uses_.emplace_back();
  return id;
}

NodeId Graph::add_node(Node node) {
  const NodeId id{narrow<uint32_t>(nodes_.size())};
  for (uint32_t i = 0; i < node.outputs.size(); ++i) {
    Value& output = value(node.outputs[i]);
    output.origin = ValueOrigin::Node;
    output.producer = id;
    output.output_index = i;
  }
  names_.insert(node.name);
  nodes_.push_back(std::move(node));
  use_places_.emplace_back();
  order_.append(id);
  note_uses(id);
  return id;
}

NodeId Graph::insert_node_before(NodeId position, Node node) {
  RLX_CHECK(contains(position), "inserting before a removed node");
  const NodeId id = add_node(std::move(node));
  order_.remove(id);
  order_.insert_before(position, id);
  return id;
}

void Graph::remove_node(NodeId id) {
  if (!contains(id)) return;
  forget_uses(id);
  order_.remove(id);
}

void Graph::set_order(const std::vector<NodeId>& order) {
  for (NodeId id : order_.list()) forget_uses(id);
  order_.assign(order);
  for (NodeId id : order) note_uses(id);
}

void Graph::add_output(ValueId id) {
  output_places_[id].push_back(outputs_.size());
  outputs_.push_back(id);
}

void Graph::set_outputs(const std::vector<ValueId>& outputs) {
  outputs_.clear();
  output_places_.clear();
  for (ValueId id : outputs) add_output(id);
}

void Graph::note_uses(NodeId id) {
  const std::vector<std::optional<ValueId>>& read = node(id).inputs;
  std::vector<size_t>& places = use_places_[index_of(id)];
  places.assign(read.size(), 0);
  for (uint32_t i = 0; i < read.size(); ++i) {
    // The structural check tells of an id that stands for nothing.
    if (!read[i] || index_of(*read[i]) >= uses_.size()) continue;
    std::vector<Use>& uses = uses_[index_of(*read[i])];
    places[i] = uses.size();
    uses.push_back({id, i});
  }
}

void Graph::forget_uses(NodeId id) {
  const std::vector<std::optional<ValueId>>& read = node(id).inputs;
  for (uint32_t i = 0; i < read.size(); ++i) {
    if (!read[i] || index_of(*read[i]) >= uses_.size()) continue;
    std::vector<Use>& uses = uses_[index_of(*read[i])];
    const size_t place = use_places_[index_of(id)][i];
    uses[place] = uses.back();
    use_places_[index_of(uses[place].node)][uses[place].input] = place;
    uses.pop_back();
  }
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  std::vector<Use>& uses = uses_.at(index_of(to));
  for (const Use& use : uses_.at(index_of(from))) {
    nodes_[index_of(use.node)].inputs[use.input] = to;
    use_places_[index_of(use.node)][use.input] = uses.size();
    uses.push_back(use);
  }
  uses_[index_of(from)].clear();
  const auto places = output_places_.extract(from);
  if (places.empty()) return;
  std::vector<size_t>& others = output_places_[to];
  for (const size_t place : places.mapped()) outputs_[place] = to;
  others.insert(others.end(), places.mapped().begin(), places.mapped().end());
}

std::vector<NodeId> Graph::readers(ValueId id) const {
  std::vector<NodeId> result;
  for (const Use& use : uses_.at(index_of(id))) result.push_back(use.node);
  std::sort(result.begin(), result.end(),
            [this](NodeId a, NodeId b) { return order_.stands_before(a, b); });
  return result;
}

std::optional<NodeId> Graph::only_reader(ValueId id) const {
  const std::vector<Use>& uses = uses_.at(index_of(id));
  if (uses.empty()) return std::nullopt;
  // Ends at the first other reader, so that many readers cost no more than two.
  const NodeId reader = uses.front().node;
  const bool alone = std::all_of(uses.begin(), uses.end(),
                                 [reader](const Use& use) { return use.node == reader; });
  return alone ? std::optional(reader) : std::nullopt;
}

ValueId Graph::weight_value(WeightId id, const Weight& weight) {
  const auto known = weights_.find(id);
  if (known != weights_.end()) return known->second;
  return add_value({.name = weight.name,
                    .type = weight.type,
                    .origin = ValueOrigin::Weight,
                    .weight = id,
                    .state = {},
                    .producer = {}});
}

std::string Graph::fresh_name(const std::string& stem) {
  if (!names_.contains(stem)) return stem;
  for (uint64_t& i = suffixes_.try_emplace(stem, 1).first->second;; ++i) {
    std::string name = stem + "." + std::to_string(i);
    if (!names_.contains(name)) return name;
  }
}

bool Graph::is_noted(NodeId id, uint32_t input) const {
  const std::optional<ValueId>& read = node(id).inputs[input];
  if (!read) return true;
  const std::vector<size_t>& places = use_places_[index_of(id)];
  const std::vector<Use>& uses = uses_[index_of(*read)];
  return input < places.size() && places[input] < uses.size() && uses[places[input]].node == id &&
         uses[places[input]].input == input;
}

std::optional<std::string> Graph::find_index_fault() const {
  size_t read = 0;
  for (NodeId id : order()) {
    const Node& reader = node(id);
    for (uint32_t i = 0; i < reader.inputs.size(); ++i) {
      if (!is_noted(id, i)) return "node \"" + reader.name + "\" is missing among the readers";
      read += reader.inputs[i] ? 1 : 0;
    }
  }
  size_t noted = 0;
  for (const std::vector<Use>& uses : uses_) noted += uses.size();
  if (read != noted) return "a removed node is still listed as a reader";
  return std::nullopt;
}

WeightId Module::add_weight(Weight weight) {
  weights.push_back(std::move(weight));
  return WeightId{narrow<uint32_t>(weights.size() - 1)};
}

}  // namespace rlx
