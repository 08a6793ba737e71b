// SPDX-License-Identifier: Apache-2.0
// Fixed sizes as words of params.
#include "compiler/dispatch/size_words.h"

#include <algorithm>
#include <limits>
#include <set>

#include "compiler/support/checked.h"
#include "schema/kernel_params.h"
#include "schema/rounding.h"

namespace rlx {

std::string size_word_define(uint32_t word) {
  return "RLX_WORD_" + std::to_string(word);
}

size_t pointers_of_sizes(const Shape& shape) {
  constexpr size_t kWordsOfPointer = sizeof(rlx_ptr) / sizeof(uint32_t);
  std::set<uint32_t> symbols;
  for (const Dim& size : shape)
    for_each_symbol(size, [&symbols](const FreeSymbol& symbol) { symbols.insert(symbol.index); });
  return ceil_div(symbols.size(), kWordsOfPointer);
}

Dim SizeWords::word(const Dim& size) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  // What kernels move at once; the choice of vectors is the only one that reads a factor.
  constexpr int64_t kVector = 4;
  if (size.is_free() || size.bound() <= 1 || size.bound() > kMost) return size;
  const auto number = narrow<uint32_t>(values_.size());
  const int64_t factor = size.divides_by(kVector) ? kVector : (size.divides_by(2) ? 2 : 1);
  values_.push_back(size.bound());
  return Dim::of({.index = kFirstSizeWord + number,
                  .name = "word " + std::to_string(number),
                  // A word of one value alone would be taken for the number.
                  .minimum = size.bound() > factor ? factor : 0,
                  .maximum = size.bound(),
                  .multiple_of = factor});
}

Dim SizeWords::any(int64_t number) {
  const auto index = narrow<uint32_t>(values_.size());
  values_.push_back(number);
  return Dim::of({.index = kFirstSizeWord + index,
                  .name = "word " + std::to_string(index),
                  .minimum = 0,
                  .maximum = std::max<int64_t>(number, 1),
                  .multiple_of = 1});
}

Dim reach_of(const Dim& count, const Dim& stride) {
  return (count - 1) * stride;
}

TensorRef reached(const TensorRef& ref, const Dim& farthest) {
  return {.buffer = ref.buffer,
          .offset_bytes = ref.offset_bytes,
          .type = {.dtype = ref.dtype(), .shape = {farthest + 1}},
          .strides = {1}};
}

}  // namespace rlx
