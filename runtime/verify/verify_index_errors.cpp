// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 12: the words in which steps count indices that lie outside, and what does
// not hold.
#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

bool is_word(const fb::Value& value) {
  return value.segment() == fb::Segment::IndexErrors;
}

// Whether there are any.
bool verify_words(const EntryParts& entry, Faults& faults) {
  faults.charge(kWorkPerTable * uint64_t{entry.value_count()});
  std::vector<uint32_t> words;
  for (uint32_t v = 0; v < entry.value_count(); ++v) {
    const fb::Value& value = entry.value(v);
    if (!is_word(value)) continue;
    words.push_back(v);
    if (value.dtype() == RLX_U32 && value.size_bytes() == kIndexErrorBytes) continue;
    faults.add(VerifyRule::IndexErrorsForm, entry.value_name(v), " is ",
               tensor_text(value.dtype(), dims_of(value.dims())),
               " in the segment of index errors, wanted one u32");
  }
  if (!faults.empty()) return true;
  const auto before = [&](uint32_t a, uint32_t b) {
    return entry.value(a).offset_bytes() < entry.value(b).offset_bytes();
  };
  // Writers of plans lay them out in order.
  if (!std::is_sorted(words.begin(), words.end(), before)) {
    faults.charge(2 * work_of_sort(words.size()));
    if (faults.full()) return true;
    std::sort(words.begin(), words.end(), before);
  }
  for (size_t i = 1; i < words.size(); ++i) {
    if (entry.value(words[i - 1]).offset_bytes() != entry.value(words[i]).offset_bytes()) continue;
    faults.add(VerifyRule::IndexErrorsForm, entry.value_name(words[i]), " and ",
               entry.short_value_name(words[i - 1]), " are the same word of index errors");
  }
  return !words.empty();
}

void verify_assertions(const EntryParts& entry, Faults& faults) {
  if (entry.entry.assertions() == nullptr) return;
  std::optional<uint32_t> before;
  for (uint32_t i = 0; i < entry.entry.assertions()->size() && !faults.full(); ++i) {
    faults.charge(kWorkPerTable);
    const fb::Assertion& assertion = *entry.entry.assertions()->Get(i);
    const uint32_t word = assertion.word();
    const size_t bytes = assertion.text()->size();
    const bool is_good = word < entry.value_count() && is_word(entry.value(word)) &&
                         (!before || *before < word) && bytes > 0 && bytes <= kMaxAssertionBytes;
    before = word;
    if (is_good) continue;
    faults.add(VerifyRule::AssertionForm, entry.name(), ", assertion ", i, " is of value ", word,
               " and has a text of ", bytes,
               " bytes, wanted a word of index errors behind those before, and 1 to ",
               kMaxAssertionBytes, " bytes");
  }
}

// The only word that the step may use, and only in this way; anything else is a fault.
void verify_uses(const StepPlace& place, std::vector<std::optional<size_t>>& step_of_word,
                 Faults& faults) {
  const EntryParts& entry = place.entry;
  if (place.step.kind() == fb::StepKind::Skip) return;
  const fb::Relocation* only = nullptr;
  for (const fb::Relocation& use : entry.relocations_of(place.step)) {
    if (!is_word(entry.value(use.value()))) continue;
    const auto name = [&] { return entry.short_value_name(use.value()); };
    std::optional<size_t>& owner = step_of_word[use.value()];
    if (owner.value_or(place.number) != place.number) {
      faults.add(VerifyRule::IndexErrorsStep, place.name(), " counts in ", name(),
                 ", as does step ", *owner);
    }
    owner = place.number;
    const bool counts = place.step.kind() == fb::StepKind::Dispatch &&
                        use.mode() == fb::AccessMode::ReadWrite &&
                        use.length_bytes() == kIndexErrorBytes;
    if (only == nullptr && counts) {
      only = &use;
      continue;
    }
    faults.add(VerifyRule::IndexErrorsStep, place.name(), " uses ", name(),
               only != nullptr ? " beside another word of index errors"
                               : " other than by reading and writing all of it in a kernel");
  }
}

}  // namespace

void verify_index_errors(const EntryParts& entry, Faults& faults) {
  const bool has_words = verify_words(entry, faults);
  verify_assertions(entry, faults);
  if (!faults.empty() || !has_words) return;
  std::vector<std::optional<size_t>> step_of_word(entry.value_count());
  for (const StepPlace& place : all_places(entry)) {
    faults.charge(kWorkPerRecord * (1 + uint64_t{place.step.relocation_count()}));
    if (faults.full()) return;
    verify_uses(place, step_of_word, faults);
  }
}

}  // namespace rlx
