// SPDX-License-Identifier: Apache-2.0
// Editing a graph.
#include "compiler/ir/graph.h"

#include <algorithm>
#include <set>

#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {

ValueId Graph::add_value(Value value) {
  values_.push_back(std::move(value));
  return ValueId{narrow<uint32_t>(values_.size() - 1)};
}

NodeId Graph::add_node(Node node) {
  const NodeId id{narrow<uint32_t>(nodes_.size())};
  for (uint32_t i = 0; i < node.outputs.size(); ++i) {
    Value& output = value(node.outputs[i]);
    output.origin = ValueOrigin::Node;
    output.producer = id;
    output.output_index = i;
  }
  nodes_.push_back(std::move(node));
  order_.push_back(id);
  return id;
}

NodeId Graph::insert_node_before(NodeId position, Node node) {
  const NodeId id = add_node(std::move(node));
  order_.pop_back();
  const auto place = std::find(order_.begin(), order_.end(), position);
  RLX_CHECK(place != order_.end(), "inserting before a removed node");
  order_.insert(place, id);
  return id;
}

void Graph::remove_node(NodeId id) {
  order_.erase(std::remove(order_.begin(), order_.end(), id), order_.end());
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (NodeId id : order_) {
    for (std::optional<ValueId>& input : node(id).inputs) {
      if (input == from) input = to;
    }
  }
  std::replace(outputs.begin(), outputs.end(), from, to);
}

std::vector<NodeId> Graph::readers(ValueId id) const {
  std::vector<NodeId> result;
  for (NodeId reader : order_) {
    for (const std::optional<ValueId>& input : node(reader).inputs) {
      if (input == id) result.push_back(reader);
    }
  }
  return result;
}

bool Graph::is_output(ValueId id) const {
  return std::find(outputs.begin(), outputs.end(), id) != outputs.end();
}

ValueId Graph::weight_value(WeightId id, const Weight& weight) {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].weight == id) return ValueId{narrow<uint32_t>(i)};
  }
  return add_value({.name = weight.name,
                    .type = weight.type,
                    .origin = ValueOrigin::Weight,
                    .weight = id,
                    .state = {},
                    .producer = {}});
}

std::string Graph::fresh_name(const std::string& stem) const {
  std::set<std::string_view> names;
  for (const Value& value : values_) names.insert(value.name);
  for (const Node& node : nodes_) names.insert(node.name);
  if (!names.contains(stem)) return stem;
  for (uint64_t i = 1;; ++i) {
    std::string name = stem + "." + std::to_string(i);
    if (!names.contains(name)) return name;
  }
}

WeightId Module::add_weight(Weight weight) {
  weights.push_back(std::move(weight));
  return WeightId{narrow<uint32_t>(weights.size() - 1)};
}

}  // namespace rlx
