// SPDX-License-Identifier: Apache-2.0
// Counting the nodes of functions from the inside out.
#include "compiler/import/onnx/node_counts.h"

#include <algorithm>
#include <vector>

namespace rlx::onnx_import {
namespace {

// Calls visit(node) for the nodes of a body and of the graphs inside them; protobuf's limit bounds
// their depth.
template <typename Nodes, typename Visit>
void for_each_node(const Nodes& nodes, const Visit& visit) {
  for (const onnx::NodeProto& node : nodes) {
    visit(node);
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) for_each_node(attribute.g().node(), visit);
    }
  }
}

// A function under way and the functions that its body calls.
struct Visit {
  const onnx::FunctionProto* function = nullptr;
  std::vector<const onnx::FunctionProto*> called = {};
  size_t next = 0;
};

}  // namespace

NodeCounts::NodeCounts(const Functions& functions) : functions_(functions) {
  for (const auto& [name, function] : functions_) count(*function);
}

const onnx::FunctionProto* NodeCounts::find(const onnx::NodeProto& node) const {
  const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
  const auto found = functions_.find({domain, node.op_type()});
  return found == functions_.end() ? nullptr : found->second;
}

void NodeCounts::count(const onnx::FunctionProto& first) {
  std::vector<Visit> stack;
  const auto open = [&](const onnx::FunctionProto& function) {
    if (!counts_.try_emplace(&function, 0).second) return;
    Visit& visit = stack.emplace_back(Visit{.function = &function});
    for_each_node(function.node(), [&](const onnx::NodeProto& node) {
      if (const onnx::FunctionProto* callee = find(node)) visit.called.push_back(callee);
    });
  };
  open(first);
  while (!stack.empty()) {
    Visit& visit = stack.back();
    if (visit.next < visit.called.size()) {
      open(*visit.called[visit.next++]);
      continue;
    }
    counts_[visit.function] = of_all(visit.function->node());
    stack.pop_back();
  }
}

uint64_t NodeCounts::of(const onnx::NodeProto& node) const {
  if (const onnx::FunctionProto* function = find(node))
    return std::min(kMany, 1 + counts_.at(function));
  uint64_t largest = 0;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) largest = std::max(largest, of_all(attribute.g().node()));
  }
  return std::min(kMany, 1 + largest);
}

template <typename Nodes>
uint64_t NodeCounts::of_all(const Nodes& nodes) const {
  uint64_t sum = 0;
  for (const onnx::NodeProto& node : nodes) sum = std::min(kMany, sum + of(node));
  return sum;
}

}  // namespace rlx::onnx_import
