// SPDX-License-Identifier: Apache-2.0
// Binding of free symbols: an entry's sizes put into a copy of index and params, and the program
// that this makes verified by the rules of any other.
#include <algorithm>
#include <limits>
#include <optional>

#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"
#include "runtime/plan/plan_view.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

bool is_params_patch(const fb::Patch& patch) {
  return patch.field() == fb::PatchField::ParamsWord || patch.field() == fb::PatchField::ParamsLong;
}

// Nothing is left to do for the step: each kind has its own sign of that.
bool is_empty(const fb::Entry& entry, const fb::Step& step) {
  const std::span<const fb::Relocation> ranges = PlanView::relocations(entry, step);
  switch (step.kind()) {
    case fb::StepKind::Dispatch:
      return step.grid_x() == 0 || step.grid_y() == 0 || step.grid_z() == 0;
    case fb::StepKind::Copy:
    case fb::StepKind::Fill:
      return std::ranges::all_of(
          ranges, [](const fb::Relocation& range) { return range.length_bytes() == 0; });
    case fb::StepKind::LibraryGemm: {
      const fb::LibraryGemm& gemm = *entry.gemms()->Get(step.kernel());
      return gemm.m() == 0 || gemm.n() == 0 || gemm.batch() == 0;
    }
    case fb::StepKind::Skip:
      break;
  }
  return false;
}

// What a binding can change of an entry whose plan was verified; everything else is as it was.
void verify_bound_entry(const PlanParts& parts, const EntryParts& largest, Faults& faults) {
  const EntryParts& entry = parts.entries.front();
  verify_bound_sizes(entry, largest, faults);
  if (!faults.empty()) return;
  for (const fb::Step& step : entry.steps) {
    if (step.kind() == fb::StepKind::LibraryGemm) verify_gemm_record(entry, step.kernel(), faults);
  }
  if (!faults.empty()) return;
  verify_entry_params(parts, entry, faults);
  if (!faults.empty()) return;
  verify_value_uses(parts, entry, faults);
  if (!faults.empty()) return;
  verify_access_order(parts, entry, faults);
  if (!faults.empty()) return;
  verify_entry_grids(parts, entry, faults);
  verify_cluster_grids(parts, entry, faults);
}

Status check_symbols(const fb::Plan& plan, std::span<const uint64_t> symbols) {
  if (symbols.size() != plan.symbols()->size()) {
    return {RLX_INVALID_ARGUMENT, text_of("values of ", symbols.size(), " symbols were given, the ",
                                          "plan has ", plan.symbols()->size())};
  }
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    const fb::Symbol& symbol = *plan.symbols()->Get(i);
    if (symbol.bound().has_value() ? symbols[i] == *symbol.bound()
                                   : is_in_range(symbol, symbols[i]))
      continue;
    return {RLX_INVALID_ARGUMENT,
            text_of("symbol ", quoted(PlanView::text(symbol.name())), " was given ", symbols[i],
                    ", wanted ",
                    symbol.bound().has_value() ? text_of(*symbol.bound(), ", which the plan fixed")
                                               : symbol_range_text(symbol))};
  }
  return {};
}

Status check_range(const PlanView& plan, const fb::Entry& record,
                   std::span<const uint64_t> symbols) {
  if (is_made_for(record, symbols)) return {};
  return {RLX_INVALID_ARGUMENT,
          text_of("entry ", quoted(PlanView::text(record.name())), " was asked for at ",
                  symbols_text(plan.index(), symbols), ", its record is made for ",
                  ranges_text(plan.index(), record))};
}

}  // namespace

// Makes the view of a binding.
class PlanBinder {
 public:
  PlanBinder(const PlanView& plan, std::span<const uint64_t> symbols)
      : plan_(plan), symbols_(symbols), made_(new PlanView), faults_(1) {
    made_->bound_from_ = &plan;
    made_->bound_symbols_.assign(symbols.begin(), symbols.end());
    made_->header_ = plan.header_;
    made_->weights_bytes_ = plan.weights_bytes_;
    made_->index_ = plan.index_;
    made_->debug_ = plan.debug_;
    made_->records_ = plan.records_;
    made_->entries_ = plan.entries_;
    made_->init_ = plan.init_;
    faults_.allow_work(kWorkPerPlan + kWorkPerIndexByte * plan.index_bytes_.size());
  }

  Status bind(const RecordImage& image) {
    const EntryParts largest(*plan_.index_, *image.record, false);
    const std::vector<uint64_t> sizes = verified_sizes(largest, symbols_, faults_);
    if (faults_.empty()) {
      std::vector<std::byte>& copy = made_->bound_images_.emplace_back(image.bytes);
      auto& entry = *flatbuffers::GetMutableRoot<fb::Entry>(copy.data());
      put_in_place(*image.record, entry);
      patch(sizes, *image.record, entry);
      if (faults_.empty()) verify(largest, entry);
    }
    if (faults_.empty()) return {};
    return {RLX_INVALID_PLAN,
            text_of("plan ", quoted(plan_.name()), " at ", symbols_text(*plan_.index_, symbols_),
                    ": ", faults_.list().front().message)};
  }

  std::shared_ptr<const PlanView> take() { return std::move(made_); }

 private:
  void put_in_place(const fb::Entry& record, const fb::Entry& by) {
    const auto put_in = [&](std::vector<const fb::Entry*>& records) {
      std::replace(records.begin(), records.end(), &record, &by);
    };
    put_in(made_->records_);
    for (PlanView::EntryRecords& entry : made_->entries_) {
      for (std::vector<const fb::Entry*>& records : entry.records) put_in(records);
    }
  }

  void patch(std::span<const uint64_t> sizes, const fb::Entry& record, fb::Entry& entry) {
    const std::span<const fb::Patch> patches = patches_of(entry);
    for (const fb::Patch& patch : patches) {
      faults_.charge(kWorkPerTable);
      std::span<std::byte> params;
      if (is_params_patch(patch)) params = own_params(entry, patch.index());
      set_patched_field(entry, patch, params, sizes[patch.size()]);
    }
    is_own_.clear();
    take_forms(sizes, forms_of(record), entry);
    for (uint32_t s = 0; s < entry.steps()->size(); ++s) {
      fb::Step& step = *entry.mutable_steps()->GetMutableObject(s);
      if (is_empty(entry, step)) step.mutate_kind(fb::StepKind::Skip);
    }
  }

  // Gives steps the kernels and grids of the forms that serve these sizes, or skips them.
  void take_forms(std::span<const uint64_t> sizes, std::span<const fb::StepForm> forms,
                  fb::Entry& entry) {
    std::optional<uint32_t> taken;
    for (const fb::StepForm& form : forms) {
      faults_.charge(kWorkPerRecord);
      if (taken == form.step() || sizes[form.size()] > form.most()) continue;
      taken = form.step();
      fb::Step& step = *entry.mutable_steps()->GetMutableObject(form.step());
      if (form.kernel() == kSkipForm) {
        step.mutate_kind(fb::StepKind::Skip);
        continue;
      }
      step.mutate_kind(fb::StepKind::Dispatch);
      step.mutate_kernel(form.kernel());
      step.mutate_grid_x(grid_size(sizes[form.grid_x()]));
      step.mutate_grid_y(grid_size(sizes[form.grid_y()]));
      step.mutate_grid_z(grid_size(sizes[form.grid_z()]));
    }
  }

  // One that no grid has becomes the largest that can be told, which no target allows.
  static uint32_t grid_size(uint64_t size) {
    return static_cast<uint32_t>(std::min<uint64_t>(size, std::numeric_limits<uint32_t>::max()));
  }

  // Steps may share their params as long as they are equal.
  std::span<std::byte> own_params(fb::Entry& entry, uint32_t number) {
    fb::Step& step = *entry.mutable_steps()->GetMutableObject(number);
    std::vector<std::byte>& own = made_->params_;
    const uint64_t first = plan_.params_.size();
    if (is_own_.empty()) is_own_.resize(entry.steps()->size(), false);
    if (!is_own_[number]) {
      const std::span<const std::byte> shared = plan_.params(step);
      step.mutate_params_offset(first + own.size());
      own.insert(own.end(), shared.begin(), shared.end());
      is_own_[number] = true;
    }
    return std::span(own).subspan(step.params_offset() - first, step.params_bytes());
  }

  void verify(const EntryParts& largest, const fb::Entry& entry) {
    PlanParts parts{.header = made_->header_,
                    .plan = *made_->index_,
                    .params = plan_.params_,
                    .bound_params = made_->params_,
                    .code = plan_.code_section(),
                    .index_bytes = plan_.index_bytes_.size(),
                    .weights_section_bytes = made_->weights_bytes_};
    parts.entries.emplace_back(*made_->index_, entry, false);
    verify_bound_entry(parts, largest, faults_);
  }

  const PlanView& plan_;
  const std::span<const uint64_t> symbols_;
  std::shared_ptr<PlanView> made_;
  Faults faults_;
  std::vector<bool> is_own_;  // by step: whether it has params of its own
};

RecordImage image_of(const fb::Entry& record) {
  fb::EntryT unpacked;
  record.UnPackTo(&unpacked);
  unpacked.forms.clear();  // a binding has taken them
  flatbuffers::FlatBufferBuilder builder;
  builder.ForceDefaults(true);  // what a binding changes is stored
  builder.Finish(fb::CreateEntry(builder, &unpacked));
  const auto* first = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {.record = &record, .bytes = {first, first + builder.GetSize()}};
}

Status PlanView::bind(const PlanView& plan, std::span<const RecordImage> images,
                      std::span<const uint64_t> symbols, std::shared_ptr<const PlanView>& bound) {
  RLX_RETURN_IF_ERROR(check_symbols(*plan.index_, symbols));
  PlanBinder binder(plan, symbols);
  for (const RecordImage& image : images) {
    RLX_RETURN_IF_ERROR(check_range(plan, *image.record, symbols));
    if (has_free_sizes(*image.record)) RLX_RETURN_IF_ERROR(binder.bind(image));
  }
  bound = binder.take();
  return {};
}

Status PlanView::bind(const PlanView& plan, std::span<const fb::Entry* const> records,
                      std::span<const uint64_t> symbols, std::shared_ptr<const PlanView>& bound) {
  std::vector<RecordImage> images;
  for (const fb::Entry* record : records) images.push_back(image_of(*record));
  return bind(plan, images, symbols, bound);
}

}  // namespace rlx
