// SPDX-License-Identifier: Apache-2.0
// Precision mixed, attention over caches of halves: queries and results become halves too where
// matrix units then compute it. Products that round the results read them as they are.
#include <algorithm>

#include "compiler/ops/attention/attention_lower.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/block_products.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

std::string text_of(DType dtype) {
  return std::string(name_of(dtype));
}

bool is_view(const Node& node) {
  return find_op(node.op)->view_kind != ViewKind::None && node.outputs.size() == 1;
}

class AttentionRounding {
 public:
  AttentionRounding(Graph& graph, const OfferContext& at) : graph_(graph), at_(at) {}

  size_t run() {
    size_t changed = 0;
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      if (graph_.node(id).op != OpId::attention || !wants_halves(id)) continue;
      round(id);
      ++changed;
    }
    return changed;
  }

 private:
  [[nodiscard]] DType dtype_of(ValueId id) const { return graph_.value(id).type.dtype; }

  // Queries of f32 over keys and values of one type of halves.
  [[nodiscard]] bool may_round(const Node& node) const {
    const std::optional<ValueId> k = input_at(node, kAttentionK);
    const std::optional<ValueId> v = input_at(node, kAttentionV);
    return k && v && node.outputs.size() == 1 && !graph_.is_output(node.outputs[0]) &&
           dtype_of(*node.inputs[kAttentionQ]) == DType::f32 && is_half(dtype_of(*k)) &&
           dtype_of(*k) == dtype_of(*v);
  }

  [[nodiscard]] bool wants_halves(NodeId id) const {
    const Node& node = graph_.node(id);
    return may_round(node) && decided_at_all_sizes([&] { return takes_matrix_units(node); });
  }

  [[nodiscard]] bool takes_matrix_units(const Node& node) const {
    std::vector<std::optional<TensorType>> types;
    for (const std::optional<ValueId>& input : node.inputs) {
      types.push_back(input ? std::optional(graph_.value(*input).type) : std::nullopt);
    }
    types[kAttentionQ]->dtype = types[kAttentionK]->dtype;
    Diagnostics diagnostics;
    InferContext ctx(*find_op(node.op), graph_, node, diagnostics);
    const std::optional<AttentionProblem> problem = attention_problem(ctx, types);
    RLX_CHECK(problem, diagnostics.text());
    if (problem->batch * problem->heads * problem->q_tokens == 0) return false;
    const auto choice = choose(attention_offers(), at_, attention_of_types(*problem, types));
    return choice.row != nullptr && (choice.row->kernel == KernelId::attention_mma ||
                                     choice.row->kernel == KernelId::attention_coop);
  }

  void round(NodeId id) {
    const Node node = graph_.node(id);
    const DType halves = dtype_of(*node.inputs[kAttentionK]);
    round_queries(id, halves);
    infer(id);
    const ValueId y = node.outputs[0];
    if (all_may_read(y, halves)) {
      hand_on(y);
    } else {
      widen(y);
    }
  }

  // What rotates the queries, for this node alone, rounds them too; else a cast does.
  void round_queries(NodeId id, DType halves) {
    const ValueId q = *graph_.node(id).inputs[kAttentionQ];
    const std::optional<NodeId> producer = graph_.value(q).producer;
    if (producer && graph_.node(*producer).op == OpId::rope_append &&
        graph_.node(*producer).outputs[0] == q && sole_reader(graph_, q)) {
      graph_.change_node(*producer,
                         [&](Node& node) { node.attributes["q_dtype"] = text_of(halves); });
      infer(*producer);
      return;
    }
    const std::string stem = graph_.value(q).name + "." + text_of(halves);
    graph_.set_input(id, kAttentionQ,
                     add_node_before(graph_, id, "cast", stem, {q}, {{"to", text_of(halves)}}));
  }

  // A product of weights in blocks that reads the value as its rows alone.
  [[nodiscard]] bool is_product_of(NodeId reader, ValueId x) const {
    const std::optional<BlockProduct> product = block_product_of(graph_, graph_.node(reader));
    return product && product->x() == x && !product->has_norm() &&
           product->inputs[FusedDequantInput::kResidual] != x;
  }

  // True where all that reads the value, perhaps through views, rounds it to that type, or may.
  [[nodiscard]] bool all_may_read(ValueId value, DType halves) const {
    if (graph_.is_output(value)) return false;
    return std::ranges::all_of(graph_.readers(value), [&](NodeId reader) {
      const Node& node = graph_.node(reader);
      if (node.op == OpId::cast)
        return dtype_of(node.outputs[0]) == halves && !graph_.is_output(node.outputs[0]);
      return is_product_of(reader, value) ||
             (is_view(node) && all_may_read(node.outputs[0], halves));
    });
  }

  void hand_on(ValueId value) {
    const std::vector<NodeId> readers = graph_.readers(value);
    for (const NodeId reader : readers) {
      const ValueId result = graph_.node(reader).outputs[0];
      if (graph_.node(reader).op == OpId::cast) {
        graph_.replace_uses(result, value);
        graph_.remove_node(reader);
      } else if (is_product_of(reader, value)) {
        const std::string kept = text_of(dtype_of(result));
        graph_.change_node(reader, [&](Node& node) { node.attributes["out_dtype"] = kept; });
        infer(reader);
      } else {
        infer(reader);
        hand_on(result);
      }
    }
  }

  // Readers see f32 as before.
  void widen(ValueId value) {
    const std::vector<NodeId> readers = graph_.readers(value);
    const auto first = std::ranges::find_if(
        graph_.order(), [&](NodeId id) { return std::ranges::find(readers, id) != readers.end(); });
    if (first == graph_.order().end()) return;
    const ValueId wide = add_node_before(graph_, *first, "cast", graph_.value(value).name + ".f32",
                                         {value}, {{"to", text_of(DType::f32)}});
    for (const NodeId reader : readers) {
      const std::vector<std::optional<ValueId>> inputs = graph_.node(reader).inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == value) graph_.set_input(reader, i, wide);
      }
    }
  }

  void infer(NodeId id) {
    Diagnostics diagnostics;
    RLX_CHECK(check_and_infer(graph_, id, diagnostics), diagnostics.text());
  }

  Graph& graph_;
  const OfferContext& at_;
};

}  // namespace

size_t round_attention(Module& module, const PassOptions& options, Diagnostics&) {
  if (options.precision != "mixed" || options.target == nullptr) return 0;
  const OfferContext at = offer_context(options);
  size_t changed = 0;
  for (Graph& graph : module.entries) changed += AttentionRounding(graph, at).run();
  return changed;
}

}  // namespace rlx
