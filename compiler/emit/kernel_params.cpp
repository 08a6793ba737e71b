// SPDX-License-Identifier: Apache-2.0
#include "compiler/emit/kernel_params.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {

void add_access(KernelPointers& pointers, const Step& step, const Access& access) {
  const auto addend_bytes = static_cast<uint64_t>(access.offset_bytes - access.range_offset_bytes);
  const auto [entry, added] =
      pointers.try_emplace(access.position, KernelPointer{.element_bytes = access.element_bytes,
                                                          .addend_bytes = addend_bytes,
                                                          .mode = access.mode});
  KernelPointer& pointer = entry->second;
  RLX_CHECK(pointer.mode == access.mode,
            step.op + " \"" + step.node + "\": one kernel instance uses a pointer in two modes");
  RLX_CHECK(pointer.addend_bytes == addend_bytes,
            step.op + " \"" + step.node +
                "\": one kernel instance has a pointer at two distances from its range");
  pointer.element_bytes = std::max(pointer.element_bytes, access.element_bytes);
  pointer.alignment_bytes = std::max(pointer.alignment_bytes, access.alignment_bytes);
  // The least that the expression shows, which may lie below what any run gives.
  const int64_t least = std::max<int64_t>(access.range_bytes.range().least, 0);
  pointer.min_bytes = std::min(pointer.min_bytes, static_cast<uint64_t>(least));
}

KernelWords words_of(const KernelRow& row, KernelPointers& pointers) {
  KernelWords words;
  std::set<uint32_t> unbounded;
  std::set<uint32_t> counted;
  for (const ParamsWord& word : all_params_words()) {
    if (word.params != row.params) continue;
    const auto pointer = word.bound ? pointers.find(word.bound->pointer) : pointers.end();
    for (uint32_t i = 0; i < word.words; ++i) {
      (pointer == pointers.end() ? unbounded : counted)
          .insert(word.position + i * narrow<uint32_t>(sizeof(uint32_t)));
    }
    if (pointer == pointers.end()) continue;
    const bool elements = word.bound->unit == ParamsWord::Unit::Elements;
    words.counts.emplace_back(word.position, word.words,
                              elements ? pointer->second.element_bytes : 1, word.bound->pointer);
    pointer->second.min_bytes = 0;
  }
  std::ranges::set_difference(unbounded, counted, std::back_inserter(words.plain));
  return words;
}

void add_size_words(const Specialization& specialization, KernelWords& words) {
  for (const uint32_t position : specialization.size_positions) words.plain.push_back(position);
  std::ranges::sort(words.plain);
}

}  // namespace rlx
