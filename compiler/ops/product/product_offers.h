// SPDX-License-Identifier: Apache-2.0
// The table of the kernels that compute products.
#pragma once

#include <span>

#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

struct ProductOffer : Offer<FusedProduct> {
  // Takes results whose lines stand apart.
  bool writes_any_lines = false;
  // Tensor cores, cooperative matrices, or the library, which has them.
  bool on_matrix_units = false;
};

// Every row, and those of our own kernels.
std::span<const ProductOffer> product_offers();
std::span<const ProductOffer> own_product_offers();

// A product as passes see it: m lines x [k] by n lines w [k], dense, to y of x's dtype.
struct ProductTypes {
  Dim m = 0;
  Dim n = 0;
  Dim k = 0;
  DType x = DType::f32;
  DType w = DType::f32;
  std::optional<DType> y = {};  // x's, unless given
  std::string activation = {};
  bool normed = false;
  bool gated = false;
};
// For the table, to ask before there are places.
FusedProduct product_of_types(const ProductTypes& types);

}  // namespace rlx
