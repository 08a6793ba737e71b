// SPDX-License-Identifier: Apache-2.0
// rms_norm into the products after it: where every reader of a norm is a product that the target
// streams, each of them becomes a fused_norm_matmul, whose workgroups compute the statistics
// themselves, and the norm is gone.
#include <algorithm>
#include <optional>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/product/product_offers.h"
#include "compiler/passes/block_products.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

enum FusedInput : size_t { kX, kW, kW2, kGamma, kBias, kBias2, kResidual, kInputs };
using FusedInputs = std::vector<std::optional<ValueId>>;

// A reader of a norm in the fused form, with the norm's result still as its x; of weights in
// blocks, as fused_dequant_matmul.
struct Fused {
  bool has_blocks = false;
  FusedInputs inputs;
  Attributes attributes;
};

// What a norm's readers are asked with.
struct NormContext {
  OfferContext offers;
  std::optional<DType> rounded_rows;  // of blocks, as precision mixed has them behind a norm's step
};

bool is_vector(const Graph& graph, const std::optional<ValueId>& id, const Dim& length) {
  return !id || graph.value(*id).type.shape == Shape{length};
}

std::optional<Fused> fused_form(const Graph& graph, const Node& node) {
  if (std::optional<BlockProduct> product = block_product_of(graph, node)) {
    return Fused{.has_blocks = true,
                 .inputs = std::move(product->inputs),
                 .attributes = std::move(product->attributes)};
  }
  if (node.op == OpId::fused_norm_matmul) {
    Fused fused{.has_blocks = false, .inputs = node.inputs, .attributes = node.attributes};
    fused.inputs.resize(kInputs);
    if (fused.attributes.contains("norm")) return std::nullopt;
    return fused;
  }
  const std::optional<ProductNode> product = product_of(graph, node);
  if (!product || !product->rows) return std::nullopt;
  const Shape& w = graph.value(product->w).type.shape;
  const Shape& y = graph.value(node.outputs[0]).type.shape;
  if (!is_vector(graph, product->bias, w[0])) return std::nullopt;
  if (product->residual && graph.value(*product->residual).type.shape != y) return std::nullopt;
  Fused fused{
      .has_blocks = false, .inputs = FusedInputs(kInputs), .attributes = product->activation};
  fused.inputs[kX] = product->x;
  fused.inputs[kW] = product->w;
  fused.inputs[kBias] = product->bias;
  fused.inputs[kResidual] = product->residual;
  return fused;
}

NormFusion fusion_of(const Graph& graph, const Fused& fused, ValueId normalised,
                     const NormContext& at) {
  if (std::count(fused.inputs.begin(), fused.inputs.end(), std::optional(normalised)) != 1)
    return NormFusion::None;
  if (fused.inputs[kX] != normalised) return NormFusion::None;
  if (fused.has_blocks)
    return norm_fusion(graph, {.inputs = fused.inputs, .attributes = fused.attributes},
                       at.rounded_rows, at.offers);
  const TensorType& w = graph.value(*fused.inputs[kW]).type;
  const FusedProduct product = product_of_types({.m = line_count(graph, normalised),
                                                 .n = w.shape[0],
                                                 .k = w.shape[1],
                                                 .x = graph.value(normalised).type.dtype,
                                                 .w = w.dtype,
                                                 .normed = true,
                                                 .gated = fused.inputs[kW2].has_value()});
  const bool has_kernel = choose(product_offers(), at.offers, product).row != nullptr;
  return has_kernel ? NormFusion::Exact : NormFusion::None;
}

// True for an rms_norm over the last dim with a plain gamma and no beta, in x's type, whose
// statistics nobody reads.
bool is_plain_norm(const Graph& graph, const Node& node) {
  if (node.op != OpId::rms_norm || node.outputs.size() != 1 || graph.is_output(node.outputs[0]) ||
      graph.value(node.outputs[0]).type.dtype != graph.value(*node.inputs[0]).type.dtype)
    return false;
  const Shape& shape = graph.value(*node.inputs[0]).type.shape;
  const int64_t axis = AttributeReader(*find_op(node.op), node.attributes).integer("axis");
  const bool last = axis == -1 || axis == static_cast<int64_t>(shape.size()) - 1;
  const bool has_beta = node.inputs.size() > 2 && node.inputs[2].has_value();
  const std::optional<ValueId> gamma = node.inputs.size() > 1 ? node.inputs[1] : std::nullopt;
  return last && !has_beta && is_vector(graph, gamma, shape.back());
}

ValueId add_fused(Graph& graph, NodeId reader, const std::string& stem, Fused fused) {
  if (fused.has_blocks) {
    const DType result = graph.value(graph.node(reader).outputs[0]).type.dtype;
    return add_block_product(
        graph, reader, stem,
        {.inputs = std::move(fused.inputs), .attributes = std::move(fused.attributes)}, result);
  }
  while (!fused.inputs.back()) fused.inputs.pop_back();
  return add_node_before(graph, reader, "fused_norm_matmul", stem, std::move(fused.inputs),
                         std::move(fused.attributes));
}

void fuse(Graph& graph, const Node& norm, NodeId reader, Fused fused) {
  fused.inputs[kX] = norm.inputs[0];
  const size_t gamma = fused.has_blocks ? FusedDequantInput::kGamma : size_t{kGamma};
  if (norm.inputs.size() > 1) fused.inputs[gamma] = norm.inputs[1];
  fused.attributes["norm"] = std::string("rms");
  for (const char* name : {"eps", "gamma_offset"}) {
    const auto found = norm.attributes.find(name);
    if (found != norm.attributes.end()) fused.attributes[name] = found->second;
  }
  const Node old = graph.node(reader);
  const ValueId result = add_fused(graph, reader, old.name + ".normed", std::move(fused));
  graph.replace_uses(old.outputs[0], result);
  graph.remove_node(reader);
}

bool fuse_into_readers(Graph& graph, NodeId id, const NormContext& at) {
  const Node norm = graph.node(id);
  if (!is_plain_norm(graph, norm)) return false;
  const std::vector<NodeId> readers = graph.readers(norm.outputs[0]);
  std::vector<Fused> forms;
  for (NodeId reader : readers) {
    std::optional<Fused> fused = fused_form(graph, graph.node(reader));
    if (!fused) return false;
    // Where its own step serves some of the sizes, that is one step for all readers.
    if (readers.size() > 1 && line_count(graph, norm.outputs[0]).is_free()) return false;
    const NormFusion fusion =
        decided_at_all_sizes([&] { return fusion_of(graph, *fused, norm.outputs[0], at); });
    if (fusion == NormFusion::None) return false;
    if (fusion == NormFusion::InHalves)
      fused->attributes["round_x"] = std::string(name_of(DType::f16));
    forms.push_back(std::move(*fused));
  }
  for (size_t i = 0; i < readers.size(); ++i) fuse(graph, norm, readers[i], std::move(forms[i]));
  graph.remove_node(id);
  return !readers.empty();
}

// ---- weights that are columns ----

// A product whose weights a kernel would stream as rows behind a norm, and are columns or rows.
bool streams_behind_norm(const Graph& graph, const ProductNode& product, const OfferContext& at) {
  const TensorType& w = graph.value(product.w).type;
  const Dim& n = w.shape[product.rows ? 0 : 1];
  if (!is_vector(graph, product.bias, n)) return false;
  return decided_at_all_sizes([&] {
    const FusedProduct types = product_of_types({.m = line_count(graph, product.x),
                                                 .n = n,
                                                 .k = w.shape[product.rows ? 1 : 0],
                                                 .x = graph.value(product.x).type.dtype,
                                                 .w = w.dtype,
                                                 .normed = true});
    return choose(product_offers(), at, types).row != nullptr;
  });
}

// The readers of a norm whose weights are columns, where the target streams every reader's as rows.
std::vector<NodeId> readers_of_columns(const Module& module, const Graph& graph, const Node& norm,
                                       const OfferContext& at) {
  std::vector<NodeId> found;
  if (!is_plain_norm(graph, norm)) return found;
  for (const NodeId reader : graph.readers(norm.outputs[0])) {
    const std::optional<ProductNode> product = product_of(graph, graph.node(reader));
    if (!product || product->x != norm.outputs[0] || !streams_behind_norm(graph, *product, at))
      return {};
    if (product->rows) continue;
    // Another reader would keep the columns beside the rows.
    if (weight_of(module, graph, product->w) == nullptr || graph.reader_count(product->w) != 1)
      return {};
    found.push_back(reader);
  }
  return found;
}

}  // namespace

size_t fuse_norm(Module& module, const PassOptions& options, Diagnostics&) {
  if (options.target == nullptr) return 0;
  const NormContext at = {
      .offers = offer_context(options),
      .rounded_rows = options.precision == "mixed" ? std::optional(DType::f16) : std::nullopt};
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (!graph.contains(id)) continue;
      if (fuse_into_readers(graph, id, at)) ++changed;
    }
  }
  return changed;
}

size_t turn_weights(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  if (options.target == nullptr) return 0;
  const OfferContext at = offer_context(options);
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (!graph.contains(id)) continue;
      for (NodeId reader : readers_of_columns(module, graph, graph.node(id), at)) {
        turn_to_rows(module, graph, reader, diagnostics);
        ++changed;
      }
    }
  }
  return changed;
}

}  // namespace rlx
