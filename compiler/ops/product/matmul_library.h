// SPDX-License-Identifier: Apache-2.0
// Products that the target's library computes: which it can take as they are, and where it is the
// faster choice.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "compiler/dispatch/library_gemm.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// True where the target has a library and a product of this size fills its tiles, whatever its
// views and epilogue.
bool library_suits(const Target& target, int64_t m, int64_t n, int64_t k);
// True where a product of 16-bit operands is expected to be faster by the library, followed by a
// pass that applies the activation, than by our own kernel with the activation in its epilogue.
bool library_wants_activation_apart(const Target& target, int64_t m, int64_t n, int64_t k,
                                    DType dtype, const std::string& activation);

// The product as a problem for the library, or why the library cannot compute it with one rounding.
struct LibraryProblem {
  std::optional<LibraryGemm> gemm;
  std::string refusal;  // "batch dims that do not merge"; empty with a gemm
};
// `product` is in the normal form of lower_product: batch dims merged and folded.
LibraryProblem library_problem(const LowerContext& ctx, const Product& product);

// After the product's own steps were emitted: puts a LibraryGemm step in their place where the
// target has a library and the cost model expects it to be faster. A single own dispatch stays on
// that step as its alternative. The reason of the chosen step says why, of a large product that
// stays ours too. `first_step` is the number of steps before the product's.
void offer_to_library(LowerContext& ctx, const Product& product, size_t first_step);

}  // namespace rlx
