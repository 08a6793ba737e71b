// SPDX-License-Identifier: Apache-2.0
// The contexts that op behaviours see, and the checks around infer and evaluate.
#include "compiler/ops/op_def.h"

#include <algorithm>

#include "compiler/ir/constants.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

std::string count_text(const Arity& arity, const char* noun) {
  std::string text = std::to_string(arity.minimum);
  if (arity.maximum == kUnlimited) {
    text += " or more";
  } else if (arity.maximum != arity.minimum) {
    text += " to " + std::to_string(arity.maximum);
  }
  return text + " " + noun;
}

bool check_arity(const OpDef& op, NodeContext& ctx) {
  const Node& node = ctx.node();
  const size_t given = node.inputs.size();
  if (given < op.inputs.minimum || given > op.inputs.maximum) {
    return ctx.fail(DiagCode::BadArity, "got " + std::to_string(given) + " inputs, wanted " +
                                            count_text(op.inputs, "inputs"));
  }
  for (uint32_t i = 0; i < given; ++i) {
    const bool optional = std::find(op.optional_inputs.begin(), op.optional_inputs.end(), i) !=
                          op.optional_inputs.end();
    if (!node.inputs[i] && !optional) {
      return ctx.fail(DiagCode::BadArity, "input " + std::to_string(i) + " is null but required");
    }
  }
  if (node.outputs.size() < op.outputs.minimum || node.outputs.size() > op.outputs.maximum) {
    return ctx.fail(DiagCode::BadArity, "got " + std::to_string(node.outputs.size()) +
                                            " outputs, wanted " +
                                            count_text(op.outputs, "outputs"));
  }
  return true;
}

}  // namespace

NodeContext::NodeContext(const OpDef& op, const Node& node, Diagnostics& diagnostics)
    : node_(&node), attrs_(op, node.attributes), diagnostics_(&diagnostics) {}

bool NodeContext::fail(DiagCode code, std::string message, std::string hint) {
  diagnostics_->add({.severity = Severity::Error,
                     .code = code,
                     .place = node_->place,
                     .op = node_->op,
                     .node = node_->name,
                     .message = std::move(message),
                     .hint = std::move(hint)});
  return false;
}

std::optional<int64_t> NodeContext::axis(int64_t axis, size_t rank) {
  const auto signed_rank = static_cast<int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    fail(DiagCode::BadAxis,
         "axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
    return std::nullopt;
  }
  return axis < 0 ? axis + signed_rank : axis;
}

std::optional<Ints> NodeContext::axes(const Ints& axes, size_t rank) {
  Ints result;
  for (int64_t written : axes) {
    const std::optional<int64_t> normal = axis(written, rank);
    if (!normal) return std::nullopt;
    if (std::find(result.begin(), result.end(), *normal) != result.end()) {
      fail(DiagCode::BadAxis, "axis " + std::to_string(written) + " is listed twice");
      return std::nullopt;
    }
    result.push_back(*normal);
  }
  return result;
}

InferContext::InferContext(const OpDef& op, const Graph& graph, const Node& node,
                           Diagnostics& diagnostics)
    : NodeContext(op, node, diagnostics),
      graph_(&graph),
      outputs_(op.outputs.maximum == kUnlimited ? node.outputs.size() : op.outputs.maximum) {}

const TensorType& InferContext::input(size_t i) const {
  return graph_->value(node().inputs.at(i).value()).type;
}

void InferContext::set_output(size_t i, TensorType type) {
  outputs_.at(i) = std::move(type);
}

EvaluateContext::EvaluateContext(const OpDef& op, const Node& node,
                                 std::vector<const Tensor*> inputs,
                                 std::vector<TensorType> output_types, Diagnostics& diagnostics)
    : NodeContext(op, node, diagnostics),
      inputs_(std::move(inputs)),
      output_types_(std::move(output_types)) {
  for (const TensorType& type : output_types_) outputs_.push_back(Tensor::zeros(type));
}

RewriteContext::RewriteContext(const OpDef& op, Module& module, Graph& graph, NodeId id,
                               Diagnostics& diagnostics)
    : NodeCopy{graph.node(id)},
      NodeContext(op, original, diagnostics),
      NodeBuilder(module, graph, {.stem = original.name, .node = id, .position = id}),
      id_(id) {}

void RewriteContext::replace_output(size_t i, ValueId value) {
  graph().replace_uses(graph().node(id_).outputs.at(i), value);
  if (++replaced_ == graph().node(id_).outputs.size()) graph().remove_node(id_);
}

ScalarContext::ScalarContext(const OpDef& op, const Attributes& attributes,
                             std::vector<std::string> operands, std::vector<DType> operand_dtypes,
                             DType result)
    : attrs_(op, attributes),
      operands_(std::move(operands)),
      operand_dtypes_(std::move(operand_dtypes)),
      result_(result) {}

std::optional<std::vector<std::vector<TensorType>>> body_input_types(const OpDef& op,
                                                                     const Graph& graph,
                                                                     const Node& node,
                                                                     Diagnostics& diagnostics) {
  InferContext ctx(op, graph, node, diagnostics);
  const bool arity_good = check_arity(op, ctx);
  if (!check_attributes(op, node, diagnostics) || !arity_good) return std::nullopt;
  std::vector<std::vector<TensorType>> types(op.bodies.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (!op.body_inputs(ctx, i, types[i])) return std::nullopt;
  }
  return types;
}

bool check_and_infer(Graph& graph, NodeId id, Diagnostics& diagnostics) {
  const OpDef* op = find_op(graph.node(id).op);
  if (op == nullptr) {
    const Node& node = graph.node(id);
    const std::string near = suggest_op(node.op);
    diagnostics.add({.severity = Severity::Error,
                     .code = DiagCode::UnknownOp,
                     .place = node.place,
                     .op = node.op,
                     .node = node.name,
                     .message = "there is no op of that name",
                     .hint = near.empty() ? "" : "did you mean \"" + near + "\"?"});
    return false;
  }
  InferContext ctx(*op, graph, graph.node(id), diagnostics);
  const bool arity_good = check_arity(*op, ctx);
  const bool attributes_good = check_attributes(*op, graph.node(id), diagnostics);
  if (graph.node(id).bodies.size() != op->bodies.size())
    return ctx.fail(DiagCode::BadField, "got " + std::to_string(graph.node(id).bodies.size()) +
                                            " bodies, wanted " + std::to_string(op->bodies.size()));
  if (!arity_good || !attributes_good || !op->infer(ctx)) return false;
  const std::vector<ValueId> outputs = graph.node(id).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) graph.value(outputs[i]).type = ctx.outputs().at(i);
  return true;
}

namespace {

struct Evaluated {
  std::vector<Tensor> outputs;
  bool has_index_outside = false;
};

std::optional<Evaluated> evaluated(const Node& node, std::vector<const Tensor*> inputs,
                                   std::vector<TensorType> output_types, Diagnostics& diagnostics) {
  const OpDef* op = find_op(node.op);
  RLX_CHECK(op != nullptr, "evaluating unknown op " + node.op);
  const std::vector<TensorType> types = output_types;
  EvaluateContext ctx(*op, node, std::move(inputs), std::move(output_types), diagnostics);
  if (op->evaluate == nullptr) {
    ctx.fail(DiagCode::UnsupportedOp, "the reference evaluator does not define this op");
    return std::nullopt;
  }
  // Nothing to compute, however many rows there are of no columns.
  const auto is_empty = [](const TensorType& type) { return element_count(type.shape) == 0; };
  const bool computes = !std::all_of(types.begin(), types.end(), is_empty);
  if (computes && !op->evaluate(ctx)) return std::nullopt;
  return Evaluated{.outputs = ctx.take_outputs(), .has_index_outside = ctx.has_index_outside()};
}

}  // namespace

std::optional<std::vector<Tensor>> evaluate_node(const Node& node,
                                                 std::vector<const Tensor*> inputs,
                                                 std::vector<TensorType> output_types,
                                                 Diagnostics& diagnostics) {
  auto result = evaluated(node, std::move(inputs), std::move(output_types), diagnostics);
  if (!result) return std::nullopt;
  return std::move(result->outputs);
}

std::optional<std::vector<Tensor>> evaluate_to_fold(const Node& node,
                                                    std::vector<const Tensor*> inputs,
                                                    std::vector<TensorType> output_types,
                                                    Diagnostics& diagnostics) {
  auto result = evaluated(node, std::move(inputs), std::move(output_types), diagnostics);
  if (!result || result->has_index_outside) return std::nullopt;
  return std::move(result->outputs);
}

}  // namespace rlx
