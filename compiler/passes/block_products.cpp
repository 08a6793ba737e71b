// SPDX-License-Identifier: Apache-2.0
// Products with weights in blocks as passes see them.
#include "compiler/passes/block_products.h"

#include "compiler/ops/lowering/block_weights.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/weighted/decoded_product.h"
#include "compiler/passes/products.h"

namespace rlx {
namespace {

using In = FusedDequantInput;

constexpr size_t kPlainInputs = 2;  // of dequant_matmul before its side tensors
constexpr size_t kPlainBias = 4;

std::optional<BlockProduct> from_plain(const Node& node) {
  BlockProduct product{.inputs = std::vector<std::optional<ValueId>>(In::kCount),
                       .attributes = node.attributes};
  product.inputs[In::kX] = node.inputs[0];
  product.inputs[In::kW] = node.inputs[1];
  product.inputs[In::kBias] = input_at(node, kPlainBias);
  for (size_t i = kPlainInputs; i < kPlainBias; ++i) {
    if (input_at(node, i)) return std::nullopt;
  }
  return product;
}

WeightedProduct typed(const Graph& graph, const BlockProduct& product, DType x) {
  const TensorType& w = graph.value(product.w()).type;
  Dim lines = 0;
  for (const size_t input : {In::kW, In::kW2, In::kW3}) {
    if (product.inputs[input]) lines += graph.value(*product.inputs[input]).type.shape[0];
  }
  return product_of_types({.m = line_count(graph, product.x()),
                           .n = lines.bound(),
                           .k = w.shape[1].bound(),
                           .x = x,
                           .w = w.dtype});
}

std::string text_at(const BlockProduct& product, const char* name) {
  const auto found = product.attributes.find(name);
  return found == product.attributes.end() ? std::string() : std::get<std::string>(found->second);
}

bool is_gated(const BlockProduct& product) {
  return product.attributes.contains("gated") && std::get<bool>(product.attributes.at("gated"));
}

// With everything beside it.
WeightedProduct fully_typed(const Graph& graph, const BlockProduct& product, DType x, DType y) {
  WeightedProduct typed_product = typed(graph, product, x);
  const std::string activation = text_at(product, "activation");
  typed_product.activation.op = activation == "none" ? "" : activation;
  typed_product.gated = is_gated(product);
  const std::string rounded = text_at(product, "round_w");
  if (!rounded.empty()) typed_product.rounded = dtype_from_name(rounded);
  typed_product.y = dense_ref({}, {y, {typed_product.m, Dim(typed_product.columns())}});
  const auto tensor = [&](size_t input) {
    return product.inputs[input]
               ? std::optional(dense_ref({}, graph.value(*product.inputs[input]).type))
               : std::nullopt;
  };
  typed_product.bias = tensor(In::kBias);
  typed_product.residual = tensor(In::kResidual);
  return typed_product;
}

// The halves of a pair as products of their own, and the step that multiplies their results.
std::optional<double> split_time(const OfferContext& at, WeightedProduct pair) {
  if (pair.bias || pair.residual) return std::nullopt;
  const int64_t columns = pair.columns();
  const double moved =
      3.0 * 4.0 * static_cast<double>(pair.m.bound()) * static_cast<double>(columns);
  pair.gated = false;
  pair.n = columns;
  pair.y = dense_ref({}, {DType::f32, {pair.m, Dim(columns)}});
  const std::optional<double> half = decoded_on_matrix_units(at, pair);
  if (!half) return std::nullopt;
  return 2 * *half + at.device().step_microseconds +
         moved / at.device().memory_gigabytes_per_second * 1e-3;
}

}  // namespace

bool BlockProduct::is_plain() const {
  return !inputs[In::kW2] && !inputs[In::kResidual] && !attributes.contains("activation") &&
         !has_norm();
}

std::optional<BlockProduct> block_product_of(const Graph& graph, const Node& node) {
  const bool fused = node.op == OpId::fused_dequant_matmul;
  if (!fused && node.op != OpId::dequant_matmul) return std::nullopt;
  if (!is_block_type(graph.value(*node.inputs[1]).type.dtype)) return std::nullopt;
  if (!fused) return from_plain(node);
  BlockProduct product{.inputs = node.inputs, .attributes = node.attributes};
  product.inputs.resize(In::kCount);
  return product;
}

ValueId add_block_product(Graph& graph, NodeId position, const std::string& stem,
                          BlockProduct product, DType result) {
  while (!product.inputs.back()) product.inputs.pop_back();
  product.attributes["out_dtype"] = std::string(name_of(result));
  return add_node_before(graph, position, "fused_dequant_matmul", stem, std::move(product.inputs),
                         std::move(product.attributes));
}

std::optional<KernelId> block_kernel(const Graph& graph, const BlockProduct& product, DType x,
                                     const OfferContext& at) {
  const auto choice = choose(weighted_offers(), at, typed(graph, product, x));
  return choice.row == nullptr ? std::nullopt : choice.row->kernel;
}

bool has_block_kernel(const Graph& graph, const BlockProduct& product, DType result,
                      const OfferContext& at) {
  const DType x = graph.value(product.x()).type.dtype;
  return choose(weighted_offers(), at, fully_typed(graph, product, x, result)).row != nullptr;
}

WeightRounding gain_by_rounding(const Graph& graph, const BlockProduct& product, DType halves,
                                DType result, const OfferContext& at) {
  if (product.has_norm()) return WeightRounding::None;
  WeightedProduct typed_product = fully_typed(graph, product, halves, result);
  if (typed_product.m == 0 || typed_product.n == 0) return WeightRounding::None;
  const auto exact = choose(weighted_offers(), at, typed_product);
  typed_product.rounded = halves;
  const auto is_faster = [&](std::optional<double> time) {
    return time && (exact.row == nullptr || *time < exact.microseconds);
  };
  if (is_faster(decoded_on_matrix_units(at, typed_product))) return WeightRounding::Whole;
  const bool splits = typed_product.gated && is_faster(split_time(at, typed_product));
  return splits ? WeightRounding::AsTwo : WeightRounding::None;
}

NormFusion norm_fusion(const Graph& graph, const BlockProduct& product,
                       std::optional<DType> rounded, const OfferContext& at) {
  if (product.has_norm()) return NormFusion::None;
  const DType x = graph.value(product.x()).type.dtype;
  return norm_fusion(at, typed(graph, product, x), rounded.value_or(x));
}

}  // namespace rlx
