// SPDX-License-Identifier: Apache-2.0
// The plan verifier: the order of its rule groups and the names of places.
#include "runtime/verify/verify.h"

#include <iterator>

#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

constexpr VerifyRuleText kRules[] = {
#define RLX_VERIFY_RULE(name, code, law) {#name, code, law},
#include "runtime/verify/verify_rules.def"
#undef RLX_VERIFY_RULE
};

// Structs of a FlatBuffers vector lie densely and little-endian, as this machine has them.
template <class Struct>
std::span<const Struct> structs_of(const flatbuffers::Vector<const Struct*>* vector) {
  return {reinterpret_cast<const Struct*>(vector->Data()), vector->size()};
}

}  // namespace

const VerifyRuleText& rule_text(VerifyRule rule) {
  return kRules[static_cast<size_t>(rule)];
}
std::span<const VerifyRuleText> all_verify_rules() {
  return kRules;
}

void Faults::refuse_work() {
  add(VerifyRule::WorkBudget, "to verify the plan takes more work than its size allows (",
      work_.allowed, " units): its records are crossed in a way that no regular plan's are");
  is_spent_ = true;
}

EntryParts::EntryParts(const fb::Plan& plan, const fb::Entry& entry, bool is_init)
    : plan(plan),
      entry(entry),
      is_init(is_init),
      steps(structs_of(entry.steps())),
      relocations(structs_of(entry.relocations())),
      edges(entry.edges()->data(), entry.edges()->size()) {}

std::string EntryParts::name() const {
  return is_init ? "the init entry" : text_of("entry ", quoted(PlanView::text(entry.name())));
}

std::string EntryParts::step_name(size_t step) const {
  return step_name(step, steps[step]);
}

std::string EntryParts::step_name(size_t step, const fb::Step& record) const {
  std::string what = "copy";
  if (record.kind() == fb::StepKind::Fill) what = "fill";
  if (record.kind() == fb::StepKind::Skip) what = "skip";
  if (record.kind() == fb::StepKind::LibraryGemm) what = "library gemm";
  if (record.kind() == fb::StepKind::Dispatch) {
    const bool known = record.kernel() < plan.kernels()->size();
    what = known ? std::string(PlanView::text(plan.kernels()->Get(record.kernel())->name()))
                 : text_of("kernel ", record.kernel());
  }
  return text_of(name(), ", step ", step, " (", what, ")");
}

std::string StepPlace::name() const {
  return entry.step_name(number, step) + (is_alternative ? ", alternative"
                                          : is_form      ? ", form"
                                                         : "");
}

std::vector<StepPlace> all_places(const EntryParts& entry) {
  std::vector<StepPlace> places;
  places.reserve(entry.steps.size());
  for (size_t s = 0; s < entry.steps.size(); ++s)
    places.push_back({.entry = entry, .number = s, .step = entry.steps[s]});
  if (entry.entry.alternatives() == nullptr) return places;
  for (const fb::Alternative* alternative : *entry.entry.alternatives()) {
    places.push_back({.entry = entry,
                      .number = alternative->step(),
                      .step = *alternative->other(),
                      .is_alternative = true});
  }
  return places;
}

std::string EntryParts::short_value_name(size_t index) const {
  return text_of("value ", index, " ",
                 quoted(PlanView::text(value(static_cast<uint32_t>(index)).name())));
}

std::string EntryParts::value_name(size_t index) const {
  return text_of(name(), ", ", short_value_name(index));
}

void verify_content(PlanParts& parts, Faults& faults) {
  verify_tables(parts, faults);
  if (!faults.empty()) return;
  for (const fb::Entry* entry : *parts.plan.entries())
    parts.entries.emplace_back(parts.plan, *entry, false);
  if (parts.plan.inits() != nullptr) {
    for (const fb::Entry* init : *parts.plan.inits())
      parts.entries.emplace_back(parts.plan, *init, true);
  }
  for (const EntryParts& entry : parts.entries) verify_entry_tables(parts, entry, faults);
  if (!faults.empty()) return;
  verify_sizes(parts, faults);
  if (!faults.empty()) return;
  // Params before lifetimes and order: these take a relocation's range as the bytes that its step
  // touches.
  verify_params(parts, faults);
  if (!faults.empty()) return;
  for (const EntryParts& entry : parts.entries) verify_patches(parts, entry, faults);
  if (!faults.empty()) return;
  parts.generated = generated_weights(parts, faults);
  if (!faults.empty()) return;
  for (const EntryParts& entry : parts.entries) verify_lifetimes(parts, entry, faults);
  if (!faults.empty()) return;
  for (const EntryParts& entry : parts.entries) verify_access_order(parts, entry, faults);
  verify_inits_exist(parts, faults);
  if (!faults.empty()) return;
  verify_limits(parts, faults);
  verify_completeness(parts, faults);
  if (!faults.empty()) return;
  verify_code(parts, faults);
}

}  // namespace rlx
