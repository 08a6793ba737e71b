// SPDX-License-Identifier: Apache-2.0
// Lowering of a product y = act(a * b + bias) + residual over strided views: what matmul and 1x1
// convolutions share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/matmul_activation.h"

namespace rlx {

// a as lines of m, or b as lines of n: a line is K elements at distance `depth`. Strides in
// elements.
struct ProductOperand {
  TensorRef ref;
  Strides batch;  // per dim of Product::batch
  Dim line = 0;
  Dim depth = 0;
};

// A tensor added per element of y, broadcast by stride 0.
struct AddedOperand {
  TensorRef ref;
  Strides batch;
  Dim m = 0;
  Dim n = 0;
};

// The lines of y, [batch.., m, n] with dense lines, where they do not stand as in a dense tensor.
struct ProductLines {
  Strides batch;
  Dim line = 0;
};

struct Product {
  Shape batch;
  Dim m = 0;
  Dim n = 0;
  Dim k = 0;
  ProductOperand a;
  ProductOperand b;
  std::optional<AddedOperand> bias;
  std::optional<AddedOperand> residual;
  TensorRef y;
  std::optional<ProductLines> y_lines = {};  // nullopt: y is dense
  Activation activation;
  // y = act(a * b + bias + residual) instead, for the kernels with MatmulParams.
  bool residual_first = false;
  std::string note;  // goes before the reason
};

// rms_norm of a's lines before the product.
struct NormPrologue {
  std::optional<TensorRef> gamma;  // [k], contiguous
  double eps = 0;
  double gamma_offset = 0;
  bool in_halves = false;  // its rows are rounded to f16 before the product; weights in blocks only
};

// A product with what one kernel may compute beside it, which the table of kernels
// (product_offers.h) is asked of. The product is in the normal form of lower_product: batch dims
// merged and folded.
struct FusedProduct {
  Product product;
  std::optional<NormPrologue> norm = {};
  // A gated pair: a times a second matrix, with its own bias, multiplies the activated product.
  std::optional<ProductOperand> second = {};
  std::optional<AddedOperand> second_bias = {};
  // At one of the sizes of a product whose lines a run gives: kernels take however few.
  bool any_lines = false;
};
bool has_free_sizes(const FusedProduct& fused);
// Whether a run gives its lines m and nothing else.
bool has_free_lines(const Product& product);

// Alternates by lines (lowering/alternates.h).
std::optional<Dim> sizing(const FusedProduct& fused);
FusedProduct at_size(const FusedProduct& fused, int64_t most);
FusedProduct for_sizes(const FusedProduct& fused, const ServedSizes& served);

// f32, f64 or i32: the type in which products of these operands accumulate.
DType accumulator_of(DType operand);
// The kernels need one axis of stride 1 (or of a single element).
bool has_unit_axis(const ProductOperand& operand, const Dim& lines, const Dim& depth);
// "DEPTH" or "LINE" where four neighbours along that axis are always one aligned load, else "1".
std::string vector_axis(const OfferContext& at, const ProductOperand& operand, const Dim& lines,
                        const Dim& depth);
// Strides of an added tensor against y of shape [batch.., m, n].
AddedOperand added_operand(const TensorRef& ref, const Shape& y_shape);

// Where matmul's y may stand: any strides over dense lines.
inline constexpr int64_t kFarthestLine = (int64_t{1} << 31) - 1;  // strides of y
std::optional<ProductLines> product_lines(const TensorRef& y);

// What lower_product's kernel is expected to take; nullopt where none takes the product.
std::optional<double> product_microseconds(const OfferContext& at, Product product);
// Emits the dispatches; nothing for an empty y. Reports sizes beyond the kernels' 32-bit counts.
bool lower_product(LowerContext& ctx, Product product);

}  // namespace rlx
