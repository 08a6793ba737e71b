// SPDX-License-Identifier: Apache-2.0
// Weights decoded into memory, then a product of them.
#include "compiler/ops/weighted/decoded_product.h"

#include "compiler/ops/product/product_offers.h"
#include "compiler/ops/weighted/dequantize.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

// `count` values of a vector from `first` on.
AddedOperand added_columns(const TensorRef& ref, int64_t first, int64_t count) {
  TensorRef part = ref;
  part.offset_bytes += first * element_bytes(ref.dtype());
  part.type.shape = {Dim(count)};
  return {.ref = part, .batch = {}, .m = 0, .n = 1};
}

// The product with dense rows `w` of all its matrices, one below the other.
FusedProduct dense_product(const WeightedProduct& product, const TensorRef& w) {
  const int64_t columns = product.columns();
  const auto lines_from = [&](int64_t first) {
    TensorRef part = w;
    part.offset_bytes += first * product.k * element_bytes(w.dtype());
    part.type.shape = {Dim(columns), Dim(product.k)};
    return ProductOperand{.ref = part, .batch = {}, .line = product.k, .depth = 1};
  };
  FusedProduct fused{
      .product = {.batch = {},
                  .m = product.m,
                  .n = columns,
                  .k = product.k,
                  .a = {.ref = product.x, .batch = {}, .line = product.k, .depth = 1},
                  .b = lines_from(0),
                  .bias = {},
                  .residual = {},
                  .y = product.y,
                  .activation = product.activation,
                  .note = "weights decoded before"}};
  if (product.bias) fused.product.bias = added_columns(*product.bias, 0, columns);
  if (product.residual)
    fused.product.residual =
        AddedOperand{.ref = *product.residual, .batch = {}, .m = columns, .n = 1};
  if (!product.gated) return fused;
  fused.second = lines_from(columns);
  if (product.bias) fused.second_bias = added_columns(*product.bias, columns, columns);
  return fused;
}

FusedProduct dense_product(const WeightedProduct& product) {
  return dense_product(product,
                       dense_ref({}, {*product.rounded, {Dim(product.n), Dim(product.k)}}));
}

Choice<ProductOffer> choice_for(const OfferContext& at, const WeightedProduct& product) {
  return choose(product_offers(), at, dense_product(product));
}

double decoding_time(const OfferContext& at, const WeightedProduct& product) {
  const size_t matrices = 1 + product.more_w.size();
  const double bytes = static_cast<double>(product.n) * static_cast<double>(product.k) *
                       (static_cast<double>(element_bytes(*product.rounded)) +
                        static_cast<double>(block_bytes(product.w.dtype())) /
                            static_cast<double>(block_elements(product.w.dtype())));
  return static_cast<double>(matrices) * at.device().step_microseconds +
         bytes / at.device().memory_gigabytes_per_second * 1e-3;
}

}  // namespace

std::string decoded_refusal(const OfferContext& at, const WeightedProduct& product) {
  if (!product.rounded) return "weights that are not rounded first";
  if (product.index) return "rows of several experts";
  if (product.norm) return "rms_norm of x";
  if (product.k == 0) return "nothing to add";
  if (choice_for(at, product).row == nullptr) return "no kernel of dense weights takes the product";
  return {};
}

double decoded_time(const OfferContext& at, const WeightedProduct& product) {
  return decoding_time(at, product) + choice_for(at, product).microseconds;
}

std::optional<double> decoded_on_matrix_units(const OfferContext& at,
                                              const WeightedProduct& product) {
  const Choice<ProductOffer> choice = choice_for(at, product);
  if (choice.row == nullptr || !choice.row->on_matrix_units) return std::nullopt;
  return decoding_time(at, product) + choice.microseconds;
}

bool emit_decoded(LowerContext& ctx, const WeightedProduct& product) {
  const DType halves = *product.rounded;
  const TensorRef all = ctx.scratch({halves, {Dim(product.n), Dim(product.k)}}, "decoded");
  std::vector<TensorRef> matrices = {product.w};
  matrices.insert(matrices.end(), product.more_w.begin(), product.more_w.end());
  Dim line = 0;
  for (const TensorRef& w : matrices) {
    TensorRef part = all;
    part.offset_bytes += line * product.k * element_bytes(halves);
    part.type.shape = w.shape();
    line += w.shape().front();
    emit_dequantize(ctx, w, part, {});
  }
  return lower_by_offers(ctx, product_offers(), dense_product(product, all));
}

}  // namespace rlx
