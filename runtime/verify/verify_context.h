// SPDX-License-Identifier: Apache-2.0
// What the rule groups of the verifier share: the parts of a plan, the list of faults, and the
// names of places in messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"
#include "runtime/plan/plan_view.h"
#include "runtime/verify/verify.h"
#include "runtime/verify/verify_work.h"

namespace rlx {

// The faults found, and the work done to find them.
class Faults {
 public:
  explicit Faults(uint32_t max_faults) : max_faults_(max_faults) {}

  // The message is put together only here, so checks that pass cost no strings.
  template <class... Pieces>
  void add(VerifyRule rule, const Pieces&... pieces) {
    if (full()) return;
    list_.push_back({rule, text_of(rule_text(rule).code, ": ", pieces...)});
  }
  // No more are wanted, or the work is spent: whoever loops stops.
  [[nodiscard]] bool full() const { return list_.size() >= max_faults_ || is_spent_; }
  [[nodiscard]] bool empty() const { return list_.empty(); }
  [[nodiscard]] std::vector<VerifyFault>& list() { return list_; }

  // Without a call, any work is allowed.
  void allow_work(uint64_t units) { work_.allowed = units; }
  // Counts work before or after it is done. Past what is allowed that is a fault, the last one.
  void charge(uint64_t units) {
    work_.used += units;
    if (work_.used > work_.allowed && !is_spent_) refuse_work();
  }
  [[nodiscard]] const VerifyWork& work() const { return work_; }

 private:
  void refuse_work();

  uint32_t max_faults_;
  std::vector<VerifyFault> list_;
  VerifyWork work_{.allowed = std::numeric_limits<uint64_t>::max()};
  bool is_spent_ = false;
};

// An entry with its records as spans, and the names of its places.
class EntryParts {
 public:
  EntryParts(const fb::Plan& plan, const fb::Entry& entry, bool is_init);

  const fb::Plan& plan;
  const fb::Entry& entry;
  const bool is_init;
  const std::span<const fb::Step> steps;
  const std::span<const fb::Relocation> relocations;
  const std::span<const uint32_t> edges;

  [[nodiscard]] uint32_t value_count() const { return entry.values()->size(); }
  [[nodiscard]] const fb::Value& value(uint32_t index) const { return *entry.values()->Get(index); }
  // Valid once rule group 2 has passed.
  [[nodiscard]] std::span<const fb::Relocation> relocations_of(const fb::Step& step) const {
    return relocations.subspan(step.relocation_first(), step.relocation_count());
  }
  [[nodiscard]] std::span<const uint32_t> edges_of(const fb::Step& step) const {
    return edges.subspan(step.edge_first(), step.edge_count());
  }

  [[nodiscard]] uint32_t region_count() const {
    return entry.regions() == nullptr ? 0 : entry.regions()->size();
  }
  [[nodiscard]] const fb::Region& region(uint32_t index) const {
    return *entry.regions()->Get(index);
  }

  [[nodiscard]] bool serves(fb::TargetKind target) const {
    return (entry.targets() >> static_cast<uint32_t>(target) & 1) != 0;
  }
  [[nodiscard]] std::string name() const;                  // entry "main"
  [[nodiscard]] std::string step_name(size_t step) const;  // entry "main", step 12 (matmul)
  [[nodiscard]] std::string step_name(size_t step, const fb::Step& record) const;
  [[nodiscard]] std::string value_name(size_t value) const;        // entry "main", value 3 "h"
  [[nodiscard]] std::string short_value_name(size_t value) const;  // value 3 "h"
};

// A step, or the alternative of one, or one with the kernel of a form.
struct StepPlace {
  const EntryParts& entry;
  size_t number;
  const fb::Step& step;
  bool is_alternative = false;
  bool is_form = false;

  [[nodiscard]] std::string name() const;  // entry "main", step 12 (matmul), alternative
};

// The steps of an entry, then its alternatives. Valid once rule group 2 has passed.
std::vector<StepPlace> all_places(const EntryParts& entry);

// Calls visit(place) for each form of a step that runs: a dispatch of its kernel, but not with its
// grid. Valid once rule group 2 has passed.
template <typename Visit>
void for_each_form(const EntryParts& entry, const Visit& visit) {
  for (const fb::StepForm& form : forms_of(entry.entry)) {
    if (form.kernel() == kSkipForm) continue;
    fb::Step step = entry.steps[form.step()];
    step.mutate_kind(fb::StepKind::Dispatch);
    step.mutate_kernel(form.kernel());
    visit(StepPlace{.entry = entry, .number = form.step(), .step = step, .is_form = true});
  }
}

// The generated weights of a plan that are not empty, which share no bytes with any other, and who
// needs them filled: entries that read them, states that begin as one.
class GeneratedWeights {
 public:
  GeneratedWeights() = default;
  // Valid once the weights have passed rule group 3.
  GeneratedWeights(const fb::Plan& plan, Faults& faults);

  struct Weight {
    uint64_t begin;
    uint64_t end;
    uint32_t index;         // of the plan's weights
    uint32_t programs = 0;  // where it is needed (runtime/plan/profiles.h)
  };
  [[nodiscard]] const std::vector<Weight>& list() const { return weights_; }
  // Whether one of them holds the value, or shares bytes with it.
  [[nodiscard]] bool hold(const fb::Value& value, Faults& faults) const;
  [[nodiscard]] bool overlap(const fb::Value& value, Faults& faults) const;
  // Notes that entries of these programs read the value, which lies in one weight.
  void need(const fb::Value& value, uint32_t programs, Faults& faults);

 private:
  // The last one that begins at or before a byte; weights_.size() if there is none.
  [[nodiscard]] size_t last_before(uint64_t byte, Faults& faults) const;

  std::vector<Weight> weights_;  // ascending
};

struct PlanParts {
  const PlanHeader& header;
  const fb::Plan& plan;
  std::span<const std::byte> params;
  std::span<const std::byte> bound_params;  // those that a binding made; they count on from params
  std::span<const std::byte> code;
  uint64_t index_bytes = 0;
  uint64_t weights_section_bytes = 0;
  std::vector<EntryParts> entries;  // all records, those of init last
  GeneratedWeights generated;       // from rule group 4 on

  // Valid once rule group 2 has passed.
  [[nodiscard]] std::span<const std::byte> params_of(const fb::Step& step) const {
    const bool is_bound = step.params_offset() >= params.size();
    return is_bound
               ? bound_params.subspan(step.params_offset() - params.size(), step.params_bytes())
               : params.subspan(step.params_offset(), step.params_bytes());
  }
  [[nodiscard]] std::span<const std::byte> code_of(const fb::Variant& variant) const {
    return code.subspan(variant.code_offset(), variant.code_bytes());
  }
};

inline std::string kernel_name(const fb::Plan& plan, uint32_t kernel) {
  return text_of("kernel ", kernel, " ",
                 quoted(PlanView::text(plan.kernels()->Get(kernel)->name())));
}

inline std::span<const uint64_t> dims_of(const flatbuffers::Vector<uint64_t>* dims) {
  return {reinterpret_cast<const uint64_t*>(dims->Data()), dims->size()};
}

// `length` bytes at `offset` lie in `size` bytes.
inline bool range_inside(uint64_t offset, uint64_t length, uint64_t size) {
  return length <= size && offset <= size - length;
}

// Group 1. The header alone, then the sections against their bytes.
void verify_header(const PlanHeader& header, uint64_t file_bytes, Faults& faults);
void verify_section_checksum(const PlanSection& section, uint64_t actual, Faults& faults);
std::string_view section_name(uint32_t kind);
void verify_header_profiles(const PlanHeader& header, Faults& faults);  // group 15

// Group 2. The first two make the tables of index and debug notes safe to walk, each of them once;
// the others make every index in them safe to follow.
void verify_index_structure(std::span<const std::byte> index, Faults& faults);
void verify_debug_structure(std::span<const std::byte> debug, Faults& faults);
void verify_tables(const PlanParts& parts, Faults& faults);
void verify_entry_tables(const PlanParts& parts, const EntryParts& entry, Faults& faults);
// Of group 15: which profile runs an entry; part of verify_entry_tables.
void verify_record_profile(const PlanParts& parts, const EntryParts& entry, Faults& faults);
// Of a step or alternative: kind, kernel or gemm, and the lists that it points into.
void verify_step_record(const PlanParts& parts, const StepPlace& place, Faults& faults);
// The forms of an entry's steps, of group 14; part of verify_entry_tables.
void verify_form_tables(const EntryParts& entry, Faults& faults);
// Gemms and alternatives of an entry; part of verify_entry_tables.
void verify_gemm_tables(const PlanParts& parts, const EntryParts& entry, Faults& faults);
// Of group 16 all but what verify_access_order finds; part of verify_entry_tables.
void verify_region_tables(const PlanParts& parts, const EntryParts& entry, Faults& faults);

// Groups 3 to 12, each relying on those before it.
void verify_sizes(const PlanParts& parts, Faults& faults);
// Of a binding: values whose sizes it gives have the bytes of their dims, and no more than in
// `largest`, where the entry was verified. So they stay inside of what holds them, and those that
// live at once share no bytes.
void verify_bound_sizes(const EntryParts& entry, const EntryParts& largest, Faults& faults);
GeneratedWeights generated_weights(const PlanParts& parts, Faults& faults);
void verify_lifetimes(const PlanParts& parts, const EntryParts& entry, Faults& faults);
// Part of it: steps use values while these live, and write to no inputs and weights.
void verify_value_uses(const PlanParts& parts, const EntryParts& entry, Faults& faults);
void verify_access_order(const PlanParts& parts, const EntryParts& entry,
                         Faults& faults);                         // groups 5 and 6
void verify_inits_exist(const PlanParts& parts, Faults& faults);  // rule GeneratedCovered
void verify_params(const PlanParts& parts, Faults& faults);
// Parts of verify_params.
void verify_entry_params(const PlanParts& parts, const EntryParts& entry, Faults& faults);
void verify_range(const StepPlace& place, const fb::Relocation& relocation, Faults& faults);
void verify_maps(const PlanParts& parts, uint32_t kernel, Faults& faults);
// What a dispatch makes of maps with sizes; `sizes` are its kernel's there.
void verify_step_maps(const PlanParts& parts, const StepPlace& place,
                      std::span<const uint64_t> sizes, Faults& faults);
// What a kernel declares of its params besides pointers, and what a dispatch has there.
void verify_word_forms(const PlanParts& parts, uint32_t kernel, Faults& faults);
void verify_words(const PlanParts& parts, const StepPlace& place, Faults& faults);
// What the blob holds in the place of a pointer. 0 where that is outside, which other rules tell.
uint64_t addend_of(const PlanParts& parts, const fb::Step& step, const fb::Relocation& relocation);
void verify_gemm(const StepPlace& place, Faults& faults);
// Of a gemm alone, without the step that runs it; part of verify_gemm_tables.
void verify_gemm_record(const EntryParts& entry, uint32_t gemm, Faults& faults);
void verify_alternatives(const EntryParts& entry, Faults& faults);
void verify_index_errors(const EntryParts& entry, Faults& faults);
// Whether words of a kernel's params are numbers that it declares, counts or plain ones. Valid once
// verify_word_forms() has passed.
bool are_numbers(const fb::Kernel& kernel, uint32_t position, uint32_t words);
// Group 14, once those up to 7 have passed.
void verify_patches(const PlanParts& parts, const EntryParts& entry, Faults& faults);
// The sizes of an entry at values of the plan's symbols; a fault where one has no value or does not
// fit the field that it goes into.
std::vector<uint64_t> verified_sizes(const EntryParts& entry, std::span<const uint64_t> symbols,
                                     Faults& faults);
// Whether inputs and outputs of two records of one entry have the same free dims.
bool same_free_dims(const EntryParts& a, const EntryParts& b);
// Whether two ranges of values share bytes of a segment.
bool same_memory(const EntryParts& entry, const fb::Relocation& a, const fb::Relocation& b);
// What the address of a relocation is known to be a multiple of.
uint64_t address_alignment(const EntryParts& entry, const fb::Relocation& relocation);
void verify_limits(const PlanParts& parts, Faults& faults);
void verify_records(const PlanParts& parts, Faults& faults);  // part of verify_completeness
void verify_entry_grids(const PlanParts& parts, const EntryParts& entry,
                        Faults& faults);                           // part of verify_limits
void verify_profile_code(const PlanParts& parts, Faults& faults);  // part of verify_completeness
void verify_code(const PlanParts& parts, Faults& faults);
void verify_cluster_grids(const PlanParts& parts, const EntryParts& entry,
                          Faults& faults);  // part of verify_code
void verify_completeness(const PlanParts& parts, Faults& faults);

// Groups 2 (indices) to 12 in order; stops after the first group that finds a fault.
void verify_content(PlanParts& parts, Faults& faults);

}  // namespace rlx
