// SPDX-License-Identifier: Apache-2.0
// The precision mode: f32 values between the inputs and outputs of an entry become f16 or bf16.
// Kernels still accumulate, and norms and softmax still compute, in f32 (ops.md 0.4). States keep
// their type.
#include <map>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

bool keeps_f32(const OpDef& op, size_t input) {
  return input < 32 && (op.keeps_f32 >> input & 1) != 0;
}

class PrecisionRewrite {
 public:
  PrecisionRewrite(Graph& graph, DType low) : graph_(graph), low_(low) {}

  size_t run() {
    const std::vector<NodeId> order = graph_.order();
    for (NodeId id : order) rewrite_node(id);
    std::vector<ValueId> outputs = graph_.outputs();
    for (ValueId& output : outputs) {
      if (wanted_outputs_.contains(output)) output = widened_output(output);
    }
    graph_.set_outputs(outputs);
    return changed_;
  }

  // Remembers the outputs that were f32 before anything changed.
  void note_outputs() {
    for (ValueId output : graph_.outputs()) {
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

  // The low-precision twin of a value, cast once before its first reader.
  ValueId lowered(ValueId value, NodeId reader) {
    const auto [entry, fresh] = lowered_.try_emplace(value);
    if (fresh) entry->second = add_cast(value, low_, reader);
    return entry->second;
  }

  // The value that `node` reads instead of its input `i`.
  ValueId rewritten_input(NodeId id, size_t i) {
    const ValueId input = *graph_.node(id).inputs[i];
    const OpDef& op = *find_op(graph_.node(id).op);
    const DType dtype = graph_.value(input).type.dtype;
    if (op.takes_type_of_first) {
      const DType wanted = graph_.value(*graph_.node(id).inputs[0]).type.dtype;
      return i == 1 && dtype != wanted ? add_cast(input, wanted, id) : input;
    }
    if (op.name == OpId::bitcast) {
      const auto& to = std::get<std::string>(graph_.node(id).attributes.at("to"));
      const bool shrunk = block_bytes(dtype) != block_bytes(dtype_from_name(to).value());
      return shrunk ? add_cast(input, DType::f32, id) : input;
    }
    // f32 here: a leaf, or one of the few results that are f32 by definition.
    return dtype == DType::f32 && !keeps_f32(op, i) ? lowered(input, id) : input;
  }

  void rewrite_node(NodeId id) {
    for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      if (!graph_.node(id).inputs[i]) continue;
      const ValueId input = rewritten_input(id, i);
      if (graph_.node(id).inputs[i] != input) graph_.set_input(id, i, input);
    }
    if (graph_.node(id).op != OpId::bitcast) lower_attribute(id, "to");
    lower_attribute(id, "out_dtype");
    infer(id);
    ++changed_;
  }

  // A result that the model asks to be f32 is low precision too.
  void lower_attribute(NodeId id, const std::string& name) {
    const Attributes& written = graph_.node(id).attributes;
    const auto found = written.find(name);
    if (found == written.end() || found->second != AttributeValue(std::string("f32"))) return;
    graph_.change_node(id, [&](Node& node) { node.attributes[name] = std::string(name_of(low_)); });
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
  if (options.precision == "f32" || options.precision == "tf32") return 0;
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
