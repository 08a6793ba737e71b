// SPDX-License-Identifier: Apache-2.0
// Facts of the entries: values with lifetimes in waves, steps with their accesses.
#include "tools/inspect/facts.h"

#include <span>

#include "runtime/base/dtype.h"
#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"
#include "runtime/plan/gemm_text.h"
#include "runtime/plan/profiles.h"
#include "runtime/plan/target_row.h"
#include "schema/rounding.h"
#include "tools/inspect/format.h"

namespace rlx::inspect {
namespace {

constexpr std::string_view kSegmentNames[] = {"weights", "state", "arena", "io", "index_errors"};
constexpr std::string_view kModeNames[] = {"none", "read", "write", "read-write"};
constexpr std::string_view kStepKindNames[] = {"dispatch", "copy", "fill", "library-gemm", "skip"};

// Free dims by their symbols, unless the plan is bound.
std::string type_text(const PlanView& plan, const fb::Entry& entry, uint32_t index) {
  const fb::Value& value = PlanView::value(entry, index);
  if (!has_free_sizes(entry) || !plan.bound_symbols().empty())
    return tensor_text(value.dtype(), {value.dims()->data(), value.dims()->size()});
  return dtype_row(value.dtype())->name + dims_text(plan.index(), entry, index);
}

ValueFacts value_facts(const PlanView& plan, const fb::Entry& entry, uint32_t index) {
  const fb::Value& value = PlanView::value(entry, index);
  const std::span<const fb::Step> steps = PlanView::steps(entry);
  const auto wave_of = [&](uint32_t step) { return step < steps.size() ? steps[step].wave() : 0; };
  ValueFacts facts{.index = index,
                   .name = std::string(PlanView::text(value.name())),
                   .type = type_text(plan, entry, index),
                   .segment = segment_name(value.segment()),
                   .offset_bytes = value.offset_bytes(),
                   .size_bytes = value.size_bytes(),
                   .first_step = value.first_step(),
                   .last_step = value.last_step(),
                   .first_wave = wave_of(value.first_step()),
                   .last_wave = wave_of(value.last_step())};
  if (const auto alias = value.alias_of()) {
    facts.alias_of = std::string(PlanView::text(PlanView::value(entry, *alias).name()));
  }
  return facts;
}

AccessFacts access_facts(const PlanView& plan, const fb::Entry& entry,
                         const fb::Relocation& relocation) {
  const fb::Value& value = PlanView::value(entry, relocation.value());
  return {.value = std::string(PlanView::text(value.name())),
          .type = type_text(plan, entry, relocation.value()),
          .segment = segment_name(value.segment()),
          .mode = kModeNames[static_cast<size_t>(relocation.mode())],
          .offset_bytes = relocation.offset_bytes(),
          .length_bytes = relocation.length_bytes(),
          .segment_offset_bytes = value.offset_bytes() + relocation.offset_bytes(),
          .params_position = relocation.position()};
}

void add_kernel(const PlanView& plan, const fb::Step& step, StepFacts& facts) {
  if (step.kind() != fb::StepKind::Dispatch) return;
  const fb::Kernel& kernel = plan.kernel(step.kernel());
  facts.kernel = PlanView::text(kernel.name());
  facts.specialization = std::string(PlanView::text(kernel.specialization()));
  facts.grid[0] = step.grid_x();
  facts.grid[1] = step.grid_y();
  facts.grid[2] = step.grid_z();
  facts.params_bytes = step.params_bytes();
  if (kernel.variants()->size() == 0) return;
  const fb::Variant& variant = *kernel.variants()->Get(0);
  facts.workgroup[0] = variant.workgroup_x();
  facts.workgroup[1] = variant.workgroup_y();
  facts.workgroup[2] = variant.workgroup_z();
}

std::string microseconds_text(double microseconds) {
  return three_digits(microseconds) + " us";
}

std::optional<GemmFacts> gemm_facts(const fb::Entry& entry, const fb::Step& step) {
  if (step.kind() != fb::StepKind::LibraryGemm) return std::nullopt;
  const fb::LibraryGemm& gemm = *entry.gemms()->Get(step.kernel());
  GemmFacts facts{.problem = gemm_text(gemm), .workspace_bytes = gemm.workspace_bytes()};
  if (gemm.algorithm() != nullptr && gemm.algorithm()->size() > 0) {
    facts.tuned = microseconds_text(gemm.tuned_microseconds()) + " on " +
                  std::string(PlanView::text(gemm.tuned_device())) + ", driver " +
                  std::string(PlanView::text(gemm.tuned_driver())) + ", " +
                  std::string(PlanView::text(gemm.tuned_library()));
  }
  return facts;
}

std::string alternative_text(const PlanView& plan, const fb::Entry& entry, uint32_t position) {
  if (entry.alternatives() == nullptr) return {};
  for (const fb::Alternative* alternative : *entry.alternatives()) {
    if (alternative->step() != position) continue;
    std::string text = plan.step_kernel_name(*alternative->other());
    if (alternative->other_microseconds() > 0) {
      text += ", " + microseconds_text(alternative->other_microseconds()) + " against " +
              microseconds_text(alternative->step_microseconds());
    }
    return text;
  }
  return {};
}

std::vector<std::string> form_texts(const PlanView& plan, const fb::Entry& entry,
                                    uint32_t position) {
  std::vector<std::string> texts;
  for (const fb::StepForm& form : forms_of(entry, position)) {
    std::string text = "where " + size_text(plan.index(), size_terms(entry), form.size()) +
                       " is at most " + grouped(form.most()) + ": ";
    if (form.kernel() == kSkipForm) {
      texts.push_back(text + "skipped");
      continue;
    }
    const fb::Kernel& kernel = plan.kernel(form.kernel());
    text += PlanView::text(kernel.name());
    const std::string_view specialization = PlanView::text(kernel.specialization());
    texts.push_back(text + (specialization.empty() ? "" : ", " + std::string(specialization)));
  }
  return texts;
}

std::vector<OfferFacts> offer_facts(const fb::Choice* choice) {
  std::vector<OfferFacts> offers;
  if (choice == nullptr || choice->offers() == nullptr) return offers;
  for (const fb::Offer* offer : *choice->offers()) {
    offers.push_back({.kernel = std::string(PlanView::text(offer->kernel())),
                      .refusal = std::string(PlanView::text(offer->refusal())),
                      .microseconds = offer->microseconds(),
                      .is_bound = offer->is_bound(),
                      .rank = offer->rank(),
                      .taken = offer->taken()});
  }
  return offers;
}

StepFacts step_facts(const PlanView& plan, const fb::Entry& entry, uint32_t position) {
  const fb::Step& step = PlanView::steps(entry)[position];
  StepFacts facts{.position = position,
                  .wave = step.wave(),
                  .kind = kStepKindNames[static_cast<size_t>(step.kind())],
                  .bytes_moved = step.bytes_moved(),
                  .flops = step.flops(),
                  .names = plan.step_names(entry, position),
                  .offers = offer_facts(plan.step_choice(entry, position)),
                  .gemm = gemm_facts(entry, step),
                  .alternative = alternative_text(plan, entry, position),
                  .forms = form_texts(plan, entry, position)};
  add_kernel(plan, step, facts);
  for (const fb::Relocation& relocation : PlanView::relocations(entry, step)) {
    facts.accesses.push_back(access_facts(plan, entry, relocation));
  }
  const std::span<const uint32_t> edges = PlanView::edges(entry, step);
  facts.edges.assign(edges.begin(), edges.end());
  return facts;
}

// "vulkan, cuda"; of a record that is a profile's, its name.
std::string target_names(const PlanView& plan, const fb::Entry& entry) {
  const uint32_t targets = entry.targets();
  if (const auto profile = entry.profile())
    return std::string(profile_name(plan.header().profiles[*profile]));
  std::string names;
  for (const TargetRow& target : target_rows()) {
    if ((targets & target.mask()) == 0) continue;
    names += (names.empty() ? "" : ", ") + std::string(target.flag);
  }
  return names;
}

EntryFacts facts_of(const PlanView& plan, const fb::Entry& entry, bool is_init) {
  EntryFacts facts{.name = std::string(PlanView::text(entry.name())),
                   .targets = target_names(plan, entry),
                   .ranges = ranges_text(plan.index(), entry),
                   .is_init = is_init,
                   .wave_count = entry.wave_count(),
                   .arena_bytes = entry.arena_bytes(),
                   .lower_bound_bytes = entry.arena_lower_bound(),
                   .inputs = {entry.inputs()->begin(), entry.inputs()->end()},
                   .outputs = {entry.outputs()->begin(), entry.outputs()->end()}};
  for (uint32_t i = 0; i < entry.values()->size(); ++i) {
    facts.values.push_back(value_facts(plan, entry, i));
    if (entry.values()->Get(i)->segment() == fb::Segment::Arena) {
      facts.unplanned_bytes += round_up(facts.values.back().size_bytes, kArenaAlignmentBytes);
    }
  }
  for (uint32_t i = 0; i < PlanView::steps(entry).size(); ++i) {
    facts.steps.push_back(step_facts(plan, entry, i));
  }
  if (entry.regions() != nullptr) {
    for (const fb::Region* region : *entry.regions()) {
      RegionFacts& known = facts.regions.emplace_back();
      known = {.name = std::string(PlanView::text(region->name())),
               .first_step = region->first_step(),
               .step_count = region->step_count(),
               .most_trips = region->most_trips()};
      if (const auto word = region->word()) known.word = facts.values[*word].name;
    }
  }
  return facts;
}

}  // namespace

std::string RegionFacts::text() const {
  const bool is_branch = most_trips == 1;
  std::string text = (is_branch ? "branch " : "loop ") + name_text(name) + ": steps " +
                     std::to_string(first_step) + " to " +
                     std::to_string(first_step + step_count - 1);
  if (!is_branch) text += (word.empty() ? ", " : ", at most ") + count_text(most_trips, "trip");
  if (!word.empty()) text += (is_branch ? ", where " : ", while ") + name_text(word);
  return text;
}

std::string OfferFacts::text() const {
  if (!refusal.empty()) return refusal;
  const std::string time = microseconds_text(microseconds);
  return (is_bound ? "at least " + time : time + " expected") + (taken ? ", taken" : "");
}

double EntryFacts::ratio() const {
  if (lower_bound_bytes == 0) return 1.0;
  return static_cast<double>(arena_bytes) / static_cast<double>(lower_bound_bytes);
}

std::vector<EntryFacts> entry_facts(const PlanView& plan) {
  std::vector<EntryFacts> all;
  const auto* inits = plan.index().inits();
  for (const fb::Entry* record : plan.bound_records()) {
    const bool is_init =
        inits != nullptr && std::find(inits->begin(), inits->end(), record) != inits->end();
    all.push_back(facts_of(plan, *record, is_init));
  }
  return all;
}

std::string_view made_for(const PlanProfile& profile) {
  return profile.device_type == static_cast<uint32_t>(DeviceType::Processor) ? "processors" : "";
}

std::string_view segment_name(fb::Segment segment) {
  return kSegmentNames[static_cast<size_t>(segment)];
}

std::vector<std::string_view> feature_names(uint64_t mask) {
  std::vector<std::string_view> names;
#define RLX_FEATURE(name, bit, text) \
  if ((mask >> (bit)) & 1) names.push_back(#name);
#include "schema/features.def"
#undef RLX_FEATURE
  return names;
}

}  // namespace rlx::inspect
