// SPDX-License-Identifier: Apache-2.0
// The sizes of an entry that depend on free symbols, as plan.fbs holds them: terms, and the fields
// that hold them.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "compiler/support/dim.h"
#include "schema/plan_generated.h"

namespace rlx {

// Sizes as terms, equal ones once. A Symbol's `a` is the index of the size's symbol.
class SizeTerms {
 public:
  // The number of the term that is the size.
  uint32_t term(const Dim& size);
  uint32_t symbol(uint32_t index) { return add(fb::SizeOp::Symbol, 0, index, 0); }
  [[nodiscard]] const std::vector<fb::SizeTerm>& all() const { return terms_; }

 private:
  uint32_t add(fb::SizeOp op, uint64_t value, uint32_t a, uint32_t b);

  using Key = std::tuple<fb::SizeOp, uint64_t, uint32_t, uint32_t>;
  std::map<Key, uint32_t> numbers_;
  std::vector<fb::SizeTerm> terms_;
};

class SizeTable {
 public:
  // The field holds the size, whatever the symbols are. Nothing for a fixed one.
  void patch(fb::PatchField field, uint32_t index, uint32_t part, const Dim& size);
  // The same of a symbol's value.
  void patch_symbol(fb::PatchField field, uint32_t index, uint32_t part, uint32_t symbol);
  // The number of the term that is the size.
  uint32_t term(const Dim& size) { return terms_.term(size); }
  // No field holds the size, but a run at which it has no value is refused.
  void require(const Dim& size) { terms_.term(size); }
  [[nodiscard]] bool empty() const { return patches_.empty(); }
  [[nodiscard]] const std::vector<fb::SizeTerm>& terms() const { return terms_.all(); }
  // Ascending by field, index and part.
  [[nodiscard]] std::vector<fb::Patch> patches() const;

 private:
  SizeTerms terms_;
  std::map<std::tuple<fb::PatchField, uint32_t, uint32_t>, uint32_t> patches_;
};

}  // namespace rlx
