// SPDX-License-Identifier: Apache-2.0
// Accessors of an open plan. What they follow was verified when the plan was opened.
#include "runtime/plan/plan_view.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/base/text.h"
#include "runtime/plan/contract.h"
#include "runtime/plan/free_sizes.h"
#include "runtime/plan/profiles.h"
#include "runtime/plan/target_row.h"

namespace rlx {
namespace {

// Structs of a FlatBuffers vector lie densely and little-endian, as this machine has them.
template <class Struct>
std::span<const Struct> structs_of(const flatbuffers::Vector<const Struct*>* vector) {
  return {reinterpret_cast<const Struct*>(vector->Data()), vector->size()};
}

}  // namespace

bool PlanView::is_for(fb::TargetKind target) const {
  return target_row(target).is_in(header_);
}

fb::TargetKind PlanView::first_target() const {
  return std::ranges::find_if(target_rows(),
                              [&](const TargetRow& row) { return row.is_in(header_); })
      ->kind;
}

std::span<const fb::Step> PlanView::steps(const fb::Entry& entry) {
  return structs_of(entry.steps());
}

const fb::Region* PlanView::region_of(const fb::Entry& entry, uint32_t step) {
  if (entry.regions() == nullptr) return nullptr;
  const auto found =
      std::find_if(entry.regions()->begin(), entry.regions()->end(),
                   [step](const fb::Region* region) { return PlanView::holds(*region, step); });
  return found == entry.regions()->end() ? nullptr : *found;
}

std::span<const fb::Relocation> PlanView::relocations(const fb::Entry& entry,
                                                      const fb::Step& step) {
  return structs_of(entry.relocations()).subspan(step.relocation_first(), step.relocation_count());
}

std::span<const uint32_t> PlanView::edges(const fb::Entry& entry, const fb::Step& step) {
  return std::span(entry.edges()->data(), entry.edges()->size())
      .subspan(step.edge_first(), step.edge_count());
}

const fb::Variant* PlanView::first_variant(const fb::Kernel& kernel, fb::TargetKind target) {
  for (const fb::Variant* variant : *kernel.variants()) {
    if (variant->target() == target) return variant;
  }
  return nullptr;
}

std::span<const std::byte> PlanView::params(const fb::Step& step) const {
  const uint64_t first = bound_from_ == nullptr ? 0 : bound_from_->params_.size();
  if (step.params_offset() < first) return bound_from_->params(step);
  return std::span(params_).subspan(step.params_offset() - first, step.params_bytes());
}

std::span<const std::byte> PlanView::code(const fb::Variant& variant) const {
  if (bound_from_ != nullptr) return bound_from_->code(variant);
  return code_section().subspan(variant.code_offset(), variant.code_bytes());
}

Sha256Digest PlanView::code_digest(const fb::Kernel& kernel, const fb::Variant& variant) const {
  return rlx::code_digest(KernelContract(kernel).of(variant), code(variant));
}

Status PlanView::read_weights(uint64_t offset_bytes, std::span<std::byte> destination) const {
  if (bound_from_ != nullptr) return bound_from_->read_weights(offset_bytes, destination);
  if (base_ != nullptr) return base_->read_weights(offset_bytes, destination);
  const bool has_files = weight_files_ != nullptr && !weight_files_->empty();
  const uint64_t most = has_files ? header_.weights_bytes : weights_bytes_;
  if (destination.size() > most || offset_bytes > most - destination.size()) {
    return {RLX_INVALID_ARGUMENT, text_of("weights have ", most, " bytes, wanted were ",
                                          destination.size(), " at ", offset_bytes)};
  }
  if (offset_bytes < weights_bytes_) {
    const uint64_t in_section =
        std::min<uint64_t>(destination.size(), weights_bytes_ - offset_bytes);
    RLX_RETURN_IF_ERROR(read_file(weights_offset_ + offset_bytes, destination.first(in_section)));
  }
  if (!has_files) return {};
  return weight_files_->read(offset_bytes, destination);
}

Status PlanView::read_text(std::span<std::byte> destination) const {
  if (destination.size() != text_.size_bytes) {
    return {RLX_INVALID_ARGUMENT, text_of("the plan's text section has ", text_.size_bytes,
                                          " bytes, wanted were ", destination.size())};
  }
  if (base_ != nullptr) return base_->read_text(destination);
  RLX_RETURN_IF_ERROR(read_file(text_.offset_bytes, destination));
  const uint64_t checksum = XXH3_64bits(destination.data(), destination.size());
  if (checksum == text_.checksum) return {};
  return {RLX_INVALID_PLAN, text_of("the plan's text section was altered: its checksum is ",
                                    checksum, ", recorded is ", text_.checksum)};
}

Status PlanView::read_file(uint64_t offset_bytes, std::span<std::byte> destination) const {
  if (file_.is_open()) return file_.read(offset_bytes, destination);
  if (!destination.empty())
    std::memcpy(destination.data(), memory_.data() + offset_bytes, destination.size());
  return {};
}

std::vector<const fb::Entry*> PlanView::bound_records() const {
  std::vector<const fb::Entry*> all = records();
  if (!bound_symbols_.empty())
    std::erase_if(all, [this](const fb::Entry* e) { return !is_made_for(*e, bound_symbols_); });
  return all;
}

std::vector<const fb::Entry*> PlanView::records(fb::TargetKind target) const {
  std::vector<const fb::Entry*> all;
  for (const EntryRecords& entry : entries_) {
    const auto& records = entry.records[static_cast<size_t>(target)];
    all.insert(all.end(), records.begin(), records.end());
  }
  if (const fb::Entry* record = init(target)) all.push_back(record);
  return all;
}

std::string_view PlanView::program_name(fb::TargetKind target) const {
  if (profile_.has_value() &&
      base_->header_.profiles[*profile_].target == static_cast<uint32_t>(target))
    return profile_name(base_->header_.profiles[*profile_]);
  const std::vector<uint32_t> profiles = profiles_of(header_, target);
  return profiles.empty() ? target_row(target).flag
                          : profile_name(header_.profiles[profiles.front()]);
}

bool PlanView::runs(const fb::Entry& record) const {
  const flatbuffers::Optional<uint32_t> profile = record.profile();
  if (!profile.has_value()) return true;
  if (profile_.has_value()) return *profile == *profile_;
  const auto target = static_cast<fb::TargetKind>(header_.profiles[*profile].target);
  return *profile == profiles_of(header_, target).front();
}

std::shared_ptr<const PlanView> PlanView::of_profile(std::shared_ptr<const PlanView> plan,
                                                     uint32_t profile) {
  std::shared_ptr<PlanView> made(new PlanView);
  made->header_ = header_of_profile(plan->header_, profile);
  const std::string_view name = profile_name(plan->header_.profiles[profile]);
  made->header_.header_checksum ^= XXH3_64bits(name.data(), name.size());
  made->index_bytes_ = plan->index_bytes_;
  made->params_ = plan->params_;
  made->debug_ = plan->debug_;
  made->weights_bytes_ = plan->weights_bytes_;
  made->text_ = plan->text_;
  made->profile_ = profile;
  const auto target = static_cast<fb::TargetKind>(plan->header_.profiles[profile].target);
  made->base_ = std::move(plan);
  made->index_ = fb::GetPlan(made->index_bytes_.data());
  made->group_records();
  made->header_.arena_bytes = 0;
  for (const fb::Entry* record : made->records(target))
    made->header_.arena_bytes = std::max(made->header_.arena_bytes, record->arena_bytes());
  return made;
}

void PlanView::group_records() {
  const auto put = [this](const fb::Entry& record, EntryRecords& place) {
    if (!runs(record)) return;
    for (size_t target = 0; target < place.records.size(); ++target) {
      if ((record.targets() >> target & 1) != 0) place.records[target].push_back(&record);
    }
  };
  std::map<std::string_view, size_t> known;
  for (const fb::Entry* record : *index_->entries()) {
    const auto [place, added] = known.try_emplace(text(record->name()), entries_.size());
    if (added) entries_.emplace_back();
    put(*record, entries_[place->second]);
    records_.push_back(record);
  }
  if (index_->inits() == nullptr) return;
  for (const fb::Entry* record : *index_->inits()) {
    put(*record, init_);
    records_.push_back(record);
  }
}

const fb::StepNote* PlanView::step_note(const fb::Entry& entry, uint32_t step) const {
  if (debug_ == nullptr || debug_->entries() == nullptr) return nullptr;
  const auto record =
      static_cast<uint32_t>(std::find(records_.begin(), records_.end(), &entry) - records_.begin());
  if (record >= debug_->entries()->size()) return nullptr;
  const auto* notes = debug_->entries()->Get(record)->steps();
  return notes == nullptr || step >= notes->size() ? nullptr : notes->Get(step);
}

StepNames PlanView::step_names(const fb::Entry& entry, uint32_t step) const {
  const fb::StepNote* note = step_note(entry, step);
  if (note == nullptr) return {};
  return {.node = text(note->node()),
          .op = text(note->op()),
          .source = text(note->source()),
          .reason = text(note->reason())};
}

const fb::Choice* PlanView::step_choice(const fb::Entry& entry, uint32_t step) const {
  const fb::StepNote* note = step_note(entry, step);
  if (note == nullptr || !note->choice() || debug_->choices() == nullptr) return nullptr;
  const uint32_t choice = *note->choice();
  return choice < debug_->choices()->size() ? debug_->choices()->Get(choice) : nullptr;
}

const char* PlanView::step_kernel_name(const fb::Step& step) const {
  switch (step.kind()) {
    case fb::StepKind::Copy:
      return "copy";
    case fb::StepKind::Fill:
      return "fill";
    case fb::StepKind::LibraryGemm:
      return "library_gemm";
    case fb::StepKind::Skip:
      return "skip";
    case fb::StepKind::Dispatch:
      break;
  }
  return kernel(step.kernel()).name()->c_str();
}

std::string PlanView::describe_step(const fb::Entry& entry, uint32_t step) const {
  const std::string_view node = step_names(entry, step).node;
  return text_of("step ", step, " (", step_kernel_name(steps(entry)[step]),
                 node.empty() ? "" : ", node ", node.empty() ? "" : quoted(node), ")");
}

}  // namespace rlx
