// SPDX-License-Identifier: Apache-2.0
// ew_region and batch_ew_region: a chain of elementwise steps as one node (ops.md 2.4).
#include <algorithm>

#include "compiler/ops/lowering/chain_text.h"
#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/ops/prepare.h"
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

// A list attribute of texts; an empty list of a graph file has no type of its own.
Strings texts_of(const AttributeValue& value) {
  return std::holds_alternative<Strings>(value) ? std::get<Strings>(value) : Strings{};
}

StepGraph graph_of_inputs(const std::vector<TensorType>& types) {
  StepGraph chain;
  for (size_t i = 0; i < types.size(); ++i) {
    chain.operands.push_back(chain.graph.add_value({.name = "input " + std::to_string(i),
                                                    .type = types[i],
                                                    .origin = ValueOrigin::Input,
                                                    .weight = {},
                                                    .state = {},
                                                    .producer = {}}));
  }
  return chain;
}

bool check_operands(NodeContext& ctx, const StepGraph& chain, const RegionStep& step, size_t j) {
  const OpDef* op = find_op(step.op);
  if (op == nullptr || op->scalar == nullptr) {
    return ctx.fail(DiagCode::UnsupportedOp, "step " + std::to_string(j) + " is \"" + step.op +
                                                 "\", wanted an elementwise op");
  }
  const size_t known = chain.operands.size();
  for (uint32_t operand : step.operands) {
    if (operand < known) continue;
    return ctx.fail(DiagCode::UnknownValue,
                    "step " + std::to_string(j) + " reads operand " + std::to_string(operand) +
                        ", wanted an input or an earlier step, below " + std::to_string(known));
  }
  return true;
}

// Adds the step to the chain's graph; its dtype, or nullopt after a diagnostic.
std::optional<DType> add_step(NodeContext& ctx, StepGraph& chain, const RegionStep& step,
                              size_t j) {
  if (!check_operands(ctx, chain, step, j)) return std::nullopt;
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
    ctx.fail(first.code, "step " + std::to_string(j) + " (" + step.op + "): " + first.message,
             first.hint);
    return std::nullopt;
  }
  chain.operands.push_back(result);
  return chain.graph.value(result).type.dtype;
}

bool infer_step(InferContext& ctx, StepGraph& chain, size_t j) {
  const RegionStep& step = ctx.node().region[j];
  const std::optional<DType> inferred = add_step(ctx, chain, step, j);
  if (!inferred) return false;
  if (*inferred == step.dtype) return true;
  return ctx.fail(DiagCode::BadDtype, "step " + std::to_string(j) + " (" + step.op +
                                          ") says dtype " + std::string(name_of(step.dtype)) +
                                          ", wanted " + std::string(name_of(*inferred)));
}

// Legacy graphs index an operand modulo its size: right for a suffix of the result's shape, which
// broadcasts to the same.
bool check_moduli(InferContext& ctx, const Shape& shape) {
  if (!ctx.attrs().has("input_modulus")) return true;
  const Ints moduli = ctx.attrs().integers("input_modulus");
  if (moduli.size() != ctx.input_count()) {
    return ctx.fail(DiagCode::BadAttribute, "input_modulus has " + std::to_string(moduli.size()) +
                                                " entries, wanted one for each of " +
                                                std::to_string(ctx.input_count()) + " inputs");
  }
  for (size_t i = 0; i < moduli.size(); ++i) {
    const Shape& own = ctx.shape(i);
    const bool is_suffix =
        own.size() <= shape.size() && std::equal(own.rbegin(), own.rend(), shape.rbegin());
    if (moduli[i] == 0 || (is_suffix && moduli[i] == element_count(own))) continue;
    return ctx.fail(DiagCode::BadAttribute,
                    "input_modulus " + to_string(moduli[i]) + " of input " + std::to_string(i) +
                        " of shape " + to_string(own) +
                        ", wanted 0, or the size of a shape that ends " + to_string(shape),
                    "leave it out: inputs broadcast by their shapes");
  }
  return true;
}

// The inputs' shapes together, also of one that only a dead step reads, and those of the steps that
// make their shape themselves.
std::optional<Shape> region_shape(InferContext& ctx, const StepGraph& chain) {
  std::optional<Shape> shape = ctx.input_count() == 0 ? Shape{} : infer_broadcast(ctx);
  for (size_t j = 0; j < ctx.node().region.size() && shape; ++j) {
    if (!is_positional(ctx.node().region[j].op)) continue;
    const ValueId step = chain.operands[ctx.input_count() + j];
    const Shape& own = chain.graph.value(step).type.shape;
    shape = broadcast_shapes(*shape, own);
    if (!shape) {
      ctx.fail(DiagCode::BadShape,
               "step " + std::to_string(j) + " of shape " + to_string(own) +
                   " does not broadcast with the inputs and the steps before it");
    }
  }
  return shape;
}

// An element's coordinates are those of the region.
bool check_positions(InferContext& ctx, const StepGraph& chain, const Shape& shape) {
  for (size_t j = 0; j < ctx.node().region.size(); ++j) {
    const Shape& own = chain.graph.value(chain.operands[ctx.input_count() + j]).type.shape;
    if (!is_positional(ctx.node().region[j].op) || own == shape) continue;
    return ctx.fail(DiagCode::Limit,
                    "step " + std::to_string(j) + " (" + ctx.node().region[j].op + ") has shape " +
                        to_string(own) + " inside a region of shape " + to_string(shape) +
                        ", wanted the region's own, since it depends on positions",
                    "make it a node of its own before the region");
  }
  return true;
}

bool infer_ew_region(InferContext& ctx) {
  if (ctx.node().region.empty())
    return ctx.fail(DiagCode::BadField, "the chain has no steps, wanted at least one");
  std::vector<TensorType> types;
  for (size_t i = 0; i < ctx.input_count(); ++i) types.push_back(ctx.input(i));
  StepGraph chain = graph_of_inputs(types);
  for (size_t j = 0; j < ctx.node().region.size(); ++j) {
    if (!infer_step(ctx, chain, j)) return false;
  }
  const std::optional<Shape> shape = region_shape(ctx, chain);
  if (!shape || !check_positions(ctx, chain, *shape) || !check_moduli(ctx, *shape)) return false;
  ctx.set_output(0, {chain.graph.value(chain.operands.back()).type.dtype, *shape});
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

bool evaluate_ew_region(EvaluateContext& ctx) {
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
    // A result fills the node's shape, which an unread input may have widened, and so does a step
    // that depends on positions.
    if (j + ctx.output_count() >= steps.size() || is_positional(steps[j].op))
      shape = ctx.output_type(0).shape;
    std::optional<Tensor> result = evaluate_step(ctx, steps[j], j, operands, shape);
    if (!result) return false;
    results.push_back(std::move(*result));
  }
  // The last steps are the results.
  for (size_t r = 0; r < ctx.output_count(); ++r)
    ctx.output(r) = results[results.size() - ctx.output_count() + r];
  return true;
}

// A model's region of too much code as nodes, from which fusion makes regions that are not.
bool decompose_region(RewriteContext& ctx) {
  const Node& node = ctx.node();
  std::vector<DType> dtypes;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    operands.push_back(ctx.input(i));
    dtypes.push_back(ctx.type(operands.back()).dtype);
  }
  if (chain_cost(node.region, dtypes) <= kMostRegionCost) return true;
  for (const RegionStep& step : node.region) {
    std::vector<std::optional<ValueId>> inputs;
    for (const uint32_t operand : step.operands) inputs.emplace_back(operands.at(operand));
    operands.push_back(ctx.emit(step.op, std::move(inputs), step.attributes));
  }
  // An input that only a dead step reads may have widened the region's shape.
  const Shape shape = ctx.type(node.outputs[0]).shape;
  ValueId result = operands.back();
  if (ctx.type(result).shape != shape) result = ctx.emit("expand", {result}, {{"shape", shape}});
  ctx.replace_output(0, result);
  return true;
}

// ---- batch_ew_region: one chain over each of `slices` groups of equal inputs, the results one
// after the other along axis 0 ----

// Of all slices: each gets a copy of the chain.
constexpr size_t kMostBatchSteps = size_t{1} << 16;

// One slice as a region of its own.
struct Slice {
  Graph graph;
  NodeId node{};
};

AttributeValue chain_attribute(const NodeContext& ctx) {
  RLX_CHECK(ctx.attrs().has("chain"), "chain of " + ctx.node().name);
  return ctx.node().attributes.at("chain");
}

// Adds the region's steps and infers its type.
bool infer_slice(Slice& slice, Diagnostics& diagnostics) {
  return prepare_chain(slice.graph, slice.node, diagnostics) &&
         check_and_infer(slice.graph, slice.node, diagnostics);
}

Slice slice_of(const NodeContext& ctx, const std::vector<TensorType>& types) {
  Slice slice;
  std::vector<std::optional<ValueId>> inputs;
  StepGraph leaves = graph_of_inputs(types);
  slice.graph = std::move(leaves.graph);
  for (const ValueId id : leaves.operands) inputs.emplace_back(id);
  const ValueId result = slice.graph.add_value(
      {.name = "slice", .type = {}, .weight = {}, .state = {}, .producer = {}});
  slice.node = slice.graph.add_node({.name = ctx.node().name,
                                     .op = "ew_region",
                                     .inputs = std::move(inputs),
                                     .outputs = {result},
                                     .attributes = {{"chain", chain_attribute(ctx)}},
                                     .region = {},
                                     .place = ctx.node().place,
                                     .source = ctx.node().source});
  return slice;
}

bool infer_batch(InferContext& ctx) {
  const auto slices = static_cast<size_t>(ctx.attrs().integer("slices"));
  const size_t steps = texts_of(chain_attribute(ctx)).size();
  if (steps > kMostBatchSteps / slices) {
    return ctx.fail(DiagCode::Limit, std::to_string(slices) + " slices of " +
                                         std::to_string(steps) + " steps, wanted at most " +
                                         std::to_string(kMostBatchSteps) + " steps in all");
  }
  if (ctx.input_count() == 0 || ctx.input_count() % slices != 0) {
    return ctx.fail(DiagCode::BadArity, std::to_string(ctx.input_count()) +
                                            " inputs do not divide into " + std::to_string(slices) +
                                            " equal slices");
  }
  const size_t each = ctx.input_count() / slices;
  std::vector<TensorType> types;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (i < each) types.push_back(ctx.input(i));
    if (ctx.input(i) == types[i % each]) continue;
    return ctx.fail(DiagCode::BadShape, "input " + std::to_string(i) + " is " +
                                            to_string(ctx.input(i)) + ", that of the first slice " +
                                            to_string(types[i % each]) + ", wanted equal types");
  }
  Slice slice = slice_of(ctx, types);
  Diagnostics diagnostics;
  if (!infer_slice(slice, diagnostics)) {
    const Diagnostic& first = diagnostics.all().front();
    return ctx.fail(first.code, first.message, first.hint);
  }
  TensorType type = slice.graph.value(slice.graph.node(slice.node).outputs[0]).type;
  if (type.shape.empty())
    return ctx.fail(DiagCode::BadRank, "slices of rank 0 have no axis 0 to stand along");
  type.shape[0] *= static_cast<int64_t>(slices);
  ctx.set_output(0, std::move(type));
  return true;
}

template <typename T>
void append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

bool evaluate_batch(EvaluateContext& ctx) {
  const auto slices = static_cast<size_t>(ctx.attrs().integer("slices"));
  const size_t each = ctx.input_count() / slices;
  Tensor& y = ctx.output(0);
  y.floats.clear();
  y.integers.clear();
  TensorType type = y.type;
  type.shape[0] /= static_cast<int64_t>(slices);
  for (size_t s = 0; s < slices; ++s) {
    std::vector<TensorType> types;
    std::vector<const Tensor*> inputs;
    for (size_t i = 0; i < each; ++i) {
      inputs.push_back(&ctx.input(s * each + i));
      types.push_back(inputs.back()->type);
    }
    Slice slice = slice_of(ctx, types);
    Diagnostics diagnostics;
    RLX_CHECK(infer_slice(slice, diagnostics), diagnostics.text());
    auto results = evaluate_node(slice.graph.node(slice.node), inputs, {type}, diagnostics);
    RLX_CHECK(results.has_value(), diagnostics.text());
    append(results->front().floats, y.floats);
    append(results->front().integers, y.integers);
  }
  return true;
}

// A region over these inputs before `position`; its result.
ValueId add_region(Graph& graph, NodeId position, const Node& batch,
                   std::vector<std::optional<ValueId>> inputs) {
  const std::string name = graph.fresh_name(batch.name + ".slice");
  const ValueId result =
      graph.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}});
  const NodeId id =
      graph.insert_node_before(position, {.name = name,
                                          .op = "ew_region",
                                          .inputs = std::move(inputs),
                                          .outputs = {result},
                                          .attributes = {{"chain", batch.attributes.at("chain")}},
                                          .region = {},
                                          .place = batch.place,
                                          .source = batch.source});
  Diagnostics diagnostics;
  const bool good =
      prepare_chain(graph, id, diagnostics) && check_and_infer(graph, id, diagnostics);
  RLX_CHECK(good, diagnostics.text());
  return result;
}

// The concat lies along axis 0, so each region writes its part of the result itself.
bool decompose_batch(RewriteContext& ctx) {
  const auto slices = static_cast<size_t>(ctx.attrs().integer("slices"));
  const size_t each = ctx.input_count() / slices;
  const NodeId position = *ctx.graph().value(ctx.node().outputs[0]).producer;
  std::vector<std::optional<ValueId>> parts;
  for (size_t s = 0; s < slices; ++s) {
    std::vector<std::optional<ValueId>> inputs;
    for (size_t i = 0; i < each; ++i) inputs.emplace_back(ctx.input(s * each + i));
    parts.emplace_back(add_region(ctx.graph(), position, ctx.node(), std::move(inputs)));
  }
  ctx.replace_output(0, ctx.emit("concat", std::move(parts), {{"axis", int64_t{0}}}));
  return true;
}

// Input `upsample_input`, read at (n, c, h / 2, w / 2), as the result of a node before the region.
bool prepare_upsampled_input(Graph& graph, NodeId id, Diagnostics& diagnostics) {
  const Node region = graph.node(id);
  NodeContext ctx(*find_op(region.op), region, diagnostics);
  if (!ctx.attrs().has("upsample_input")) return true;
  const int64_t input = ctx.attrs().integer("upsample_input");
  const auto count = static_cast<int64_t>(region.inputs.size());
  if (input < 0 || input >= count || !region.inputs[input]) {
    return ctx.fail(DiagCode::BadAttribute, "upsample_input is " + std::to_string(input) +
                                                ", wanted one of the region's " +
                                                std::to_string(count) + " inputs");
  }
  const std::string name = graph.fresh_name(region.name + ".upsample");
  const ValueId result =
      graph.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}});
  const NodeId upsample = graph.insert_node_before(id, {.name = name,
                                                        .op = "resize_nearest_2x",
                                                        .inputs = {region.inputs[input]},
                                                        .outputs = {result},
                                                        .attributes = {},
                                                        .region = {},
                                                        .place = region.place,
                                                        .source = region.source});
  graph.change_node(id, [&](Node& node) {
    node.inputs[input] = result;
    node.attributes.erase("upsample_input");
  });
  return check_and_infer(graph, upsample, diagnostics);
}

// Steps as chain_text.h writes them. A node that a pass or prepare_chain made has a region instead.
constexpr AttrSpec kRegionAttrs[] = {
    {.name = "chain", .type = AttrType::StringList, .consumed_by_infer = true},
    {.name = "input_modulus", .type = AttrType::IntList, .minimum = 0, .consumed_by_infer = true},
    {.name = "upsample_input", .type = AttrType::Int, .minimum = 0, .consumed_by_infer = true},
};
constexpr AttrSpec kBatchAttrs[] = {
    {.name = "chain", .type = AttrType::StringList, .required = true},
    {.name = "slices", .type = AttrType::Int, .required = true, .minimum = 1, .maximum = 1 << 20},
};

}  // namespace

// The chain of a graph file, texts, as the node's region; its upsampled input as a node before it.
bool prepare_chain(Graph& graph, NodeId id, Diagnostics& diagnostics) {
  if (!prepare_upsampled_input(graph, id, diagnostics)) return false;
  const Node node = graph.node(id);
  const auto texts = node.attributes.find("chain");
  if (texts == node.attributes.end()) return true;
  NodeContext ctx(*find_op(node.op), node, diagnostics);
  std::vector<TensorType> types;
  for (const std::optional<ValueId>& input : node.inputs) {
    if (!input) return ctx.fail(DiagCode::BadArity, "an input of the region is null");
    types.push_back(graph.value(*input).type);
  }
  StepGraph chain = graph_of_inputs(types);
  std::vector<RegionStep> steps;
  for (const std::string& text : texts_of(texts->second)) {
    std::string fault;
    std::optional<RegionStep> step = parse_step(text, fault);
    if (!step) {
      return ctx.fail(DiagCode::BadAttribute,
                      "step " + std::to_string(steps.size()) + " is \"" + text + "\": " + fault,
                      "a step is \"op(0, 1; name=value)\"");
    }
    const std::optional<DType> dtype = add_step(ctx, chain, *step, steps.size());
    if (!dtype) return false;
    step->dtype = *dtype;
    steps.push_back(std::move(*step));
  }
  graph.change_node(id, [&steps](Node& region) {
    region.region = std::move(steps);
    region.attributes.erase("chain");
  });
  return true;
}

std::span<const OpDef> ew_region_ops() {
  static const std::array<OpDef, 2> ops = {
      OpDef{.name = "ew_region",
            .signature = "ew_region(in0, ...; chain, input_modulus, upsample_input) -> y",
            .inputs = {0, kUnlimited},
            .attrs = kRegionAttrs,
            .infer = infer_ew_region,
            .evaluate = evaluate_ew_region,
            .decompose = decompose_region,
            .lower = lower_elementwise},
      OpDef{.name = "batch_ew_region",
            .signature = "batch_ew_region(in0, ...; chain, slices) -> y",
            .inputs = {1, kUnlimited},
            .attrs = kBatchAttrs,
            .infer = infer_batch,
            .evaluate = evaluate_batch,
            .decompose = decompose_batch},
  };
  return ops;
}

}  // namespace rlx
