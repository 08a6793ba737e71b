// SPDX-License-Identifier: Apache-2.0
// Heads whose size matrix units do not take, filled up with zeros where attention on them and the
// copies together are faster: zeros in q and k add nothing to a score, and what they give of v is
// cut off.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/attention/attention_lower.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

using Types = std::vector<std::optional<TensorType>>;

constexpr std::array kHeadInputs = {kAttentionQ, kAttentionK, kAttentionV};

int64_t size_of(const AttentionProblem& problem, AttentionInput input) {
  return input == kAttentionV ? problem.v_head_dim : problem.head_dim;
}

// Heads as an axis of their own: [B, S, H D] as [B, S, H, D].
Shape apart(const Shape& shape, int64_t dim) {
  if (shape.size() == 4) return shape;
  return {shape[0], shape[1], shape[2] / dim, dim};
}

std::string apart_layout(const std::string& layout) {
  return layout == "bsd" ? "bshd" : layout;
}

Types input_types(const Graph& graph, const Node& node) {
  Types types;
  for (const std::optional<ValueId>& input : node.inputs)
    types.push_back(input ? std::optional(graph.value(*input).type) : std::nullopt);
  return types;
}

// The problem of a node whose heads could be filled up to whole pieces of `piece` elements.
struct Padding {
  AttentionProblem problem;  // as it is
  AttentionProblem padded;
  Types types;
  Types padded_types;
};

std::optional<Padding> padding_of(const Graph& graph, const Node& node) {
  if (node.outputs.size() != 1) return std::nullopt;
  const Types types = input_types(graph, node);
  Diagnostics diagnostics;
  InferContext ctx(*find_op(node.op), graph, node, diagnostics);
  const std::optional<AttentionProblem> problem = attention_problem(ctx, types);
  RLX_CHECK(problem, diagnostics.text());
  if (problem->packed != "none") return std::nullopt;
  const int64_t piece = kWidestAccessBytes / element_bytes(types[kAttentionQ]->dtype);
  Padding result{.problem = *problem, .padded = *problem, .types = types, .padded_types = types};
  result.padded.head_dim = round_up(problem->head_dim, piece);
  result.padded.v_head_dim = round_up(problem->v_head_dim, piece);
  if (result.padded.head_dim == problem->head_dim &&
      result.padded.v_head_dim == problem->v_head_dim)
    return std::nullopt;
  for (const AttentionInput input : kHeadInputs) {
    Shape& shape = result.padded_types[input]->shape;
    shape = apart(shape, size_of(*problem, input));
    shape.back() = size_of(result.padded, input);
  }
  for (std::string* layout :
       {&result.padded.q_layout, &result.padded.kv_layout, &result.padded.out_layout})
    *layout = apart_layout(*layout);
  return result;
}

double copies_time(const OfferContext& at, const Padding& padding) {
  double time = 0;
  for (const AttentionInput input : kHeadInputs) {
    if (size_of(padding.padded, input) != size_of(padding.problem, input))
      time += copy_microseconds(at.device(), *padding.types[input], *padding.padded_types[input]);
  }
  if (padding.padded.v_head_dim == padding.problem.v_head_dim) return time;
  TensorType y{.dtype = padding.types[kAttentionQ]->dtype,
               .shape = attention_output_shape(padding.problem)};
  TensorType padded = y;
  padded.shape = attention_output_shape(padding.padded);
  return time + copy_microseconds(at.device(), padded, y);
}

bool is_faster(const OfferContext& at, const Padding& padding) {
  const AttentionProblem& problem = padding.problem;
  if (problem.batch * problem.heads * problem.q_tokens * problem.kv_tokens == 0) return false;
  const auto time = [&](const AttentionProblem& of, const Types& types) {
    const auto choice = choose(attention_offers(), at, attention_of_types(of, types));
    return choice.row == nullptr ? std::nullopt : std::optional(choice.microseconds);
  };
  const std::optional<double> now = time(problem, padding.types);
  const std::optional<double> then = time(padding.padded, padding.padded_types);
  return now && then && *then + copies_time(at, padding) < *now;
}

void pad(Graph& graph, NodeId id, const Padding& padding) {
  const Node node = graph.node(id);
  NodeEmitter emitter(graph, id);
  std::vector<std::optional<ValueId>> inputs = node.inputs;
  for (const AttentionInput input : kHeadInputs) {
    const int64_t size = size_of(padding.problem, input);
    const int64_t missing = size_of(padding.padded, input) - size;
    const Shape heads = apart(padding.types[input]->shape, size);
    inputs[input] = emitter.reshape(*inputs[input], heads);
    if (missing == 0) continue;
    inputs[input] =
        emitter.emit("pad", {inputs[input]}, {{"pads", Ints{0, missing}}, {"axes", Ints{3}}});
  }
  Attributes attributes = node.attributes;
  attributes["head_dim"] = padding.padded.head_dim;
  attributes["v_head_dim"] = padding.padded.v_head_dim;
  attributes["scale"] = padding.problem.scale;
  attributes["q_layout"] = padding.padded.q_layout;
  attributes["kv_layout"] = padding.padded.kv_layout;
  attributes["out_layout"] = padding.padded.out_layout;
  ValueId y = emitter.emit("attention", std::move(inputs), std::move(attributes));
  if (padding.padded.v_head_dim != padding.problem.v_head_dim) {
    y = emitter.emit(
        "narrow", {y},
        {{"axis", int64_t{3}}, {"start", int64_t{0}}, {"len", padding.problem.v_head_dim}});
  }
  graph.replace_uses(node.outputs[0], emitter.reshape(y, attention_output_shape(padding.problem)));
  graph.remove_node(id);
}

}  // namespace

size_t pad_heads(Module& module, const PassOptions& options, Diagnostics&) {
  if (options.target == nullptr) return 0;
  const OfferContext at = offer_context(options);
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      if (graph.node(id).op != OpId::attention) continue;
      const std::optional<Padding> padding = padding_of(graph, graph.node(id));
      if (!padding || !decided_at_all_sizes([&] { return is_faster(at, *padding); })) continue;
      pad(graph, id, *padding);
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
