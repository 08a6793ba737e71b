// SPDX-License-Identifier: Apache-2.0
// The precision mode: f32 values between the inputs and outputs of an entry become f16 or bf16; or,
// mixed, those alone that products multiply with weights of fewer bits. Kernels still accumulate,
// and norms and softmax still compute, in f32 (ops.md 0.4). States keep their type.
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

void infer(Graph& graph, NodeId id) {
  Diagnostics diagnostics;
  RLX_CHECK(check_and_infer(graph, id, diagnostics), diagnostics.text());
}

// A cast before that node, or behind all.
ValueId add_cast(Graph& graph, ValueId from, DType to, std::optional<NodeId> before) {
  const std::string name =
      graph.fresh_name(graph.value(from).name + "." + std::string(name_of(to)));
  const ValueId output =
      graph.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}});
  Node node{.name = name,
            .op = "cast",
            .inputs = {from},
            .outputs = {output},
            .attributes = {{"to", std::string(name_of(to))}},
            .region = {}};
  const NodeId id =
      before ? graph.insert_node_before(*before, std::move(node)) : graph.add_node(std::move(node));
  infer(graph, id);
  return output;
}

class PrecisionRewrite {
 public:
  PrecisionRewrite(Graph& graph, DType low) : graph_(graph), low_(low) {
    for (size_t i = 0; i < graph.value_count(); ++i)
      given_.push_back(graph.value(ValueId(i)).type.dtype);
  }

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
  // The low-precision twin of a value, cast once before its first reader.
  ValueId lowered(ValueId value, NodeId reader) {
    const auto [entry, fresh] = lowered_.try_emplace(value);
    if (fresh) entry->second = add_cast(graph_, value, low_, reader);
    return entry->second;
  }

  // The value that `node` reads instead of its input `i`.
  ValueId rewritten_input(NodeId id, size_t i) {
    const ValueId input = *graph_.node(id).inputs[i];
    const OpDef& op = *find_op(graph_.node(id).op);
    const DType dtype = graph_.value(input).type.dtype;
    // A body keeps the types of what it is given.
    if (op.name == OpId::loop) {
      const DType given = given_.at(index_of(input));
      return dtype != given ? add_cast(graph_, input, given, id) : input;
    }
    if (op.takes_type_of_first) {
      const DType wanted = graph_.value(*graph_.node(id).inputs[0]).type.dtype;
      const bool differs = i == 1 && dtype != wanted;
      // An append rounds what it stores.
      const bool casts =
          graph_.node(id).op == OpId::kv_append && is_short_float(dtype) && is_short_float(wanted);
      return differs && !casts ? add_cast(graph_, input, wanted, id) : input;
    }
    if (op.name == OpId::bitcast) {
      const auto& to = std::get<std::string>(graph_.node(id).attributes.at("to"));
      const bool shrunk = block_bytes(dtype) != block_bytes(dtype_from_name(to).value());
      return shrunk ? add_cast(graph_, input, DType::f32, id) : input;
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
    infer(graph_, id);
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
    if (!wide) wide = add_cast(graph_, output, DType::f32, std::nullopt);
    return *wide;
  }

  Graph& graph_;
  DType low_;
  std::vector<DType> given_;  // of the values before anything changed
  std::map<ValueId, ValueId> lowered_;
  std::map<ValueId, std::optional<ValueId>> wanted_outputs_;
  size_t changed_ = 0;
};

// Products whose first operand is to have as few bits as the half floats that it meets. Results and
// all else stay f32: sums over many layers, norms, scores. What meets blocks, round-operands rounds
// where that pays.
class MixedRewrite {
 public:
  explicit MixedRewrite(Graph& graph) : graph_(graph) {}

  size_t run() {
    size_t changed = 0;
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      const std::optional<DType> low = low_of(id);
      if (!low) continue;
      graph_.set_input(id, 0, lowered(*graph_.node(id).inputs[0], *low, id));
      graph_.change_node(id, [](Node& node) { node.attributes["out_dtype"] = std::string("f32"); });
      infer(graph_, id);
      ++changed;
    }
    return changed;
  }

 private:
  static bool is_product(const std::string& op) {
    return op == OpId::matmul || op == OpId::grouped_matmul;
  }

  // What an f32 operand of the node becomes: the type of half floats beside it.
  std::optional<DType> low_of(NodeId id) const {
    const Node& node = graph_.node(id);
    if (!is_product(node.op) || graph_.value(*node.inputs[0]).type.dtype != DType::f32)
      return std::nullopt;
    const Value& w = graph_.value(*node.inputs[1]);
    const bool is_lower = w.origin == ValueOrigin::Weight && is_half(w.type.dtype);
    return is_lower ? std::optional(w.type.dtype) : std::nullopt;
  }

  ValueId lowered(ValueId value, DType low, NodeId reader) {
    const auto [entry, fresh] = lowered_.try_emplace({value, low});
    if (fresh) entry->second = add_cast(graph_, value, low, reader);
    return entry->second;
  }

  Graph& graph_;
  std::map<std::pair<ValueId, DType>, ValueId> lowered_;
};

}  // namespace

size_t lower_precision(Module& module, const PassOptions& options, Diagnostics&) {
  if (options.precision == "f32" || options.precision == "tf32") return 0;
  size_t changed = 0;
  if (options.precision == "mixed") {
    for (Graph& graph : module.entries) changed += MixedRewrite(graph).run();
    return changed;
  }
  const DType low = dtype_from_name(options.precision).value();
  for (Graph& graph : module.entries) {
    PrecisionRewrite rewrite(graph, low);
    rewrite.note_outputs();
    changed += rewrite.run();
  }
  return changed;
}

}  // namespace rlx
