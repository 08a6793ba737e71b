// SPDX-License-Identifier: Apache-2.0
// ew_region: a chain of elementwise steps as one node (ops.md 2.4).
#include <algorithm>

#include "compiler/ops/elementwise.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

std::string step_name(const Node& node, size_t j) {
  return node.name + " step " + std::to_string(j);
}

// A graph of the region's inputs, to which the steps are added as nodes.
struct StepGraph {
  Graph graph;
  std::vector<ValueId> operands;  // inputs, then the results of the steps so far
};

bool check_operands(InferContext& ctx, const RegionStep& step, size_t j) {
  const OpDef* op = find_op(step.op);
  if (op == nullptr || op->scalar == nullptr) {
    return ctx.fail(DiagCode::UnsupportedOp, "step " + std::to_string(j) + " is \"" + step.op +
                                                 "\", wanted an elementwise op");
  }
  const size_t known = ctx.input_count() + j;
  for (uint32_t operand : step.operands) {
    if (operand < known) continue;
    return ctx.fail(DiagCode::UnknownValue,
                    "step " + std::to_string(j) + " reads operand " + std::to_string(operand) +
                        ", wanted an input or an earlier step, below " + std::to_string(known));
  }
  return true;
}

bool infer_step(InferContext& ctx, StepGraph& chain, size_t j) {
  const RegionStep& step = ctx.node().region[j];
  if (!check_operands(ctx, step, j)) return false;
  const std::string name = step_name(ctx.node(), j);
  const ValueId result =
      chain.graph.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}});
  Node node{.name = name,
            .op = step.op,
            .inputs = {},
            .outputs = {result},
            .attributes = step.attributes,
            .region = {},
            .place = ctx.node().place,
            .source = ctx.node().source};
  for (uint32_t operand : step.operands) node.inputs.emplace_back(chain.operands.at(operand));
  const NodeId id = chain.graph.add_node(std::move(node));
  Diagnostics diagnostics;
  if (!check_and_infer(chain.graph, id, diagnostics)) {
    const Diagnostic& first = diagnostics.all().front();
    return ctx.fail(first.code,
                    "step " + std::to_string(j) + " (" + step.op + "): " + first.message,
                    first.hint);
  }
  const DType inferred = chain.graph.value(result).type.dtype;
  if (inferred != step.dtype) {
    return ctx.fail(DiagCode::BadDtype, "step " + std::to_string(j) + " (" + step.op +
                                            ") says dtype " + std::string(name_of(step.dtype)) +
                                            ", wanted " + std::string(name_of(inferred)));
  }
  chain.operands.push_back(result);
  return true;
}

bool infer(InferContext& ctx) {
  if (ctx.node().region.empty())
    return ctx.fail(DiagCode::BadField, "the chain has no steps, wanted at least one");
  StepGraph chain;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    chain.operands.push_back(chain.graph.add_value({.name = "input " + std::to_string(i),
                                                    .type = ctx.input(i),
                                                    .origin = ValueOrigin::Input,
                                                    .weight = {},
                                                    .state = {},
                                                    .producer = {}}));
  }
  for (size_t j = 0; j < ctx.node().region.size(); ++j) {
    if (!infer_step(ctx, chain, j)) return false;
  }
  const DType dtype = chain.graph.value(chain.operands.back()).type.dtype;
  // An input that only a dead step reads still takes part in the shape.
  const std::optional<Shape> shape = infer_broadcast(ctx);
  if (!shape) return false;
  ctx.set_output(0, {dtype, *shape});
  return true;
}

std::optional<Tensor> evaluate_step(EvaluateContext& ctx, const RegionStep& step, size_t j,
                                    const std::vector<const Tensor*>& operands,
                                    const Shape& shape) {
  Node node{.name = step_name(ctx.node(), j),
            .op = step.op,
            .inputs = {},
            .outputs = {ValueId{}},
            .attributes = step.attributes,
            .region = {},
            .place = ctx.node().place,
            .source = ctx.node().source};
  node.inputs.assign(operands.size(), ValueId{});
  Diagnostics diagnostics;
  std::optional<std::vector<Tensor>> results =
      evaluate_node(node, operands, {{step.dtype, shape}}, diagnostics);
  if (!results) {
    const Diagnostic& first = diagnostics.all().front();
    ctx.fail(first.code, "step " + std::to_string(j) + ": " + first.message);
    return std::nullopt;
  }
  return std::move(results->front());
}

bool evaluate(EvaluateContext& ctx) {
  const std::vector<RegionStep>& steps = ctx.node().region;
  RLX_CHECK(!steps.empty(), "region without steps: " + ctx.node().name);
  std::vector<Tensor> results;
  results.reserve(steps.size());  // operands point into it
  for (size_t j = 0; j < steps.size(); ++j) {
    std::vector<const Tensor*> operands;
    Shape shape;
    for (uint32_t operand : steps[j].operands) {
      const Tensor* tensor =
          operand < ctx.input_count() ? &ctx.input(operand) : &results[operand - ctx.input_count()];
      operands.push_back(tensor);
      shape = broadcast_shapes(shape, tensor->type.shape).value();
    }
    // The last step fills the node's shape, which an unread input may have widened.
    if (j + 1 == steps.size()) shape = ctx.output_type(0).shape;
    std::optional<Tensor> result = evaluate_step(ctx, steps[j], j, operands, shape);
    if (!result) return false;
    results.push_back(std::move(*result));
  }
  ctx.output(0) = std::move(results.back());
  return true;
}

}  // namespace

std::span<const OpDef> ew_region_ops() {
  static const std::array<OpDef, 1> ops = {
      OpDef{.name = "ew_region",
            .signature = "ew_region(in0, ...; chain) -> y",
            .inputs = {1, kUnlimited},
            .infer = infer,
            .evaluate = evaluate,
            .lower = lower_elementwise},
  };
  return ops;
}

}  // namespace rlx
