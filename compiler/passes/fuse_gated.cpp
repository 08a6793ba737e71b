// SPDX-License-Identifier: Apache-2.0
// Gated pairs: act(x * w + b) * (x * w2 + b2), as in SwiGLU, becomes one fused_norm_matmul where
// the target has a kernel for such a pair, which wants weights as rows [N, K]: those of columns are
// turned. Elsewhere the activation leaves the product again, so that both can become one product
// and one elementwise step does the rest. Both products are read by the mul alone, and their
// weights are of one type and layout. Pairs with weights in blocks become one fused_dequant_matmul
// likewise: all targets have kernels for them, but not for all whose weights are rounded first.
#include <algorithm>

#include "compiler/ops/op_id.h"
#include "compiler/ops/product/product_offers.h"
#include "compiler/passes/block_products.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

Dim columns_of(const Graph& graph, const ProductNode& product) {
  return graph.value(product.w).type.shape[product.rows ? 0 : 1];
}

// A bias of one value per column, or none.
bool has_plain_bias(const Graph& graph, const ProductNode& product) {
  const Shape columns = {columns_of(graph, product)};
  return !product.bias || graph.value(*product.bias).type.shape == columns;
}

struct GatedPair {
  ValueId activated{};  // the gate's result
  ProductNode gate;     // the activated one
  ProductNode up;
};

std::optional<ProductNode> half_of(const Graph& graph, ValueId value) {
  const Node* node = producer_of(graph, value);
  if (node == nullptr || !sole_reader(graph, value)) return std::nullopt;
  std::optional<ProductNode> product = product_of(graph, *node);
  const bool fits = product && !product->residual && has_plain_bias(graph, *product);
  return fits ? product : std::nullopt;
}

std::optional<GatedPair> pair_of(const Graph& graph, const Node& node) {
  if (node.op != OpId::mul || node.inputs[0] == node.inputs[1]) return std::nullopt;
  const std::optional<ProductNode> first = half_of(graph, *node.inputs[0]);
  const std::optional<ProductNode> second = half_of(graph, *node.inputs[1]);
  if (!first || !second || first->x != second->x) return std::nullopt;
  if (graph.value(first->w).type != graph.value(second->w).type || first->rows != second->rows)
    return std::nullopt;
  if (!first->activation.empty() && !second->activation.empty()) return std::nullopt;
  if (first->activation.empty())
    return GatedPair{.activated = *node.inputs[1], .gate = *second, .up = *first};
  return GatedPair{.activated = *node.inputs[0], .gate = *first, .up = *second};
}

ProductTypes types_of(const Graph& graph, const GatedPair& pair) {
  const TensorType& w = graph.value(pair.gate.w).type;
  return {.m = line_count(graph, pair.gate.x),
          .n = w.shape[pair.gate.rows ? 0 : 1],
          .k = w.shape[pair.gate.rows ? 1 : 0],
          .x = graph.value(pair.gate.x).type.dtype,
          .w = w.dtype};
}

bool pair_has_kernel(const Graph& graph, const GatedPair& pair, const OfferContext& at) {
  return decided_at_all_sizes([&] {
    ProductTypes types = types_of(graph, pair);
    types.gated = true;
    return choose(product_offers(), at, product_of_types(types)).row != nullptr;
  });
}

// Columns of the model alone are turned, which costs nothing in the run.
bool may_be_rows(const Module& module, const Graph& graph, const ProductNode& product) {
  return product.rows ||
         (weight_of(module, graph, product.w) != nullptr && graph.reader_count(product.w) == 1);
}

// The same pair with weights as rows.
GatedPair with_rows(Module& module, Graph& graph, NodeId id, const GatedPair& pair,
                    Diagnostics& diagnostics) {
  if (pair.gate.rows) return pair;
  for (const std::optional<ValueId>& half : std::vector(graph.node(id).inputs))
    turn_to_rows(module, graph, *graph.value(*half).producer, diagnostics);
  return *pair_of(graph, graph.node(id));
}

void fuse(Graph& graph, NodeId id, const GatedPair& pair) {
  const Node mul = graph.node(id);
  std::vector<std::optional<ValueId>> inputs = {pair.gate.x, pair.gate.w, pair.up.w};
  if (pair.gate.bias || pair.up.bias) {
    inputs.insert(inputs.end(), {std::nullopt, pair.gate.bias, pair.up.bias});
    if (!pair.up.bias) inputs.pop_back();
  }
  const ValueId fused = add_node_before(graph, id, "fused_norm_matmul", mul.name + ".gated", inputs,
                                        pair.gate.activation);
  graph.replace_uses(mul.outputs[0], fused);
  graph.remove_node(id);
  for (const std::optional<ValueId>& half : mul.inputs)
    graph.remove_node(*graph.value(*half).producer);
}

// The activated product as product and activation.
void release_activation(Graph& graph, NodeId mul, const GatedPair& pair) {
  const NodeId gate = *graph.value(pair.activated).producer;
  const Node old = graph.node(gate);
  std::vector<std::optional<ValueId>> inputs = {pair.gate.x, pair.gate.w};
  if (pair.gate.bias) inputs.push_back(pair.gate.bias);
  const ValueId plain = add_node_before(graph, mul, "fused_matmul_bias_act", old.name + ".plain",
                                        inputs, {{"trans_w", pair.gate.rows}});
  Attributes parameters = pair.gate.activation;
  parameters.erase("activation");
  const std::string op = std::get<std::string>(pair.gate.activation.at("activation"));
  const ValueId result = add_node_before(graph, mul, op, old.name + "." + op, {plain}, parameters);
  graph.replace_uses(pair.activated, result);
  graph.remove_node(gate);
}

// ---- weights in blocks ----

using In = FusedDequantInput;

// A half of a pair, perhaps activated.
std::optional<BlockProduct> block_half_of(const Graph& graph, ValueId value) {
  const Node* node = producer_of(graph, value);
  if (node == nullptr || !sole_reader(graph, value)) return std::nullopt;
  std::optional<BlockProduct> product = block_product_of(graph, *node);
  const bool fits = product && !product->inputs[In::kW2] && !product->inputs[In::kResidual] &&
                    !product->has_norm();
  return fits ? product : std::nullopt;
}

// The pair as one product, or nullopt.
std::optional<BlockProduct> block_pair_of(Graph& graph, NodeId id, const OfferContext& at) {
  const Node& mul = graph.node(id);
  if (mul.op != OpId::mul || mul.inputs[0] == mul.inputs[1]) return std::nullopt;
  std::optional<BlockProduct> gate = block_half_of(graph, *mul.inputs[0]);
  std::optional<BlockProduct> up = block_half_of(graph, *mul.inputs[1]);
  if (!gate || !up) return std::nullopt;
  if (!gate->attributes.contains("activation")) std::swap(gate, up);
  if (up->attributes.contains("activation") || gate->x() != up->x()) return std::nullopt;
  if (graph.value(gate->w()).type != graph.value(up->w()).type) return std::nullopt;
  const std::optional<ValueId> bias = gate->inputs[In::kBias];
  const std::optional<ValueId> up_bias = up->inputs[In::kBias];
  if (bias.has_value() != up_bias.has_value()) return std::nullopt;
  if (bias && graph.value(*bias).type != graph.value(*up_bias).type) return std::nullopt;
  gate->inputs[In::kW2] = up->w();
  gate->attributes["gated"] = true;
  // A bias, joined below, is as good as none to the kernels.
  const bool has_kernel = decided_at_all_sizes(
      [&] { return has_block_kernel(graph, *gate, graph.value(mul.outputs[0]).type.dtype, at); });
  if (!has_kernel) return std::nullopt;
  if (bias) {
    gate->inputs[In::kBias] =
        add_node_before(graph, id, "concat", graph.value(*bias).name + ".joined", {bias, up_bias},
                        {{"axis", int64_t{0}}});
  }
  return gate;
}

bool fuse_block_pair(Graph& graph, NodeId id, const OfferContext& at) {
  std::optional<BlockProduct> pair = block_pair_of(graph, id, at);
  if (!pair) return false;
  const Node mul = graph.node(id);
  const ValueId result = add_block_product(graph, id, mul.name + ".gated", std::move(*pair),
                                           graph.value(mul.outputs[0]).type.dtype);
  graph.replace_uses(mul.outputs[0], result);
  graph.remove_node(id);
  for (const std::optional<ValueId>& half : mul.inputs)
    graph.remove_node(*graph.value(*half).producer);
  return true;
}

}  // namespace

size_t fuse_gated(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  if (options.target == nullptr) return 0;
  const OfferContext at = offer_context(options);
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (!graph.contains(id)) continue;
      if (fuse_block_pair(graph, id, at)) {
        ++changed;
        continue;
      }
      const std::optional<GatedPair> pair = pair_of(graph, graph.node(id));
      if (!pair) continue;
      const bool may_fuse = may_be_rows(module, graph, pair->gate) &&
                            may_be_rows(module, graph, pair->up) &&
                            pair_has_kernel(graph, *pair, at);
      if (may_fuse) {
        fuse(graph, id, with_rows(module, graph, id, *pair, diagnostics));
      } else if (!pair->gate.activation.empty()) {
        release_activation(graph, id, *pair);
      } else {
        continue;
      }
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
