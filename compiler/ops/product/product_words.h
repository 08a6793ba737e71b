// SPDX-License-Identifier: Apache-2.0
// A product whose sizes are words of params, so that products of other sizes run the same kernel.
#pragma once

#include "compiler/dispatch/size_words.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// Words stand for a product whose sizes are all fixed, and not for nothing; none of its operands
// runs backwards.
bool takes_words(const Product& product);
Strides words_of(SizeWords& words, Strides strides);
// Of all but m, k and what a stands at, which windows make of words of their own.
void put_words_beside_lines(SizeWords& words, Product& product);
// The product with words in the places of its sizes and strides.
Product in_words(SizeWords& words, Product product);
// The elements that an operand's lines, or an added tensor, reach in all batch entries.
Dim reach_of(const Product& product, const ProductOperand& operand, const Dim& lines);
Dim reach_of(const Shape& batch, const Strides& strides);
// The views of b, y and of what is added are replaced by what the kernel reaches of them, by the
// words that it goes by; a's is left, which may be windows.
void put_reaches_beside_lines(Product& product);
// Those of all operands.
void put_reaches(Product& product);

}  // namespace rlx
