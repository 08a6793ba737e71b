// SPDX-License-Identifier: Apache-2.0
// Counting the nodes of functions from the inside out, and those of loops by their trips.
#include "compiler/import/onnx/node_counts.h"

#include <algorithm>
#include <cstring>
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

// A tensor of one whole number or bool.
std::optional<int64_t> number_of(const onnx::TensorProto& tensor) {
  for (const int64_t dim : tensor.dims()) {
    if (dim != 1) return std::nullopt;
  }
  const std::string& raw = tensor.raw_data();
  int64_t number = 0;
  if (tensor.data_type() == onnx::TensorProto::INT64) {
    if (tensor.int64_data_size() == 1) return tensor.int64_data(0);
    if (raw.size() != sizeof number) return std::nullopt;
    std::memcpy(&number, raw.data(), sizeof number);
    return number;
  }
  if (tensor.data_type() != onnx::TensorProto::BOOL) return std::nullopt;
  if (tensor.int32_data_size() == 1) return tensor.int32_data(0);
  return raw.size() == 1 ? std::optional<int64_t>(raw[0]) : std::nullopt;
}

std::optional<int64_t> constant_of(const onnx::NodeProto& node) {
  if (node.op_type() != "Constant" || node.output_size() != 1) return std::nullopt;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == "value") return number_of(attribute.t());
    if (attribute.name() == "value_int") return attribute.i();
  }
  return std::nullopt;
}

uint64_t product(uint64_t a, uint64_t b) {
  return b != 0 && a > NodeCounts::kMany / b ? NodeCounts::kMany : a * b;
}

}  // namespace

template <typename Body>
NodeCounts::Scope NodeCounts::Scope::of(const Body& body, const Scope* outer) {
  Scope scope{.outer = outer, .numbers = {}};
  if constexpr (requires { body.initializer(); }) {
    for (const onnx::TensorProto& tensor : body.initializer()) {
      if (const auto number = number_of(tensor)) scope.numbers.emplace(tensor.name(), *number);
    }
  }
  for (const onnx::NodeProto& node : body.node()) {
    if (const auto number = constant_of(node)) scope.numbers.emplace(node.output(0), *number);
  }
  return scope;
}

std::optional<int64_t> NodeCounts::Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    const auto found = scope->numbers.find(name);
    if (found != scope->numbers.end()) return found->second;
  }
  return std::nullopt;
}

NodeCounts::NodeCounts(const Functions& functions, const onnx::GraphProto& graph)
    : functions_(functions), graph_(Scope::of(graph, nullptr)) {
  for (const auto& [name, function] : functions_) count(*function);
}

const onnx::FunctionProto* NodeCounts::find(const onnx::NodeProto& node) const {
  const auto found = functions_.find(FunctionName::called_by(node));
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
    counts_[visit.function] = of_all(visit.function->node(), Scope::of(*visit.function, nullptr));
    stack.pop_back();
  }
}

// As many as the constant says where nothing ends the loop before.
uint64_t NodeCounts::trips_of(const onnx::NodeProto& loop, const onnx::GraphProto& body,
                              const Scope& around, const Scope& inside) {
  const std::optional<int64_t> count =
      loop.input_size() > 0 ? around.find(loop.input(0)) : std::nullopt;
  const bool begins = loop.input_size() < 2 || loop.input(1).empty() || around.find(loop.input(1));
  if (!count || !begins || body.input_size() < 2 || body.output_size() < 1) return 1;
  const std::string& given = body.input(1).name();
  const std::string& next = body.output(0).name();
  const bool goes_on = next == given || inside.find(next) == 1 ||
                       std::ranges::any_of(body.node(), [&](const onnx::NodeProto& node) {
                         return node.op_type() == "Identity" && node.input_size() == 1 &&
                                node.input(0) == given && node.output_size() == 1 &&
                                node.output(0) == next;
                       });
  const bool is_put = goes_on && *count <= kMostTripsInPlace;
  return is_put ? static_cast<uint64_t>(std::max<int64_t>(*count, 0)) : 1;
}

uint64_t NodeCounts::of(const onnx::NodeProto& node, const Scope& scope) const {
  if (const onnx::FunctionProto* function = find(node))
    return std::min(kMany, 1 + counts_.at(function));
  uint64_t largest = 0;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    const Scope inside = Scope::of(attribute.g(), &scope);
    const uint64_t trips =
        node.op_type() == "Loop" ? trips_of(node, attribute.g(), scope, inside) : 1;
    largest = std::max(largest, product(of_all(attribute.g().node(), inside), trips));
  }
  return std::min(kMany, 1 + largest);
}

template <typename Nodes>
uint64_t NodeCounts::of_all(const Nodes& nodes, const Scope& scope) const {
  uint64_t sum = 0;
  for (const onnx::NodeProto& node : nodes) sum = std::min(kMany, sum + of(node, scope));
  return sum;
}

}  // namespace rlx::onnx_import
