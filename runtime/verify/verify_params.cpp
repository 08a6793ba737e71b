// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 7: params, relocations and what their kernels make of them; copies and
// fills.
#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

constexpr uint32_t kPointerBytes = 8;
constexpr uint32_t kFillWordBytes = 4;

void verify_kernel_accesses(const PlanParts& parts, uint32_t k, Faults& faults) {
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(k);
  uint64_t taken = 0;  // bit per 8 bytes of params
  for (const fb::KernelAccess* access : *kernel.accesses()) {
    const bool inside = range_inside(access->position(), kPointerBytes,
                                     std::min(kernel.params_bytes(), kMaxParamsBytes));
    const bool aligned = access->position() % kPointerBytes == 0;
    const bool usable_alignment =
        std::has_single_bit(access->alignment()) && access->alignment() <= kArenaAlignmentBytes;
    const uint64_t bit = inside ? uint64_t{1} << (access->position() / kPointerBytes) : 0;
    if (!inside || !aligned || !usable_alignment || (taken & bit) != 0) {
      faults.add(VerifyRule::AccessForm, kernel_name(parts.plan, k), " has a pointer at byte ",
                 access->position(), " of ", kernel.params_bytes(), " with alignment ",
                 access->alignment(),
                 (taken & bit) != 0
                     ? ", where it has one already"
                     : ", wanted a multiple of 8 inside and an alignment of 1, 2, 4 to 256");
    }
    taken |= bit;
  }
}

// How far behind the begin of its range a kernel wants the pointer.
uint64_t wanted_addend(const fb::Kernel& kernel, uint32_t position) {
  if (kernel.addends() == nullptr) return 0;
  for (const fb::PointerAddend* row : *kernel.addends()) {
    if (row->position() == position) return row->addend();
  }
  return 0;
}

void verify_pointer(const PlanParts& parts, const StepPlace& place,
                    const fb::Relocation& relocation, const fb::KernelAccess& access,
                    Faults& faults) {
  const EntryParts& entry = place.entry;
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(place.step.kernel());
  const auto pointer = [&] {
    return text_of(place.name(), ", pointer at byte ", relocation.position(), " to ",
                   entry.short_value_name(relocation.value()));
  };
  if (relocation.mode() != access.mode()) {
    static constexpr std::string_view kModes[] = {"nothing", "read", "write", "read and write"};
    faults.add(VerifyRule::RelocationMode, pointer(), ": declared as ",
               kModes[static_cast<size_t>(relocation.mode())], ", ",
               kernel_name(parts.plan, place.step.kernel()), " does ",
               kModes[static_cast<size_t>(access.mode())]);
  }
  if (relocation.length_bytes() < access.min_bytes()) {
    faults.add(VerifyRule::RelocationBytes, pointer(), ": gives ", relocation.length_bytes(),
               " bytes, ", kernel_name(parts.plan, place.step.kernel()), " needs ",
               access.min_bytes());
  }
  const uint64_t addend = addend_of(parts, place.step, relocation);
  if (addend != 0 && (addend >= relocation.length_bytes() || addend % access.alignment() != 0)) {
    faults.add(VerifyRule::RelocationRange, pointer(), ": stands ", addend,
               " bytes behind the begin of its range of ", relocation.length_bytes(),
               " bytes, wanted a multiple of ", access.alignment(), " inside it");
  } else if (const uint64_t wanted = wanted_addend(kernel, relocation.position());
             addend != wanted) {
    faults.add(VerifyRule::PointerAddend, pointer(), ": stands ", addend,
               " bytes behind the begin of its range, ",
               kernel_name(parts.plan, place.step.kernel()), " wants ", wanted,
               "; if the plan is older than format 1.2, compile it again");
  }
  if (address_alignment(entry, relocation) < access.alignment()) {
    faults.add(VerifyRule::RelocationAlignment, pointer(), ": has an alignment of ",
               address_alignment(entry, relocation), " bytes, ",
               kernel_name(parts.plan, place.step.kernel()), " relies on ", access.alignment());
  }
}

void verify_dispatch(const PlanParts& parts, const StepPlace& place, Faults& faults) {
  const EntryParts& entry = place.entry;
  const fb::Step& step = place.step;
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(step.kernel());
  if (step.params_bytes() != kernel.params_bytes()) {
    faults.add(VerifyRule::ParamsBytes, place.name(), " has ", step.params_bytes(),
               " bytes of params, ", kernel_name(parts.plan, step.kernel()), " takes ",
               kernel.params_bytes());
  }
  uint64_t placed = 0;  // bit per access of the kernel
  for (const fb::Relocation& relocation : entry.relocations_of(step)) {
    if (faults.full()) return;
    verify_range(place, relocation, faults);
    uint32_t found = 0;
    while (found < kernel.accesses()->size() &&
           kernel.accesses()->Get(found)->position() != relocation.position())
      ++found;
    const uint64_t bit = uint64_t{1} << found;
    if (found == kernel.accesses()->size() || (placed & bit) != 0) {
      faults.add(VerifyRule::RelocationPosition, place.name(), " has a pointer to ",
                 entry.short_value_name(relocation.value()), " at byte ", relocation.position(),
                 " of its params, where ", kernel_name(parts.plan, step.kernel()),
                 found == kernel.accesses()->size() ? " has none" : " has only one");
      continue;
    }
    placed |= bit;
    verify_pointer(parts, place, relocation, *kernel.accesses()->Get(found), faults);
  }
  for (uint32_t i = 0; i < kernel.accesses()->size(); ++i) {
    if ((placed >> i & 1) != 0) continue;
    faults.add(VerifyRule::RelocationPosition, place.name(),
               " gives no address for the pointer at byte ", kernel.accesses()->Get(i)->position(),
               " of ", kernel_name(parts.plan, step.kernel()));
  }
  if (faults.empty()) verify_words(parts, place, faults);
}

void verify_copy(const StepPlace& place, Faults& faults) {
  const EntryParts& entry = place.entry;
  const std::span<const fb::Relocation> ends = entry.relocations_of(place.step);
  const bool well_formed = ends.size() == 2 && ends[0].mode() == fb::AccessMode::Read &&
                           ends[1].mode() == fb::AccessMode::Write &&
                           ends[0].length_bytes() == ends[1].length_bytes();
  if (!well_formed) {
    return faults.add(
        VerifyRule::CopyForm, place.name(), " has ", ends.size(),
        " ranges, wanted one that is read and one of the same length that is written");
  }
  for (const fb::Relocation& end : ends) verify_range(place, end, faults);
  if (!faults.empty() || !same_memory(entry, ends[0], ends[1])) return;
  faults.add(VerifyRule::CopyForm, place.name(), " copies ",
             entry.short_value_name(ends[0].value()), " to ",
             entry.short_value_name(ends[1].value()), ", and the two ranges overlap");
}

void verify_fill(const StepPlace& place, Faults& faults) {
  const std::span<const fb::Relocation> ends = place.entry.relocations_of(place.step);
  const bool well_formed = ends.size() == 1 && ends[0].mode() == fb::AccessMode::Write &&
                           ends[0].length_bytes() % kFillWordBytes == 0 &&
                           ends[0].offset_bytes() % kFillWordBytes == 0;
  if (!well_formed) {
    return faults.add(VerifyRule::FillForm, place.name(), " has ", ends.size(),
                      " ranges, wanted one that is written, of whole 32-bit words");
  }
  verify_range(place, ends[0], faults);
}

void verify_place(const PlanParts& parts, const StepPlace& place, Faults& faults) {
  if (place.step.kind() == fb::StepKind::Skip) return;  // Nothing of it is used.
  if (place.step.kind() == fb::StepKind::Dispatch) return verify_dispatch(parts, place, faults);
  if (place.step.params_bytes() != 0) {
    faults.add(VerifyRule::ParamsBytes, place.name(), " has ", place.step.params_bytes(),
               " bytes of params, wanted none");
  }
  if (place.step.kind() == fb::StepKind::Copy) verify_copy(place, faults);
  if (place.step.kind() == fb::StepKind::Fill) verify_fill(place, faults);
  if (place.step.kind() == fb::StepKind::LibraryGemm) verify_gemm(place, faults);
}

}  // namespace

uint64_t addend_of(const PlanParts& parts, const fb::Step& step, const fb::Relocation& relocation) {
  uint64_t addend = 0;
  if (range_inside(relocation.position(), sizeof addend, step.params_bytes())) {
    std::memcpy(&addend, parts.params_of(step).data() + relocation.position(), sizeof addend);
  }
  return addend;
}

uint64_t address_alignment(const EntryParts& entry, const fb::Relocation& relocation) {
  const fb::Value& value = entry.value(relocation.value());
  uint64_t base = kArenaAlignmentBytes;
  if (value.segment() == fb::Segment::Io) base = kIoAlignmentBytes;
  if (value.segment() == fb::Segment::IndexErrors) base = kIndexErrorBytes;
  const uint64_t offset = relocation.offset_bytes();
  return offset == 0 ? base : std::min(base, offset & (~offset + 1));
}

bool same_memory(const EntryParts& entry, const fb::Relocation& a, const fb::Relocation& b) {
  const fb::Value& value_a = entry.value(a.value());
  const fb::Value& value_b = entry.value(b.value());
  if (value_a.segment() != value_b.segment()) return false;
  if (value_a.segment() == fb::Segment::Io && a.value() != b.value()) return false;
  const uint64_t begin_a = value_a.offset_bytes() + a.offset_bytes();
  const uint64_t begin_b = value_b.offset_bytes() + b.offset_bytes();
  return begin_a < begin_b + b.length_bytes() && begin_b < begin_a + a.length_bytes();
}

void verify_range(const StepPlace& place, const fb::Relocation& relocation, Faults& faults) {
  const fb::Value& value = place.entry.value(relocation.value());
  if (range_inside(relocation.offset_bytes(), relocation.length_bytes(), value.size_bytes()))
    return;
  faults.add(VerifyRule::RelocationRange, place.name(), " touches ", relocation.length_bytes(),
             " bytes at ", relocation.offset_bytes(), " of ",
             place.entry.short_value_name(relocation.value()), ", which has ", value.size_bytes());
}

void verify_entry_params(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  for (const StepPlace& place : all_places(entry)) {
    faults.charge(kWorkPerRecord * (2 + 4 * uint64_t{place.step.relocation_count()}));
    if (faults.full()) return;
    verify_place(parts, place, faults);
  }
  for_each_form(entry, [&](const StepPlace& place) {
    faults.charge(kWorkPerRecord * (2 + 4 * uint64_t{place.step.relocation_count()}));
    if (!faults.full()) verify_place(parts, place, faults);
  });
  if (faults.empty()) verify_alternatives(entry, faults);
  if (faults.empty()) verify_index_errors(entry, faults);
}

void verify_params(const PlanParts& parts, Faults& faults) {
  for (uint32_t k = 0; k < parts.plan.kernels()->size() && !faults.full(); ++k)
    verify_kernel_accesses(parts, k, faults);
  for (uint32_t k = 0; k < parts.plan.kernels()->size() && faults.empty(); ++k)
    verify_word_forms(parts, k, faults);
  for (uint32_t k = 0; k < parts.plan.kernels()->size() && faults.empty(); ++k)
    verify_maps(parts, k, faults);
  if (!faults.empty()) return;
  for (const EntryParts& entry : parts.entries) verify_entry_params(parts, entry, faults);
}

}  // namespace rlx
