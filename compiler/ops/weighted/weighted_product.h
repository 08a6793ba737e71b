// SPDX-License-Identifier: Apache-2.0
// Products with weights that are decoded on the way, chosen per row, or both (ops.md 3.5, 3.7):
// what dequant_matmul, fused_dequant_matmul, grouped_matmul and dequant_grouped_matmul share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/matmul_activation.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// RLX_W_CODES of lib/weights.inc.
enum class WeightCodes : uint8_t { None = 0, I8 = 1, I4 = 2, U4 = 3, E4M3 = 4, E5M2 = 5, E2M1 = 6 };
// RLX_SCALE of lib/weights.inc.
enum class WeightScale : uint8_t { None = 0, One = 1, PerColumn = 2, PerBlock = 3 };

// A side-tensor scheme of ops.md 0.10.
struct SideScheme {
  std::string_view name;
  WeightCodes codes;
  bool along_depth;     // [N, K] instead of [K, N]
  bool has_zero;        // zero points beside the scales
  bool wants_block;     // the block_size attribute
  int64_t fixed_block;  // of schemes that have their own; 0: none
  bool is_packed() const {
    return codes == WeightCodes::I4 || codes == WeightCodes::U4 || codes == WeightCodes::E2M1;
  }
};
// nullptr where there is none of that name.
const SideScheme* find_side_scheme(std::string_view name);

// y[m, n] = act(sum over k of x[m, k] * w[n, k] + bias[n]) + residual[m, n]; with experts, the
// matrix and the bias of the expert that `index` names. Gated: y = act(x * w + bias) * (x * w2 +
// bias2) + residual, where `bias` holds both.
struct WeightedProduct {
  Dim m = 0;
  int64_t n = 0;  // lines of all matrices; of y half of them where gated
  int64_t k = 0;
  TensorRef x;                         // dense [m, k]
  TensorRef w;                         // blocks, a dense matrix, or codes of `scheme`
  std::vector<TensorRef> more_w = {};  // blocks like w: up to two matrices, whose lines follow
  const SideScheme* scheme = nullptr;
  bool along_depth = true;  // w is [n, k], else [k, n]
  WeightScale scale_kind = WeightScale::None;
  int64_t scale_block = 1;
  std::optional<TensorRef> scale;
  std::optional<TensorRef> zero;  // zero points, or the factor for all of nvfp4
  std::optional<TensorRef> bias;
  std::optional<TensorRef> index;  // [m], where there are experts
  int64_t experts = 0;
  std::optional<TensorRef> residual = {};  // dense, like y
  std::optional<NormPrologue> norm = {};   // of x, before the product; blocks only
  Activation activation = {};
  bool gated = false;                 // blocks only, with one matrix more
  std::optional<DType> rounded = {};  // what the decoded weights are rounded to; blocks only
  TensorRef y;

  [[nodiscard]] int64_t columns() const { return gated ? n / 2 : n; }
};
// Matrices of blocks in one product.
inline constexpr size_t kMostBlockMatrices = 3;

// A product with blocks as passes see it, for the table, to ask before there are places.
struct BlockProductTypes {
  Dim m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType x = DType::f32;
  DType w = DType::f32;
  DType y = DType::f32;
  bool gated = false;
  std::string activation = {};
  std::optional<DType> rounded = {};
};
WeightedProduct product_of_types(const BlockProductTypes& types);
// How a product takes the rms_norm before it: as it is, or rounded to f16 first.
enum class NormFusion : uint8_t { None, Exact, InHalves };
// The way by which a kernel takes rms_norm of x before the product at little cost: either every
// group reads x once or there are so few bytes of w that the norm's own step takes longer than x
// read again. alone: the type that x has where the norm stays a step, behind which matrix units may
// be faster by more; they take the norm themselves where that is f16.
NormFusion norm_fusion(const OfferContext& at, WeightedProduct product, DType alone);

bool has_free_sizes(const WeightedProduct& product);

// The table of the kernels that compute them.
std::span<const Offer<WeightedProduct>> weighted_offers();

// Emits the dispatch; nothing for an empty y. Reports sizes beyond the kernels' 32-bit counts.
bool lower_weighted_product(LowerContext& ctx, const WeightedProduct& product);

}  // namespace rlx
