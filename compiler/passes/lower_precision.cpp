// SPDX-License-Identifier: Apache-2.0
// The precision mode: f32 values between the inputs and outputs of an entry become f16 or bf16. Kernels still accumulate, and
// norms and softmax still compute, in f32 (ops.md 0.4). States keep their type.
#include <map>

#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

class PrecisionRewrite {
 public:
  PrecisionRewrite(Graph& graph, DType low) : graph_(graph), low_(low) {}

  size_t run() {
    const std::vector<NodeId> order = graph_.order();
    for (NodeId id : order) rewrite_node(id);
    for (ValueId& output : graph_.outputs) {
      if (wanted_outputs_.contains(output)) output = widened_output(output);
    }
    return changed_;
  }

  // Remembers the outputs that were f32 before anything changed.
  void note_outputs() {
    for (ValueId output : graph_.outputs) {
      const Value& value = graph_.value(output);
      if (value.type.dtype == DType::f32 && value.origin == ValueOrigin::Node) {
        wanted_outputs_.emplace(output, std::nullopt);
      }
    }
  }

 private:
  ValueId add_cast(ValueId from, DType to, std::optional<NodeId> before) {
    const std::string name =
        graph_.fresh_name(graph_.value(from).name + "." + std::string(name_of(to)));
    const ValueId output =
        graph_.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}});
    Node node{.name = name,
              .op = "cast",
              .inputs = {from},
              .outputs = {output},
              .attributes = {{"to", std::string(name_of(to))}},
              .region = {}};
    const NodeId id = before ? graph_.insert_node_before(*before, std::move(node))
                             : graph_.add_node(std::move(node));
    infer(id);
    return output;
  }

  void infer(NodeId id) {
    Diagnostics diagnostics;
    RLX_CHECK(check_and_infer(graph_, id, diagnostics), diagnostics.text());
  }

  // The low-precision twin of a leaf, cast once before its first reader.
  ValueId lowered_leaf(ValueId leaf, NodeId reader) {
    const auto [entry, fresh] = lowered_.try_emplace(leaf);
    if (fresh) entry->second = add_cast(leaf, low_, reader);
    return entry->second;
  }

  void rewrite_node(NodeId id) {
    const std::vector<std::optional<ValueId>> inputs = graph_.node(id).inputs;
    const bool writes_state = graph_.node(id).op == "state_write";
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i]) continue;
      const Value value = graph_.value(*inputs[i]);
      if (writes_state) {
        const bool lowered = i == 1 && value.type.dtype == low_;
        const DType wanted = graph_.value(*inputs[0]).type.dtype;
        if (lowered && wanted != low_) graph_.node(id).inputs[1] = add_cast(*inputs[1], wanted, id);
      } else if (value.origin != ValueOrigin::Node && value.type.dtype == DType::f32) {
        const ValueId twin = lowered_leaf(*inputs[i], id);
        graph_.node(id).inputs[i] = twin;
      }
    }
    lower_attribute(graph_.node(id), "to");
    lower_attribute(graph_.node(id), "out_dtype");
    infer(id);
    ++changed_;
  }

  // A result that the model asks to be f32 is low precision too.
  void lower_attribute(Node& node, const std::string& name) const {
    const auto found = node.attributes.find(name);
    if (found == node.attributes.end()) return;
    if (found->second == AttributeValue(std::string("f32"))) {
      found->second = std::string(name_of(low_));
    }
  }

  ValueId widened_output(ValueId output) {
    std::optional<ValueId>& wide = wanted_outputs_.at(output);
    if (graph_.value(output).type.dtype == DType::f32) return output;
    if (!wide) wide = add_cast(output, DType::f32, std::nullopt);
    return *wide;
  }

  Graph& graph_;
  DType low_;
  std::map<ValueId, ValueId> lowered_;
  std::map<ValueId, std::optional<ValueId>> wanted_outputs_;
  size_t changed_ = 0;
};

}  // namespace

size_t lower_precision(Module& module, const PassOptions& options, Diagnostics&) {
  if (options.precision == "f32") return 0;
  const DType low = dtype_from_name(options.precision).value();
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    PrecisionRewrite rewrite(graph, low);
    rewrite.note_outputs();
    changed += rewrite.run();
  }
  return changed;
}

}  // namespace rlx
