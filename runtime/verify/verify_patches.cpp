// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 14: sizes that depend on free symbols, and the fields that they go into.
// What they make of an entry at a binding is verified by the other groups when it is bound.
#include <tuple>

#include "runtime/plan/free_sizes.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

bool is_operation(fb::SizeOp op) {
  return op != fb::SizeOp::Constant && op != fb::SizeOp::Symbol;
}

bool good_term(const fb::Plan& plan, const fb::SizeTerm& term, uint32_t index) {
  if (term.op() > fb::SizeOp::MAX) return false;
  if (term.op() == fb::SizeOp::Constant) return term.a() == 0 && term.b() == 0;
  if (term.value() != 0) return false;
  if (is_operation(term.op())) return term.a() < index && term.b() < index;
  return term.a() < plan.symbols()->size() && term.b() == 0 &&
         !plan.symbols()->Get(term.a())->bound().has_value();
}

void verify_terms(const EntryParts& entry, Faults& faults) {
  const std::span<const fb::SizeTerm> terms = size_terms(entry.entry);
  faults.charge(kWorkPerRecord * terms.size());
  for (uint32_t i = 0; i < terms.size() && !faults.full(); ++i) {
    if (good_term(entry.plan, terms[i], i)) continue;
    faults.add(VerifyRule::SizeTermForm, entry.name(), ", size ", i, " has operation ",
               static_cast<uint32_t>(terms[i].op()), " of ", terms[i].a(), " and ", terms[i].b(),
               " and the number ", terms[i].value(),
               ", wanted a number, a free symbol of the plan, or an operation on earlier sizes");
  }
}

// A step's number in the params: of a dispatch, or of what is one at smaller sizes, apart from its
// pointers and declared by its kernel, or by all of its forms.
bool good_params_patch(const EntryParts& entry, const fb::Patch& patch, Faults& faults) {
  const auto is_number = [&](uint32_t kernel) {
    const uint32_t words = patch.field() == fb::PatchField::ParamsLong ? 2 : 1;
    return are_numbers(*entry.plan.kernels()->Get(kernel), patch.part(), words);
  };
  if (patch.index() >= entry.steps.size()) return false;
  const fb::Step& step = entry.steps[patch.index()];
  if (step.kind() == fb::StepKind::Dispatch) return is_number(step.kernel());
  if (step.kind() != fb::StepKind::Skip) return false;
  bool is_good = false;
  for (const fb::StepForm& form : forms_of(entry.entry, patch.index())) {
    faults.charge(kWorkPerRecord);
    if (form.kernel() == kSkipForm) continue;
    is_good = is_number(form.kernel());
    if (!is_good || faults.full()) return false;
  }
  return is_good;
}

// Values whose sizes may be free: not the states, which outlive a binding, nor words of index
// errors.
bool good_value_patch(const EntryParts& entry, const fb::Patch& patch) {
  if (patch.index() >= entry.value_count()) return false;
  const fb::Value& value = entry.value(patch.index());
  const uint32_t parts = patch.field() == fb::PatchField::ValueDim ? value.dims()->size() : 1;
  return value.segment() != fb::Segment::State && value.segment() != fb::Segment::IndexErrors &&
         patch.part() < parts;
}

bool good_patch(const EntryParts& entry, const fb::Patch& patch, Faults& faults) {
  const uint32_t gemms = entry.entry.gemms() == nullptr ? 0 : entry.entry.gemms()->size();
  const bool has_step = patch.index() < entry.steps.size();
  switch (patch.field()) {
    case fb::PatchField::ValueDim:
    case fb::PatchField::ValueBytes:
      return good_value_patch(entry, patch);
    case fb::PatchField::RelocationOffset:
    case fb::PatchField::RelocationLength:
      return patch.index() < entry.relocations.size() && patch.part() == 0;
    case fb::PatchField::Grid:
      return has_step && entry.steps[patch.index()].kind() == fb::StepKind::Dispatch &&
             patch.part() < 3;
    case fb::PatchField::ParamsWord:
    case fb::PatchField::ParamsLong:
      return good_params_patch(entry, patch, faults);
    case fb::PatchField::BytesMoved:
    case fb::PatchField::Flops:
      return has_step && patch.part() == 0;
    case fb::PatchField::Gemm:
      return patch.index() < gemms && patch.part() < kGemmPartCount;
  }
  return false;
}

void verify_patch_forms(const EntryParts& entry, Faults& faults) {
  const std::span<const fb::Patch> patches = patches_of(entry.entry);
  const auto order = [](const fb::Patch& patch) {
    return std::tuple(patch.field(), patch.index(), patch.part());
  };
  faults.charge((kWorkPerRecord + kWorkPerTable) * patches.size());
  for (uint32_t i = 0; i < patches.size() && !faults.full(); ++i) {
    const fb::Patch& patch = patches[i];
    if (!good_patch(entry, patch, faults) || patch.size() >= size_terms(entry.entry).size()) {
      faults.add(VerifyRule::PatchField, entry.name(), ", patch ", i, " puts size ", patch.size(),
                 " into ", patch_text(patch),
                 ", wanted one of the entry's sizes, and a field that it has and that may be free");
    } else if (!is_stored(entry.entry, patch)) {
      faults.add(VerifyRule::PatchStored, entry.name(), ", patch ", i, " is of ", patch_text(patch),
                 ", which the index does not store");
    }
    if (i == 0 || order(patches[i - 1]) < order(patch)) continue;
    faults.add(VerifyRule::PatchOrder, entry.name(), ", patches ", i - 1, " of ",
               patch_text(patches[i - 1]), " and ", i, " of ", patch_text(patch),
               " are out of order");
  }
}

std::span<const std::byte> params_of(const PlanParts& parts, const EntryParts& entry,
                                     const fb::Patch& patch) {
  if (patch.field() != fb::PatchField::ParamsWord && patch.field() != fb::PatchField::ParamsLong)
    return {};
  return parts.params_of(entry.steps[patch.index()]);
}

void verify_maximum(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  const std::vector<uint64_t> symbols = symbols_at_maximum(entry.plan, entry.entry);
  const std::vector<uint64_t> sizes = verified_sizes(entry, symbols, faults);
  if (!faults.empty()) return;
  for (const fb::Patch& patch : patches_of(entry.entry)) {
    const uint64_t found = patched_field(entry.entry, patch, params_of(parts, entry, patch));
    if (found == sizes[patch.size()] || faults.full()) continue;
    faults.add(VerifyRule::PatchMaximum, entry.name(), " has ", found, " as ", patch_text(patch),
               ", where ", size_text(entry.plan, size_terms(entry.entry), patch.size()), " is ",
               sizes[patch.size()], " at ", symbols_text(entry.plan, symbols));
  }
}

void verify_forms_at_maximum(const EntryParts& entry, Faults& faults) {
  const std::vector<uint64_t> symbols = symbols_at_maximum(entry.plan, entry.entry);
  const std::vector<uint64_t> sizes = verified_sizes(entry, symbols, faults);
  if (!faults.empty()) return;
  for (const fb::StepForm& form : forms_of(entry.entry)) {
    if (sizes[form.size()] > form.most() || faults.full()) continue;
    faults.add(VerifyRule::FormMaximum, entry.step_name(form.step()), " has a form for ",
               size_text(entry.plan, size_terms(entry.entry), form.size()), " up to ", form.most(),
               ", which is ", sizes[form.size()], " at ", symbols_text(entry.plan, symbols));
  }
}

bool good_form(const EntryParts& entry, const fb::StepForm& form) {
  const size_t terms = size_terms(entry.entry).size();
  if (form.step() >= entry.steps.size() || form.size() >= terms || form.grid_x() >= terms ||
      form.grid_y() >= terms || form.grid_z() >= terms)
    return false;
  if (form.kernel() == kSkipForm) return true;
  const fb::StepKind kind = entry.steps[form.step()].kind();
  return form.kernel() < entry.plan.kernels()->size() &&
         (kind == fb::StepKind::Dispatch || kind == fb::StepKind::Skip);
}

bool good_range(const fb::Plan& plan, const fb::SymbolRange& range) {
  if (range.symbol() >= plan.symbols()->size()) return false;
  const fb::Symbol& symbol = *plan.symbols()->Get(range.symbol());
  const auto is_good = [&](uint64_t value) {
    return is_in_range(symbol, value) && value % range.multiple_of() == 0;
  };
  return !symbol.bound().has_value() && range.multiple_of() > 0 &&
         range.multiple_of() % symbol.multiple_of() == 0 && range.minimum() <= range.maximum() &&
         is_good(range.minimum()) && is_good(range.maximum());
}

void verify_ranges(const EntryParts& entry, Faults& faults) {
  const std::span<const fb::SymbolRange> ranges = ranges_of(entry.entry);
  faults.charge(kWorkPerTable * ranges.size());
  for (uint32_t i = 0; i < ranges.size() && !faults.full(); ++i) {
    const bool ascends = i == 0 || ranges[i - 1].symbol() < ranges[i].symbol();
    if (!entry.is_init && ascends && good_range(entry.plan, ranges[i])) continue;
    faults.add(VerifyRule::RangeForm, entry.name(), ", range ", i, " is symbol ",
               ranges[i].symbol(), " from ", ranges[i].minimum(), " to ", ranges[i].maximum(),
               " in steps of ", ranges[i].multiple_of(),
               ", wanted part of the range of a free symbol, in the order of the symbols");
  }
}

}  // namespace

std::vector<uint64_t> verified_sizes(const EntryParts& entry, std::span<const uint64_t> symbols,
                                     Faults& faults) {
  const std::span<const fb::SizeTerm> terms = size_terms(entry.entry);
  std::vector<uint64_t> sizes(terms.size());
  const auto place = [&](uint32_t term) {
    return text_of(entry.name(), " at ", symbols_text(entry.plan, symbols), ": size ", term, ", ",
                   size_text(entry.plan, terms, term), ",");
  };
  if (const std::optional<SizeFault> fault = evaluate_sizes(terms, symbols, sizes)) {
    faults.add(VerifyRule::SizeValue, place(fault->term), " ", fault->why);
    return sizes;
  }
  for (const fb::Patch& patch : patches_of(entry.entry)) {
    if (sizes[patch.size()] <= patched_field_limit(patch) || faults.full()) continue;
    faults.add(VerifyRule::SizeValue, place(patch.size()), " is ", sizes[patch.size()], ", ",
               patch_text(patch), " holds ", patched_field_limit(patch), " at most");
  }
  return sizes;
}

bool same_free_dims(const EntryParts& a, const EntryParts& b) {
  const auto same_list = [&](const flatbuffers::Vector<uint32_t>& list_a,
                             const flatbuffers::Vector<uint32_t>& list_b) {
    for (uint32_t i = 0; i < list_a.size(); ++i) {
      for (uint32_t axis = 0; axis < a.value(list_a.Get(i)).dims()->size(); ++axis) {
        const auto is_free = [&](const EntryParts& entry, uint32_t value) {
          return find_patch(entry.entry, fb::PatchField::ValueDim, value, axis) != nullptr;
        };
        if (is_free(a, list_a.Get(i)) != is_free(b, list_b.Get(i)) ||
            symbol_of_dim(a.entry, list_a.Get(i), axis) !=
                symbol_of_dim(b.entry, list_b.Get(i), axis))
          return false;
      }
    }
    return true;
  };
  if (!has_free_sizes(a.entry) && !has_free_sizes(b.entry)) return true;
  return same_list(*a.entry.inputs(), *b.entry.inputs()) &&
         same_list(*a.entry.outputs(), *b.entry.outputs());
}

void verify_form_tables(const EntryParts& entry, Faults& faults) {
  const std::span<const fb::StepForm> forms = forms_of(entry.entry);
  faults.charge(kWorkPerRecord * forms.size());
  for (uint32_t i = 0; i < forms.size() && !faults.full(); ++i) {
    const fb::StepForm& form = forms[i];
    const auto order = [](const fb::StepForm& f) { return std::tuple(f.step(), f.most()); };
    if (good_form(entry, form) && (i == 0 || order(forms[i - 1]) < order(form))) continue;
    faults.add(
        VerifyRule::FormRecord, entry.name(), ", form ", i, " gives step ", form.step(), " kernel ",
        form.kernel(), " for size ", form.size(), " up to ", form.most(), " with grid sizes ",
        form.grid_x(), ", ", form.grid_y(), ", ", form.grid_z(),
        ", wanted a kernel for a dispatch or a skipped step, or none for any, and sizes that "
        "there are, ascending by step and by the size up to which a form serves");
  }
}

void verify_patches(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  verify_ranges(entry, faults);
  if (!faults.empty()) return;
  if (size_terms(entry.entry).empty() && patches_of(entry.entry).empty()) return;
  const auto* alternatives = entry.entry.alternatives();
  if (entry.is_init || (alternatives != nullptr && alternatives->size() > 0)) {
    return faults.add(VerifyRule::FreeEntry, entry.name(), " has free sizes",
                      entry.is_init ? "" : " and alternatives of steps");
  }
  verify_terms(entry, faults);
  if (faults.empty()) verify_patch_forms(entry, faults);
  if (faults.empty()) verify_maximum(parts, entry, faults);
  if (faults.empty()) verify_forms_at_maximum(entry, faults);
}

}  // namespace rlx
