// SPDX-License-Identifier: Apache-2.0
// Weights [K, N] as rows [N, K] where another kernel then takes the product, and sooner.
#include "compiler/ops/op_id.h"
#include "compiler/ops/product/product_offers.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

// What a kernel must gain, as a share of the time: estimates are no better.
constexpr double kGain = 0.9;

FusedProduct in_columns(FusedProduct fused) {
  const Product& product = fused.product;
  const TensorType columns{product.b.ref.dtype(), {product.k, product.n}};
  fused.product.b = {.ref = dense_ref({}, columns), .batch = {}, .line = 1, .depth = product.n};
  return fused;
}

bool gains_by_rows(const Graph& graph, const ProductNode& product, const OfferContext& at) {
  const TensorType& w = graph.value(product.w).type;
  ProductTypes types{.m = line_count(graph, product.x),
                     .n = w.shape[1],
                     .k = w.shape[0],
                     .x = graph.value(product.x).type.dtype,
                     .w = w.dtype};
  if (const auto found = product.activation.find("activation"); found != product.activation.end())
    types.activation = std::get<std::string>(found->second);
  const FusedProduct rows = product_of_types(types);
  const auto by_rows = choose(product_offers(), at, rows);
  const auto by_columns = choose(product_offers(), at, in_columns(rows));
  return by_rows.row != nullptr && by_columns.row != nullptr &&
         by_rows.microseconds < kGain * by_columns.microseconds;
}

bool is_column_weight(const Module& module, const Graph& graph, const ProductNode& product) {
  return !product.rows && weight_of(module, graph, product.w) != nullptr &&
         graph.reader_count(product.w) == 1 && graph.value(product.w).type.shape.size() == 2;
}

}  // namespace

size_t turn_columns(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  if (options.target == nullptr) return 0;
  const OfferContext at = offer_context(options);
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      if (!graph.contains(id)) continue;
      const std::optional<ProductNode> product = product_of(graph, graph.node(id));
      if (!product || !is_column_weight(module, graph, *product)) continue;
      if (!decided_at_all_sizes([&] { return gains_by_rows(graph, *product, at); })) continue;
      turn_to_rows(module, graph, id, diagnostics);
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
