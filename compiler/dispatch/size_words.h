// SPDX-License-Identifier: Apache-2.0
// Fixed sizes as words of a kernel's params: instances that differ in them alone are one, which a
// driver compiles once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/dispatch/builder.h"
#include "compiler/support/check.h"
#include "compiler/support/dim.h"
#include "compiler/support/shape.h"

namespace rlx {

// Symbols from this number on are words of one step, no symbols of the module.
inline constexpr uint32_t kFirstSizeWord = uint32_t{1} << 30;
// "RLX_WORD_3": the define by which a step tells place_sizes() the value of a word.
std::string size_word_define(uint32_t word);

// Where kernels take their fixed sizes as words.
enum class WordUse : uint8_t {
  Never,
  WhereFree,  // where that costs a run nothing
  ForShared,  // where it costs little, for steps that then run one kernel
  Always,     // wherever it can be
};

// The words of one step. What a lowering makes of their Dims, as of free sizes, holds at any values
// of the words that are multiples as theirs are.
class SizeWords {
 public:
  // The size as a word, for texts and for the ranges of accesses; itself where it is free, or says
  // something as a number: nothing, a single one, a distance backwards.
  Dim word(const Dim& size);
  // The number as a word, whatever it is: for kernels that take nothing of it as known.
  Dim any(int64_t number);
  [[nodiscard]] size_t count() const { return values_.size(); }
  template <typename Params>
  void give(DispatchBuilder<Params>& dispatch) const {
    for (uint32_t i = 0; i < values_.size(); ++i) dispatch.define(size_word_define(i), values_[i]);
  }

 private:
  std::vector<int64_t> values_;
};

// Sizes that a run gives stand in the places of pointers: how many of these a region of values of
// this shape cannot bind.
size_t pointers_of_sizes(const Shape& shape);

// The elements from the first to the last that a dim of `count`, each `stride` on, adds.
Dim reach_of(const Dim& count, const Dim& stride);
// As many elements, one after the other, as a kernel that goes by words reaches from the view's
// first one on; `farthest` is the last.
TensorRef reached(const TensorRef& ref, const Dim& farthest);

}  // namespace rlx
