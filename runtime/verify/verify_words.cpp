// SPDX-License-Identifier: Apache-2.0
// Verifier, of rule group 7: the words of params that are no pointers. What bounds an access is
// declared and compared with the pointer's range, what bounds none is declared too, and everything
// else is 0: so no word can decide unseen how far a kernel goes.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/plan/kernel_sizes.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

constexpr uint32_t kParamWordBytes = 4;
constexpr uint32_t kPointerWords = 2;

// Bit i stands for the word at byte 4 * i of the params, of which there are 32 at most.
uint32_t word_bits(uint32_t position, uint32_t words) {
  return ((1u << words) - 1) << position / kParamWordBytes;
}

bool are_words(const fb::Kernel& kernel, uint32_t position, uint32_t words) {
  return position % kParamWordBytes == 0 &&
         range_inside(position, uint64_t{words} * kParamWordBytes,
                      std::min(kernel.params_bytes(), kMaxParamsBytes));
}

uint32_t pointer_words(const fb::Kernel& kernel) {
  uint32_t bits = 0;
  for (const fb::KernelAccess* access : *kernel.accesses())
    bits |= word_bits(access->position(), kPointerWords);
  return bits;
}

// Of a kernel whose declarations are well-formed.
uint32_t declared_words(const fb::Kernel& kernel) {
  uint32_t bits = pointer_words(kernel);
  if (kernel.counts() != nullptr) {
    for (const fb::ParamsCount* count : *kernel.counts())
      bits |= word_bits(count->position(), count->words());
  }
  if (kernel.plain_words() != nullptr) {
    for (const uint32_t position : *kernel.plain_words()) bits |= word_bits(position, 1);
  }
  return bits;
}

uint32_t word_at(std::span<const std::byte> params, uint32_t position) {
  uint32_t word = 0;
  std::memcpy(&word, params.data() + position, sizeof word);
  return word;
}

void verify_count(const PlanParts& parts, const StepPlace& place, std::span<const std::byte> params,
                  const fb::ParamsCount& count, Faults& faults) {
  const std::span<const fb::Relocation> pointers = place.entry.relocations_of(place.step);
  const auto pointer = std::find_if(
      pointers.begin(), pointers.end(),
      [&](const fb::Relocation& candidate) { return candidate.position() == count.pointer(); });
  uint64_t value = word_at(params, count.position());
  if (count.words() == 2)
    value |= uint64_t{word_at(params, count.position() + kParamWordBytes)} << 32;
  const uint64_t room = pointer->length_bytes() - addend_of(parts, place.step, *pointer);
  if (value <= room / count.unit_bytes()) return;
  faults.add(VerifyRule::CountBound, place.name(), " has the count ", value, " of ",
             count.unit_bytes(), " bytes each at byte ", count.position(),
             " of its params, the pointer at byte ", count.pointer(), " to ",
             place.entry.short_value_name(pointer->value()), " has ", room, " bytes");
}

bool is_plain_word(const fb::Kernel& kernel, uint32_t position) {
  return kernel.plain_words() != nullptr &&
         std::find(kernel.plain_words()->begin(), kernel.plain_words()->end(), position) !=
             kernel.plain_words()->end();
}

bool good_size(const fb::Kernel& kernel, const fb::SizeTerm& term, uint32_t index) {
  if (term.op() == fb::SizeOp::Symbol)
    return term.value() == 0 && term.b() == 0 && is_plain_word(kernel, term.a());
  if (term.op() == fb::SizeOp::Constant) return term.a() == 0 && term.b() == 0;
  return term.op() <= fb::SizeOp::MAX && term.value() == 0 && term.a() < index && term.b() < index;
}

// Of a kernel whose words are well-formed.
void verify_reach_forms(const PlanParts& parts, uint32_t k, Faults& faults) {
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(k);
  const std::span<const fb::SizeTerm> sizes = size_terms(kernel);
  faults.charge(kWorkPerRecord * sizes.size());
  for (uint32_t i = 0; i < sizes.size() && !faults.full(); ++i) {
    if (good_size(kernel, sizes[i], i)) continue;
    faults.add(VerifyRule::ReachForm, kernel_name(parts.plan, k), ", size ", i, " has operation ",
               static_cast<uint32_t>(sizes[i].op()), " of ", sizes[i].a(), " and ", sizes[i].b(),
               ", wanted a number, a plain word of the params, or an operation on earlier sizes");
  }
  if (kernel.reaches() == nullptr) return;
  uint32_t bounded = 0;
  for (const fb::KernelReach* reach : *kernel.reaches()) {
    const bool is_pointer = std::any_of(
        kernel.accesses()->begin(), kernel.accesses()->end(),
        [&](const fb::KernelAccess* access) { return access->position() == reach->pointer(); });
    const uint32_t bits = is_pointer ? word_bits(reach->pointer(), kPointerWords) : 0;
    if (!is_pointer || (bounded & bits) != 0 || reach->size() >= sizes.size()) {
      faults.add(VerifyRule::ReachForm, kernel_name(parts.plan, k), " bounds the pointer at byte ",
                 reach->pointer(), " by size ", reach->size(), " of ", sizes.size(),
                 ", wanted one of its pointers, once, and one of its sizes");
    }
    bounded |= bits;
  }
}

// The sizes as the kernel computes them.
void verify_reaches(const PlanParts& parts, const StepPlace& place,
                    std::span<const std::byte> params, Faults& faults) {
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(place.step.kernel());
  const size_t terms = size_terms(kernel).size();
  if (terms == 0) return;
  faults.charge(kWorkPerRecord * terms);
  std::vector<uint64_t> sizes;
  if (const std::optional<SizeFault> fault = evaluate_sizes(kernel, params, sizes)) {
    return faults.add(VerifyRule::ReachBound, place.name(), ": size ", fault->term, " of ",
                      kernel_name(parts.plan, place.step.kernel()), " ", fault->why,
                      " with the step's params");
  }
  verify_step_maps(parts, place, sizes, faults);
  if (kernel.reaches() == nullptr) return;
  for (const fb::Relocation& pointer : place.entry.relocations_of(place.step)) {
    for (const fb::KernelReach* reach : *kernel.reaches()) {
      if (reach->pointer() != pointer.position() || sizes[reach->size()] <= pointer.length_bytes())
        continue;
      faults.add(VerifyRule::ReachBound, place.name(), ", pointer at byte ", pointer.position(),
                 " to ", place.entry.short_value_name(pointer.value()), ": gives ",
                 pointer.length_bytes(), " bytes, ", kernel_name(parts.plan, place.step.kernel()),
                 " reaches ", sizes[reach->size()], " with the step's params");
    }
  }
}

}  // namespace

bool are_numbers(const fb::Kernel& kernel, uint32_t position, uint32_t words) {
  if (!are_words(kernel, position, words)) return false;
  const uint32_t bits = word_bits(position, words);
  return (bits & declared_words(kernel) & ~pointer_words(kernel)) == bits;
}

void verify_word_forms(const PlanParts& parts, uint32_t k, Faults& faults) {
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(k);
  const uint32_t pointers = pointer_words(kernel);
  uint32_t counted = 0;
  if (kernel.counts() != nullptr) {
    for (const fb::ParamsCount* count : *kernel.counts()) {
      const bool bounds = std::any_of(
          kernel.accesses()->begin(), kernel.accesses()->end(),
          [&](const fb::KernelAccess* access) { return access->position() == count->pointer(); });
      const bool wide = count->words() == 1 || count->words() == 2;
      const bool inside = wide && are_words(kernel, count->position(), count->words());
      const uint32_t bits = inside ? word_bits(count->position(), count->words()) : 0;
      if (bounds && inside && (bits & pointers) == 0 && count->unit_bytes() > 0) {
        counted |= bits;
        continue;
      }
      faults.add(VerifyRule::WordForm, kernel_name(parts.plan, k), " has a count of ",
                 count->words(), " words at byte ", count->position(), " of its ",
                 kernel.params_bytes(), " bytes of params, of ", count->unit_bytes(),
                 " bytes each, that bounds the pointer at byte ", count->pointer(),
                 "; wanted 1 or 2 words apart from pointers, at least 1 byte, and a pointer");
    }
  }
  uint32_t plain = 0;
  for (uint32_t i = 0; kernel.plain_words() != nullptr && i < kernel.plain_words()->size(); ++i) {
    const uint32_t position = kernel.plain_words()->Get(i);
    const uint32_t bit = are_words(kernel, position, 1) ? word_bits(position, 1) : 0;
    if (bit == 0 || (bit & (pointers | counted | plain)) != 0) {
      faults.add(VerifyRule::WordForm, kernel_name(parts.plan, k), " has a plain word at byte ",
                 position, " of its ", kernel.params_bytes(),
                 " bytes of params, wanted one apart from pointers, counts and other plain words");
    }
    plain |= bit;
  }
  if (faults.empty()) verify_reach_forms(parts, k, faults);
}

void verify_words(const PlanParts& parts, const StepPlace& place, Faults& faults) {
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(place.step.kernel());
  const std::span<const std::byte> params = parts.params_of(place.step);
  if (kernel.counts() != nullptr) {
    for (const fb::ParamsCount* count : *kernel.counts())
      verify_count(parts, place, params, *count, faults);
  }
  verify_reaches(parts, place, params, faults);
  const uint32_t declared = declared_words(kernel);
  const size_t end = std::min<size_t>(params.size(), kMaxParamsBytes);
  for (uint32_t position = 0; position + kParamWordBytes <= end; position += kParamWordBytes) {
    const uint32_t word = word_at(params, position);
    if (word == 0 || (declared & word_bits(position, 1)) != 0) continue;
    faults.add(VerifyRule::WordUndeclared, place.name(), " has ", word, " at byte ", position,
               " of its params, where ", kernel_name(parts.plan, place.step.kernel()),
               " declares neither pointer, count nor value (no plan before format 1.2 declares "
               "counts); compile the plan again");
  }
}

}  // namespace rlx
