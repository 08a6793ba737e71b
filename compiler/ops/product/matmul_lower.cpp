// SPDX-License-Identifier: Apache-2.0
// From a product over strided views to its normal form, which the table of kernels is asked of.
#include "compiler/ops/product/matmul_lower.h"

#include <algorithm>

#include "compiler/ops/lowering/alternates.h"
#include "compiler/ops/product/matmul_emit.h"
#include "compiler/ops/product/product_offers.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kLeastTile = 16;

// ---- normal form: fewer batch dims ----

// Every stride list of the product over its batch dims; a dense y needs none.
std::vector<Strides*> batch_strides(Product& product) {
  std::vector<Strides*> lists = {&product.a.batch, &product.b.batch};
  if (product.bias) lists.push_back(&product.bias->batch);
  if (product.residual) lists.push_back(&product.residual->batch);
  if (product.y_lines) lists.push_back(&product.y_lines->batch);
  return lists;
}

void erase_batch_dim(Product& product, size_t dim) {
  product.batch.erase(product.batch.begin() + static_cast<int64_t>(dim));
  for (Strides* strides : batch_strides(product)) {
    strides->erase(strides->begin() + static_cast<int64_t>(dim));
  }
}

void merge_batch_dims(Product& product) {
  for (size_t i = product.batch.size(); i-- > 0;) {
    if (product.batch[i] == 1) erase_batch_dim(product, i);
  }
  for (size_t i = product.batch.size(); i-- > 1;) {
    const std::vector<Strides*> lists = batch_strides(product);
    const bool merges = std::all_of(lists.begin(), lists.end(), [&](const Strides* strides) {
      return (*strides)[i - 1] == (*strides)[i] * product.batch[i];
    });
    if (!merges) continue;
    for (Strides* strides : lists) (*strides)[i - 1] = (*strides)[i];
    product.batch[i - 1] *= product.batch[i];
    for (Strides* strides : lists) strides->erase(strides->begin() + static_cast<int64_t>(i));
    product.batch.erase(product.batch.begin() + static_cast<int64_t>(i));
  }
}

// The innermost batch dim continues the lines of m: every operand steps through it as through more
// lines.
bool continues_lines(const Dim& batch_stride, const Dim& line_stride, const Dim& m) {
  return m == 1 || batch_stride == line_stride * m;
}

// One weight matrix for all batch entries: batch entries become lines of a ([B, S, K] x [K, N] is
// one product).
void fold_batch_into_lines(Product& product) {
  while (!product.batch.empty() && product.b.batch.back() == 0) {
    if (!continues_lines(product.a.batch.back(), product.a.line, product.m)) return;
    if (product.bias && !continues_lines(product.bias->batch.back(), product.bias->m, product.m))
      return;
    if (product.residual &&
        !continues_lines(product.residual->batch.back(), product.residual->m, product.m)) {
      return;
    }
    if (product.y_lines &&
        !continues_lines(product.y_lines->batch.back(), product.y_lines->line, product.m))
      return;
    if (product.m == 1) {
      product.a.line = product.a.batch.back();
      if (product.bias) product.bias->m = product.bias->batch.back();
      if (product.residual) product.residual->m = product.residual->batch.back();
      if (product.y_lines) product.y_lines->line = product.y_lines->batch.back();
    }
    product.m *= product.batch.back();
    erase_batch_dim(product, product.batch.size() - 1);
  }
}

// One left matrix for all batch entries, whose columns follow each other in every operand: batch
// entries become columns (pixels of images that lie one behind the other in each channel).
void fold_batch_into_columns(Product& product) {
  while (!product.batch.empty() && product.a.batch.back() == 0) {
    const auto continues = [&](const Dim& batch_stride, const Dim& stride) {
      return batch_stride == stride * product.n;
    };
    if (!product.y_lines || !continues(product.y_lines->batch.back(), 1) ||
        !continues(product.b.batch.back(), product.b.line))
      return;
    if (product.bias && !continues(product.bias->batch.back(), product.bias->n)) return;
    if (product.residual && !continues(product.residual->batch.back(), product.residual->n)) return;
    product.n *= product.batch.back();
    erase_batch_dim(product, product.batch.size() - 1);
  }
}

// Lines that stand as in a dense y are no news.
void forget_dense_lines(Product& product) {
  if (!product.y_lines || (product.m > 1 && product.y_lines->line != product.n)) return;
  Dim expected = product.m * product.n;
  for (size_t i = product.batch.size(); i-- > 0;) {
    if (product.y_lines->batch[i] != expected) return;
    expected *= product.batch[i];
  }
  product.y_lines.reset();
}

void bring_to_normal_form(Product& product) {
  merge_batch_dims(product);
  fold_batch_into_lines(product);
  fold_batch_into_columns(product);
  forget_dense_lines(product);
}

}  // namespace

bool has_free_sizes(const FusedProduct& fused) {
  const Product& product = fused.product;
  const auto is_free = [](const Dim& size) { return size.is_free(); };
  return product.m.is_free() || product.n.is_free() || product.k.is_free() ||
         std::any_of(product.batch.begin(), product.batch.end(), is_free);
}

bool has_free_lines(const Product& product) {
  return product.m.is_free() && !product.n.is_free() && !product.k.is_free() &&
         !batch_count(product).is_free();
}

std::optional<Dim> sizing(const FusedProduct& fused) {
  return has_free_lines(fused.product) ? std::optional(fused.product.m) : std::nullopt;
}

FusedProduct at_size(const FusedProduct& fused, int64_t most) {
  const SizesAt at(fused.product.m, most);
  const auto fix_operand = [&at](ProductOperand& operand) {
    at.fix(operand.ref);
    at.fix(operand.batch);
    at.fix(operand.line);
    at.fix(operand.depth);
  };
  const auto fix_added = [&at](std::optional<AddedOperand>& added) {
    if (!added) return;
    at.fix(added->ref);
    at.fix(added->batch);
    at.fix(added->m);
    at.fix(added->n);
  };
  FusedProduct fixed = fused;
  Product& product = fixed.product;
  at.fix(product.m);
  fix_operand(product.a);
  fix_operand(product.b);
  fix_added(product.bias);
  fix_added(product.residual);
  at.fix(product.y);
  if (product.y_lines) {
    at.fix(product.y_lines->batch);
    at.fix(product.y_lines->line);
  }
  if (fixed.norm && fixed.norm->gamma) at.fix(*fixed.norm->gamma);
  if (fixed.second) fix_operand(*fixed.second);
  fix_added(fixed.second_bias);
  return fixed;
}

FusedProduct for_sizes(const FusedProduct& fused, const ServedSizes& served) {
  FusedProduct part = fused;
  part.product.m = within(served);
  return part;
}

DType accumulator_of(DType operand) {
  if (operand == DType::f64) return DType::f64;
  return is_float(operand) ? DType::f32 : DType::i32;
}

bool has_unit_axis(const ProductOperand& operand, const Dim& lines, const Dim& depth) {
  return operand.line == 1 || operand.depth == 1 || lines <= 1 || depth <= 1;
}

AddedOperand added_operand(const TensorRef& ref, const Shape& y_shape) {
  AddedOperand added{.ref = ref, .batch = broadcast_strides(ref.shape(), ref.strides, y_shape)};
  RLX_CHECK(added.batch.size() >= 2, "an added tensor of rank below 2: " + to_string(y_shape));
  added.n = added.batch.back();
  added.batch.pop_back();
  added.m = added.batch.back();
  added.batch.pop_back();
  return added;
}

namespace {

// Whether the kernel that a dense result gets is worth the copy: it writes dense results alone, and
// is chosen because it is much faster. Or y would leave batch entries of a few lines, which are
// lines of one matrix only where they follow each other.
bool wants_dense_lines(const LowerContext& ctx, Product product) {
  Product placed = product;
  bring_to_normal_form(placed);
  product.y_lines.reset();
  product.y.offset_bytes = 0;
  product.y.strides = dense_strides(product.y.shape());
  bring_to_normal_form(product);
  const ProductOffer* dense_row = choose(own_product_offers(), ctx, FusedProduct{product}).row;
  const ProductOffer* placed_row = choose(own_product_offers(), ctx, FusedProduct{placed}).row;
  if (dense_row == nullptr || placed_row == nullptr) return dense_row != nullptr;
  return !dense_row->writes_any_lines ||
         (dense_row != placed_row && placed_row->kernel == KernelId::matvec);
}

// The product in a buffer of its own, then a copy to where y stands.
bool lower_apart(LowerContext& ctx, Product product) {
  const TensorRef place = product.y;
  const TensorRef dense = ctx.scratch(place.type, "dense");
  product.y = dense;
  product.y_lines.reset();
  if (!lower_product(ctx, std::move(product))) return false;
  ctx.copy(dense, place, "the fastest kernel of this product writes dense results");
  return true;
}

}  // namespace

std::optional<ProductLines> product_lines(const TensorRef& y) {
  if (y.dense()) return std::nullopt;
  ProductLines lines{.batch = y.strides, .line = y.strides.at(y.strides.size() - 2)};
  lines.batch.resize(y.strides.size() - 2);
  return lines;
}

std::optional<double> product_microseconds(const OfferContext& at, Product product) {
  bring_to_normal_form(product);
  const auto choice = choose(product_offers(), at, FusedProduct{std::move(product)});
  return choice.row == nullptr ? std::nullopt : std::optional(choice.microseconds);
}

bool lower_product(LowerContext& ctx, Product product) {
  const Dim batches = batch_count(product);
  if (product.m == 0 || product.n == 0 || batches == 0) return true;
  if (product.y_lines && wants_dense_lines(ctx, product)) return lower_apart(ctx, product);
  bring_to_normal_form(product);
  const int64_t largest = std::max({product.m.range().most, product.n.range().most,
                                    product.k.range().most, batch_count(product).range().most});
  if (largest > kCountLimit ||
      ceil_div(product.m.range().most, kLeastTile) * ceil_div(product.n.range().most, kLeastTile) >
          kCountLimit) {
    return ctx.fail(DiagCode::UnsupportedOp,
                    "a product of m=" + to_string(product.m) + " n=" + to_string(product.n) +
                        " k=" + to_string(product.k) + " exceeds the kernels' 32-bit counts");
  }
  return lower_by_offers(ctx, product_offers(), FusedProduct{std::move(product)});
}

}  // namespace rlx
