// SPDX-License-Identifier: Apache-2.0
// Bias, activation and residual into matmul.
#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/product/matmul_library.h"
#include "compiler/passes/block_products.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

// The other operand of a binary node.
ValueId other_operand(const Node& node, ValueId one) {
  return *node.inputs[node.inputs[0] == one ? 1 : 0];
}

// A product grown by the nodes after it.
struct Epilogue {
  ValueId result;  // what the fused node computes so far
  std::vector<NodeId> absorbed;
  std::optional<ValueId> bias;
  std::optional<ValueId> residual;
  std::string activation = "none";
  Attributes activation_attributes;
};

bool is_bias(const Graph& graph, ValueId candidate, const TensorType& result) {
  const TensorType& type = graph.value(candidate).type;
  return !result.shape.empty() && type.shape == Shape{result.shape.back()} && is_float(type.dtype);
}

bool absorb_add(const Graph& graph, const Node& node, Epilogue& epilogue) {
  if (node.op != OpId::add || node.inputs[0] == node.inputs[1]) return false;
  const ValueId other = other_operand(node, epilogue.result);
  const TensorType& type = graph.value(epilogue.result).type;
  if (graph.value(node.outputs[0]).type != type) return false;
  const bool untouched = epilogue.activation == "none" && !epilogue.residual;
  if (untouched && !epilogue.bias && is_bias(graph, other, type)) {
    epilogue.bias = other;
    return true;
  }
  if (epilogue.residual || graph.value(other).type != type) return false;
  epilogue.residual = other;
  return true;
}

bool absorb_activation(const Graph& graph, const Node& node, const Node& product,
                       const std::optional<OfferContext>& at, Epilogue& epilogue) {
  if (epilogue.activation != "none" || epilogue.residual || !activation_fits(node)) return false;
  const TensorType& y = graph.value(epilogue.result).type;
  const TensorType& x = graph.value(*product.inputs[0]).type;
  const TensorType& w = graph.value(*product.inputs[1]).type;
  const Dim n = y.shape.back();
  const bool apart = at && n > 0 && decided_at_all_sizes([&] {
                       return library_wants_activation_apart(*at, {.m = element_count(y.shape) / n,
                                                                   .n = n,
                                                                   .k = x.shape.back(),
                                                                   .x = x.dtype,
                                                                   .w = w.dtype,
                                                                   .y = y.dtype,
                                                                   .activation = node.op});
                     });
  if (apart) return false;
  if (graph.value(node.outputs[0]).type != graph.value(epilogue.result).type) return false;
  epilogue.activation = node.op;
  epilogue.activation_attributes = node.attributes;
  return true;
}

// Grows the epilogue as far as single readers allow; the last absorbed node stands where all
// operands exist.
void grow(const Graph& graph, const Node& product, const std::optional<OfferContext>& at,
          Epilogue& epilogue) {
  for (;;) {
    const std::optional<NodeId> reader = sole_reader(graph, epilogue.result);
    if (!reader) return;
    const Node& node = graph.node(*reader);
    if (!absorb_add(graph, node, epilogue) &&
        !absorb_activation(graph, node, product, at, epilogue))
      return;
    epilogue.absorbed.push_back(*reader);
    epilogue.result = node.outputs[0];
  }
}

bool is_plain_product(const Graph& graph, const Node& node) {
  if (node.op == OpId::fused_matmul_bias_act) {
    const bool has_residual = node.inputs.size() > 3 && node.inputs[3].has_value();
    return !node.attributes.contains("activation") && !has_residual;
  }
  if (node.op != OpId::matmul) return false;
  const Attributes& attributes = node.attributes;
  const auto flag = attributes.find("trans_a");
  const bool trans_a = flag != attributes.end() && std::get<bool>(flag->second);
  const TensorType& x = graph.value(*node.inputs[0]).type;
  const TensorType& w = graph.value(*node.inputs[1]).type;
  return !trans_a && x.shape.size() >= 2 && w.shape.size() == 2 && is_float(x.dtype) &&
         is_float(w.dtype);
}

bool fuse_product(Graph& graph, NodeId id, const std::optional<OfferContext>& at) {
  const Node product = graph.node(id);
  if (!is_plain_product(graph, product)) return false;
  Epilogue epilogue{.result = product.outputs[0]};
  if (product.inputs.size() > 2) epilogue.bias = product.inputs[2];
  grow(graph, product, at, epilogue);
  if (epilogue.absorbed.empty()) return false;
  Node fused{.name = product.name,
             .op = "fused_matmul_bias_act",
             .inputs = {product.inputs[0], product.inputs[1], epilogue.bias, epilogue.residual},
             .outputs = {epilogue.result},
             .attributes = epilogue.activation_attributes,
             .region = {},
             .place = product.place,
             .source = product.source};
  for (const char* name : {"trans_b", "trans_w"}) {
    const auto found = product.attributes.find(name);
    if (found != product.attributes.end()) fused.attributes["trans_w"] = found->second;
  }
  if (epilogue.activation != "none") fused.attributes["activation"] = epilogue.activation;
  const DType result = graph.value(epilogue.result).type.dtype;
  if (result != graph.value(*product.inputs[0]).type.dtype)
    fused.attributes["out_dtype"] = std::string(name_of(result));
  const NodeId last = epilogue.absorbed.back();
  graph.insert_node_before(last, std::move(fused));
  graph.remove_node(id);
  for (NodeId absorbed : epilogue.absorbed) graph.remove_node(absorbed);
  return true;
}

// The same for a product with blocks, whose kernels all have the whole epilogue.
bool fuse_block_product(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  std::optional<BlockProduct> product = block_product_of(graph, node);
  if (!product || !product->is_plain()) return false;
  Epilogue epilogue{.result = node.outputs[0]};
  epilogue.bias = product->inputs[FusedDequantInput::kBias];
  grow(graph, node, std::nullopt, epilogue);
  if (epilogue.absorbed.empty()) return false;
  product->inputs[FusedDequantInput::kBias] = epilogue.bias;
  product->inputs[FusedDequantInput::kResidual] = epilogue.residual;
  product->attributes.merge(Attributes(epilogue.activation_attributes));
  if (epilogue.activation != "none") product->attributes["activation"] = epilogue.activation;
  const ValueId result =
      add_block_product(graph, epilogue.absorbed.back(), node.name, std::move(*product),
                        graph.value(epilogue.result).type.dtype);
  graph.replace_uses(epilogue.result, result);
  for (auto absorbed = epilogue.absorbed.rbegin(); absorbed != epilogue.absorbed.rend(); ++absorbed)
    graph.remove_node(*absorbed);
  graph.remove_node(id);
  return true;
}

}  // namespace

size_t fuse_epilogues(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  std::optional<OfferContext> at;
  if (options.target != nullptr) at = offer_context(options);
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (graph.contains(id) && (fuse_product(graph, id, at) || fuse_block_product(graph, id)))
        ++changed;
    }
    for (NodeId id : graph.order()) {
      if (graph.node(id).op == OpId::fused_matmul_bias_act) {
        RLX_CHECK(check_and_infer(graph, id, diagnostics), diagnostics.text());
      }
    }
  }
  return changed;
}

}  // namespace rlx
