// SPDX-License-Identifier: Apache-2.0
// Sizes that depend on free symbols: the terms of an entry evaluated, and the fields of the index
// and params that hold them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/plan_generated.h"

namespace rlx {

inline constexpr uint32_t kPatchFieldCount = static_cast<uint32_t>(fb::PatchField::MAX) + 1;
inline constexpr uint32_t kGemmPartCount = 12;
inline constexpr uint32_t kParamsWordBytes = 4;

std::span<const fb::SizeTerm> size_terms(const fb::Entry& entry);
std::span<const fb::Patch> patches_of(const fb::Entry& entry);
inline bool has_free_sizes(const fb::Entry& entry) {
  return !patches_of(entry).empty();
}

std::span<const fb::StepForm> forms_of(const fb::Entry& entry);
// Those of a step, whose entry's forms are in order.
std::span<const fb::StepForm> forms_of(const fb::Entry& entry, uint32_t step);

std::span<const fb::SymbolRange> ranges_of(const fb::Entry& entry);
// A value per symbol of a plan: its own where it is bound, its maximum where it is free.
std::vector<uint64_t> symbols_at_maximum(const fb::Plan& plan);
// The same with the maxima of the record's ranges: the values at which it stands in the file.
std::vector<uint64_t> symbols_at_maximum(const fb::Plan& plan, const fb::Entry& entry);
// The record is made for these values, each of which is in its symbol's range.
bool is_made_for(const fb::Entry& entry, std::span<const uint64_t> symbols);
// The one of an entry's records that is; null where none is.
const fb::Entry* record_for(std::span<const fb::Entry* const> records,
                            std::span<const uint64_t> symbols);
// "seq 1 to 16, batch 1 to 8": the record's own ranges; "" where it has none.
std::string ranges_text(const fb::Plan& plan, const fb::Entry& entry);
// "batch = 1, seq = 77": the free symbols of a plan.
std::string symbols_text(const fb::Plan& plan, std::span<const uint64_t> symbols);
// "1 to 512", "32 to 1024 in steps of 32".
std::string symbol_range_text(const fb::Symbol& symbol);
std::string symbol_range_text(const fb::SymbolRange& range);
bool is_in_range(const fb::Symbol& symbol, uint64_t value);
bool is_in_range(const fb::SymbolRange& range, uint64_t value);

// Why a term has no value.
struct SizeFault {
  uint32_t term = 0;
  std::string_view why;  // "exceeds 64 bits"
};

// Evaluates terms that the verifier let pass; `symbols` has a value for each symbol of the plan,
// `sizes` room for each term.
std::optional<SizeFault> evaluate_sizes(std::span<const fb::SizeTerm> terms,
                                        std::span<const uint64_t> symbols,
                                        std::span<uint64_t> sizes);

// "seq", "2 * batch", "ceil(seq / 64) * 12". Long ones end in "...".
std::string size_text(const fb::Plan& plan, std::span<const fb::SizeTerm> terms, uint32_t term);

// "[batch,seq,384]": the dims of a value, free ones as their sizes are written.
std::string dims_text(const fb::Plan& plan, const fb::Entry& entry, uint32_t value);

// The patch of a field; null where it has none.
const fb::Patch* find_patch(const fb::Entry& entry, fb::PatchField field, uint32_t index,
                            uint32_t part);
// The symbol that a dim of a value is; none where the dim is fixed or an operation.
std::optional<uint32_t> symbol_of_dim(const fb::Entry& entry, uint32_t value, uint32_t axis);

// Whether the field of a well-formed patch is in the index, where a default may stand for it.
bool is_stored(const fb::Entry& entry, const fb::Patch& patch);
// What the field of a well-formed patch holds; `params` are those of its step.
uint64_t patched_field(const fb::Entry& entry, const fb::Patch& patch,
                       std::span<const std::byte> params);
// Puts a size that fits into the field.
void set_patched_field(fb::Entry& entry, const fb::Patch& patch, std::span<std::byte> params,
                       uint64_t size);
// The largest size that the field can hold.
uint64_t patched_field_limit(const fb::Patch& patch);
// "grid of step 3", "dim 1 of value 2", for messages.
std::string patch_text(const fb::Patch& patch);

}  // namespace rlx
