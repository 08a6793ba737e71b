// SPDX-License-Identifier: Apache-2.0
// conv followed by an inference batch_norm of constants: w' = w * s, b' = (b - mean) * s + beta
// with s = gamma * rsqrt(var + eps) per output channel, in f32; w' keeps the type of w. The new
// weights are nodes over weights, which folding evaluates or leaves to the init entry.
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

class BatchNormFold {
 public:
  BatchNormFold(Graph& graph, NodeId conv, NodeId norm) : graph_(graph), conv_(conv), norm_(norm) {}

  void run() {
    const Node conv = graph_.node(conv_);
    const Node norm = graph_.node(norm_);
    const ValueId variance = emit("affine", {as_f32(*norm.inputs[4])}, {{"add", epsilon(norm)}});
    const ValueId scale = emit("mul", {as_f32(*norm.inputs[1]), emit("rsqrt", {variance})});
    const ValueId mean = as_f32(*norm.inputs[3]);
    const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2].has_value();
    const ValueId centred =
        has_bias ? emit("sub", {as_f32(*conv.inputs[2]), mean}) : emit("neg", {mean});
    const ValueId bias = emit("fma", {centred, scale, as_f32(*norm.inputs[2])});
    const TensorType weights = graph_.value(*conv.inputs[1]).type;
    Ints column(weights.shape.size(), 1);
    column[0] = -1;
    const ValueId per_channel = emit("reshape", {scale}, {{"shape", column}});
    const ValueId scaled = emit("mul", {as_f32(*conv.inputs[1]), per_channel});
    Node fused = conv;
    fused.inputs = {conv.inputs[0], cast(scaled, weights.dtype), bias};
    fused.outputs = norm.outputs;
    graph_.insert_node_before(norm_, std::move(fused));
    graph_.remove_node(conv_);
    graph_.remove_node(norm_);
  }

 private:
  static double epsilon(const Node& norm) {
    return AttributeReader(*find_op(norm.op), norm.attributes).real("eps");
  }

  ValueId cast(ValueId value, DType dtype) {
    if (graph_.value(value).type.dtype == dtype) return value;
    return emit("cast", {value}, {{"to", std::string(name_of(dtype))}});
  }
  ValueId as_f32(ValueId value) { return cast(value, DType::f32); }

  ValueId emit(const std::string& op, std::vector<std::optional<ValueId>> inputs,
               Attributes attributes = {}) {
    const Node& norm = graph_.node(norm_);
    const std::string name = graph_.fresh_name(norm.name + "." + op);
    const ValueId output =
        graph_.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}});
    const NodeId id = graph_.insert_node_before(norm_, {.name = name,
                                                        .op = op,
                                                        .inputs = std::move(inputs),
                                                        .outputs = {output},
                                                        .attributes = std::move(attributes),
                                                        .region = {},
                                                        .place = norm.place,
                                                        .source = norm.source});
    Diagnostics diagnostics;
    RLX_CHECK(check_and_infer(graph_, id, diagnostics), diagnostics.text());
    return output;
  }

  Graph& graph_;
  NodeId conv_;
  NodeId norm_;
};

bool short_float_weight(const Module& module, const Graph& graph,
                        const std::optional<ValueId>& id) {
  const Weight* weight = id ? weight_of(module, graph, *id) : nullptr;
  return weight != nullptr && is_float(weight->type.dtype) && weight->type.dtype != DType::f64;
}

bool can_fold(const Module& module, const Graph& graph, const Node& norm) {
  if (norm.op != OpId::batch_norm || norm.outputs.size() != 1) return false;
  const AttributeReader attrs(*find_op(norm.op), norm.attributes);
  if (attrs.flag("training") || attrs.integer("axis") != 1) return false;
  for (size_t i = 1; i < 5; ++i) {
    if (!short_float_weight(module, graph, norm.inputs[i])) return false;
  }
  const Value& x = graph.value(*norm.inputs[0]);
  if (x.origin != ValueOrigin::Node || graph.is_output(*norm.inputs[0])) return false;
  const Node& conv = graph.node(*x.producer);
  if (conv.op != OpId::conv || conv.attributes.contains("activation")) return false;
  if (graph.reader_count(*norm.inputs[0]) != 1) return false;
  const bool bias_fits = conv.inputs.size() < 3 || !conv.inputs[2] ||
                         short_float_weight(module, graph, conv.inputs[2]);
  return bias_fits && short_float_weight(module, graph, conv.inputs[1]);
}

}  // namespace

size_t fold_batch_norm(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (!can_fold(module, graph, graph.node(id))) continue;
      const ValueId x = *graph.node(id).inputs[0];
      BatchNormFold(graph, *graph.value(x).producer, id).run();
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
