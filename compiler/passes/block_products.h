// SPDX-License-Identifier: Apache-2.0
// Products with weights in blocks as passes see them: dequant_matmul and fused_dequant_matmul in
// the latter's form.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/weighted/fused_dequant.h"
#include "compiler/ops/weighted/weighted_product.h"

namespace rlx {

struct BlockProduct {
  std::vector<std::optional<ValueId>> inputs;  // FusedDequantInput::kCount of them
  Attributes attributes;

  [[nodiscard]] ValueId x() const { return *inputs[FusedDequantInput::kX]; }
  [[nodiscard]] ValueId w() const { return *inputs[FusedDequantInput::kW]; }
  // One matrix, and nothing after its product but a bias: other products may join it.
  [[nodiscard]] bool is_plain() const;
  [[nodiscard]] bool has_norm() const { return attributes.contains("norm"); }
};

// nullopt for other nodes and for products with side tensors.
std::optional<BlockProduct> block_product_of(const Graph& graph, const Node& node);

// Adds the product, as fused_dequant_matmul with results of `result`, before `position`.
ValueId add_block_product(Graph& graph, NodeId position, const std::string& stem,
                          BlockProduct product, DType result);

// The kernel that would compute it with an x of that type, or nullopt; lines of w count as `n`.
std::optional<KernelId> block_kernel(const Graph& graph, const BlockProduct& product, DType x,
                                     const OfferContext& at);
// Whether a kernel takes it with everything beside it and results of `result`.
bool has_block_kernel(const Graph& graph, const BlockProduct& product, DType result,
                      const OfferContext& at);
// How a product gains where its weights are rounded to halves first, as matrix units then multiply
// them: as it is, or a gated pair as two products.
enum class WeightRounding : uint8_t { None, Whole, AsTwo };
WeightRounding gain_by_rounding(const Graph& graph, const BlockProduct& product, DType halves,
                                DType result, const OfferContext& at);
// How rms_norm of x may go into the product, at a price below that of a step. rounded: what x
// becomes behind a norm that stays a step; nullopt: it keeps its type.
NormFusion norm_fusion(const Graph& graph, const BlockProduct& product,
                       std::optional<DType> rounded, const OfferContext& at);

}  // namespace rlx
