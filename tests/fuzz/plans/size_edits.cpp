// SPDX-License-Identifier: Apache-2.0
// Edits of sizes that are free: they stay what they are at the maximum, which open verifies, and
// lie elsewhere.
#include <array>
#include <cstring>

#include "tests/fuzz/plans/mutant_builder.h"

namespace rlx::test {
namespace {

constexpr uint32_t kTerm = sizeof(fb::SizeTerm);
constexpr uint32_t kPatch = sizeof(fb::Patch);

uint32_t add_term(Node& sizes, uint64_t value, uint32_t a, uint32_t b, fb::SizeOp op) {
  const fb::SizeTerm term(value, a, b, op);
  const size_t at = sizes.bytes.size();
  sizes.bytes.resize(at + kTerm);
  std::memcpy(sizes.bytes.data() + at, &term, kTerm);
  return static_cast<uint32_t>(at / kTerm);
}

}  // namespace

// Adds or subtracts a multiple of how far a symbol is from its maximum.
void MutantBuilder::bend_size() {
  Node& entry = some_entry();
  Node& sizes = kid(entry, fb::Entry::VT_SIZES);
  Node& patches = kid(entry, fb::Entry::VT_PATCHES);
  std::vector<Node>& symbols = kid(index_, fb::Plan::VT_SYMBOLS).kids;
  if (count(patches, kPatch) == 0 || symbols.empty()) return;
  const FieldType& size_field = struct_field("Patch", "size");
  const size_t patch = dice_.below(count(patches, kPatch));
  const auto symbol = static_cast<uint32_t>(dice_.below(symbols.size()));
  const uint64_t maximum = kid(symbols[symbol], fb::Symbol::VT_MAXIMUM).bits;
  static constexpr std::array<uint64_t, 8> kFactors = {1, 1, 2, 4, 16, 256, 1u << 20, 1ull << 62};
  const uint64_t factor = kFactors[dice_.below(kFactors.size())];
  const auto old = static_cast<uint32_t>(get(patches, patch, kPatch, size_field));
  const uint32_t most = add_term(sizes, maximum, 0, 0, fb::SizeOp::Constant);
  const uint32_t value = add_term(sizes, 0, symbol, 0, fb::SizeOp::Symbol);
  const uint32_t distance = add_term(sizes, 0, most, value, fb::SizeOp::Subtract);
  const uint32_t times = add_term(sizes, factor, 0, 0, fb::SizeOp::Constant);
  const uint32_t rest = add_term(sizes, 0, distance, times, fb::SizeOp::Multiply);
  const fb::SizeOp op = dice_.chance(1, 2) ? fb::SizeOp::Add : fb::SizeOp::Subtract;
  const uint32_t bent = add_term(sizes, 0, old, rest, op);
  // Every patch of the size, or this one alone.
  const bool all = dice_.chance(1, 2);
  for (size_t p = 0; p < count(patches, kPatch); ++p) {
    if (p == patch || (all && get(patches, p, kPatch, size_field) == old))
      set(patches, p, kPatch, size_field, bent);
  }
  note("size ", old, op == fb::SizeOp::Add ? " plus " : " minus ", factor, " times what symbol ",
       symbol, " is from ", maximum);
}

// A field that follows a symbol stays as it is.
void MutantBuilder::fix_size() {
  Node& patches = kid(some_entry(), fb::Entry::VT_PATCHES);
  const size_t all = count(patches, kPatch);
  if (all == 0) return;
  const size_t patch = dice_.below(all);
  const auto at = patches.bytes.begin() + static_cast<ptrdiff_t>(patch * kPatch);
  patches.bytes.erase(at, at + kPatch);
  note("patch ", patch, " of ", all, " is gone");
}

}  // namespace rlx::test
