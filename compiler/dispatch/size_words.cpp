// SPDX-License-Identifier: Apache-2.0
// Fixed sizes as words of params.
#include "compiler/dispatch/size_words.h"

#include <limits>

#include "compiler/support/checked.h"

namespace rlx {

std::string size_word_define(uint32_t word) {
  return "RLX_WORD_" + std::to_string(word);
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
                  .minimum = factor,
                  .maximum = size.bound(),
                  .multiple_of = factor});
}

}  // namespace rlx
