// SPDX-License-Identifier: Apache-2.0
// A product whose sizes are words of params.
#include "compiler/ops/product/product_words.h"

#include <algorithm>

#include "compiler/ops/product/matmul_emit.h"

namespace rlx {
namespace {

void put_words(SizeWords& words, ProductOperand& operand) {
  operand.batch = words_of(words, operand.batch);
  operand.line = words.word(operand.line);
  operand.depth = words.word(operand.depth);
}

void put_words(SizeWords& words, AddedOperand& added) {
  added.batch = words_of(words, added.batch);
  added.m = words.word(added.m);
  added.n = words.word(added.n);
}

}  // namespace

bool takes_words(const Product& product) {
  const auto step_on = [](const ProductOperand& operand) {
    return operand.line >= 0 && operand.depth >= 0 &&
           std::ranges::all_of(operand.batch, [](const Dim& stride) { return stride >= 0; });
  };
  return !has_free_sizes(FusedProduct{product}) && product.m > 0 && product.n > 0 &&
         product.k > 0 && step_on(product.a) && step_on(product.b);
}

Strides words_of(SizeWords& words, Strides strides) {
  for (Dim& stride : strides) stride = words.word(stride);
  return strides;
}

void put_words_beside_lines(SizeWords& words, Product& product) {
  product.n = words.word(product.n);
  for (Dim& size : product.batch) size = words.word(size);
  put_words(words, product.b);
  if (product.bias) put_words(words, *product.bias);
  if (product.residual) put_words(words, *product.residual);
  if (product.y_lines) {
    product.y_lines->batch = words_of(words, product.y_lines->batch);
    product.y_lines->line = words.word(product.y_lines->line);
  }
}

Product in_words(SizeWords& words, Product product) {
  product.m = words.word(product.m);
  product.k = words.word(product.k);
  put_words(words, product.a);
  put_words_beside_lines(words, product);
  return product;
}

Dim reach_of(const Shape& batch, const Strides& strides) {
  Dim reach = 0;
  for (size_t i = 0; i < strides.size(); ++i) reach += reach_of(batch[i], strides[i]);
  return reach;
}

Dim reach_of(const Product& product, const ProductOperand& operand, const Dim& lines) {
  return reach_of(product.batch, operand.batch) + reach_of(lines, operand.line) +
         reach_of(product.k, operand.depth);
}

void put_reaches_beside_lines(Product& product) {
  const auto added = [&](AddedOperand& of) {
    of.ref = reached(of.ref, reach_of(product.batch, of.batch) + reach_of(product.m, of.m) +
                                 reach_of(product.n, of.n));
  };
  product.b.ref = reached(product.b.ref, reach_of(product, product.b, product.n));
  if (product.bias) added(*product.bias);
  if (product.residual) added(*product.residual);
  const Dim line = product.y_lines ? product.y_lines->line : product.n;
  const Dim entries = product.y_lines ? reach_of(product.batch, product.y_lines->batch)
                                      : reach_of(batch_count(product), product.m * product.n);
  product.y = reached(product.y, entries + reach_of(product.m, line) + product.n - 1);
}

void put_reaches(Product& product) {
  product.a.ref = reached(product.a.ref, reach_of(product, product.a, product.m));
  put_reaches_beside_lines(product);
}

}  // namespace rlx
