// SPDX-License-Identifier: Apache-2.0
// Precision mixed, products of halves with weights in blocks: where matrix units are faster by more
// than a step costs that decodes the weights into memory, the weights are rounded to halves too.
// Gated pairs that no kernel takes so become two products.
#include "compiler/passes/block_products.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

using In = FusedDequantInput;

void set_rounding(BlockProduct& product, DType halves) {
  product.attributes["round_w"] = std::string(name_of(halves));
}

void replace(Graph& graph, NodeId id, ValueId result) {
  graph.replace_uses(graph.node(id).outputs[0], result);
  graph.remove_node(id);
}

void round_whole(Graph& graph, NodeId id, BlockProduct product, DType halves) {
  const Node node = graph.node(id);
  const DType result = graph.value(node.outputs[0]).type.dtype;
  set_rounding(product, halves);
  replace(graph, id, add_block_product(graph, id, node.name + ".rounded", product, result));
}

void round_as_two(Graph& graph, NodeId id, BlockProduct gate, DType halves) {
  const Node node = graph.node(id);
  const DType result = graph.value(node.outputs[0]).type.dtype;
  gate.attributes.erase("gated");
  set_rounding(gate, halves);
  BlockProduct up = gate;
  up.inputs[In::kW] = gate.inputs[In::kW2];
  gate.inputs[In::kW2] = std::nullopt;
  up.inputs[In::kW2] = std::nullopt;
  for (const char* name : {"activation", "alpha", "beta", "min", "max"}) up.attributes.erase(name);
  const ValueId first = add_block_product(graph, id, node.name + ".gate", gate, DType::f32);
  const ValueId second = add_block_product(graph, id, node.name + ".up", up, DType::f32);
  ValueId y = add_node_before(graph, id, "mul", node.name + ".pair", {first, second}, {});
  if (result != DType::f32) {
    y = add_node_before(graph, id, "cast", node.name + ".half", {y},
                        {{"to", std::string(name_of(result))}});
  }
  replace(graph, id, y);
}

bool round_product(Graph& graph, NodeId id, const OfferContext& at) {
  const std::optional<BlockProduct> product = block_product_of(graph, graph.node(id));
  if (!product || product->attributes.contains("round_w")) return false;
  const DType x = graph.value(product->x()).type.dtype;
  const DType result = graph.value(graph.node(id).outputs[0]).type.dtype;
  if (!is_half(x)) return false;
  const WeightRounding gain =
      decided_at_all_sizes([&] { return gain_by_rounding(graph, *product, x, result, at); });
  if (gain == WeightRounding::Whole) round_whole(graph, id, *product, x);
  if (gain == WeightRounding::AsTwo) round_as_two(graph, id, *product, x);
  return gain != WeightRounding::None;
}

}  // namespace

size_t round_weights(Module& module, const PassOptions& options, Diagnostics&) {
  if (options.precision != "mixed" || options.target == nullptr) return 0;
  const OfferContext at = offer_context(options);
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) changed += round_product(graph, id, at) ? 1 : 0;
  }
  return changed;
}

}  // namespace rlx
