// SPDX-License-Identifier: Apache-2.0
// Tables of the kernels that compute one kind of problem: each row is an offer, asked alike by
// lowerings and by the passes that prepare for them. A new way to compute the problem is a row.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/lowering/forms.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/support/check.h"

namespace rlx {

// Why a kernel that reads a size as a number is not taken where the size is free.
inline constexpr const char* kFreeSizeRefusal = "a size that the run gives";

// What a row's estimate is worth.
enum class Estimate : uint8_t {
  Model,  // the time that a model fitted to measurements expects
  Bound,  // the time that arithmetic and memory take at least: nobody has fitted a model
};

// A table is ordered by rank: of the rows that take a problem, those of the lowest rank are
// compared by time, and of equal times the first is taken. So a row of a rank of its own is taken
// wherever it fits, which its comment explains. What the user prefers comes before all others.
// A family may add columns to its rows; what emits needs no LowerContext where there is no node.
template <typename Problem, typename Emitter = LowerContext>
struct Offer {
  std::optional<KernelId> kernel;  // none: another table or the library computes it
  std::string_view form = {};      // tells a kernel's rows apart, or names what stands for a kernel
  uint8_t rank = 0;
  Estimate estimate = Estimate::Model;
  // Why it does not take the problem; empty where it does. That the target has no such kernel, or
  // that the user left it out, is not asked here.
  std::string (*refusal)(const OfferContext& at, const Problem& problem) = nullptr;
  // Precondition of both: no refusal.
  double (*microseconds)(const OfferContext& at, const Problem& problem) = nullptr;
  bool (*emit)(Emitter& ctx, const Problem& problem) = nullptr;
  // What devices it is for, if not for all: no other hears of it.
  bool (*is_for)(const DeviceModel& device) = nullptr;
  // The kernel takes sizes that a run gives; others are not asked where a problem has one.
  bool takes_free_sizes = false;
};

// Whether sizes of a problem depend on the run, for tables whose rows do not all take such. By
// default the lowering finds that out when it needs a number.
template <typename Problem>
bool has_free_sizes(const Problem&) {
  return false;
}

// The least time of a step: of its bytes at the memory's speed, or of its arithmetic by every
// multiprocessor at `products` multiply-adds per microsecond each.
struct StepWork {
  uint64_t bytes = 0;
  uint64_t flops = 0;
};
double bound_microseconds(const DeviceModel& device, const StepWork& work, double products);
// The same by threads, without matrix units.
double thread_bound_microseconds(const DeviceModel& device, const StepWork& work);
// Of a step that reads one value and writes the other, at the largest sizes.
double copy_microseconds(const DeviceModel& device, const TensorType& from, const TensorType& to);

// "matmul_mma", "conv_mma ring", "library".
std::string offer_name(const std::optional<KernelId>& kernel, std::string_view form);
// Why a row is not asked at all; empty where it is.
std::string offer_exclusion(const OfferContext& at, const std::optional<KernelId>& kernel,
                            std::string_view form);

// What may be left out of a table: each row, and each kernel with all its forms.
template <typename Row>
std::vector<std::string> offer_names(std::span<const Row> table) {
  std::vector<std::string> names;
  for (const Row& row : table) {
    names.push_back(offer_name(row.kernel, row.form));
    if (row.kernel && !row.form.empty()) names.push_back(offer_name(row.kernel, {}));
  }
  return names;
}

template <typename Row>
struct Choice {
  const Row* row = nullptr;  // none takes the problem
  double microseconds = 0;
  std::vector<OfferNote> notes;  // of every row
};

template <typename Row, typename Problem>
Choice<Row> choose(std::span<const Row> table, const OfferContext& at, const Problem& problem) {
  Choice<Row> choice;
  size_t taken = 0;
  bool has_preferred = false;
  for (const Row& row : table) {
    if (row.is_for != nullptr && !row.is_for(at.device())) continue;
    OfferNote note{.kernel = offer_name(row.kernel, row.form),
                   .refusal = offer_exclusion(at, row.kernel, row.form),
                   .is_bound = row.estimate == Estimate::Bound,
                   .rank = row.rank};
    if (note.refusal.empty() && !row.takes_free_sizes && has_free_sizes(problem))
      note.refusal = kFreeSizeRefusal;
    if (note.refusal.empty()) note.refusal = row.refusal(at, problem);
    if (note.refusal.empty()) {
      note.microseconds = row.microseconds(at, problem);
      const bool is_first = choice.row == nullptr;
      const bool is_preferred = at.is_preferred(note.kernel);
      RLX_CHECK(is_first || row.rank >= choice.row->rank, "a table of offers is ordered by rank");
      const bool is_faster = !is_first && is_preferred == has_preferred &&
                             row.rank == choice.row->rank &&
                             note.microseconds < choice.microseconds;
      if (is_first || is_faster || (is_preferred && !has_preferred)) {
        has_preferred = is_preferred;
        choice.row = &row;
        choice.microseconds = note.microseconds;
        taken = choice.notes.size();
      }
    }
    choice.notes.push_back(std::move(note));
  }
  if (choice.row != nullptr) choice.notes[taken].taken = true;
  return choice;
}

// Reports that no row takes the node's problem, with every row's refusal.
bool fail_for_offers(LowerContext& ctx, const std::vector<OfferNote>& notes);
// Notes the choice on the step of the kernel, or else on the first of the steps from `first_step`
// on.
void note_offers(Program& program, size_t first_step, const std::optional<KernelId>& kernel,
                 std::vector<OfferNote> notes);

// Whether one row may stand for the other after passes have prepared for that: as long as they want
// nothing of places and layouts.
template <typename Row>
bool may_stand_for(const Row&, const Row&) {
  return true;
}

// Takes the row that a tuner found to be the fastest of those that may stand for the chosen one.
template <typename Row>
void choose_tuned(LowerContext& ctx, std::span<const Row> table, Choice<Row>& choice) {
  const auto taken = std::ranges::find_if(choice.notes, &OfferNote::taken);
  if (ctx.is_preferred(taken->kernel)) return;
  std::vector<TimedForm> forms;
  std::vector<OfferNote*> notes;
  std::vector<const Row*> rows;
  size_t best = 0;
  for (OfferNote& note : choice.notes) {
    const auto row = std::ranges::find_if(
        table, [&](const Row& each) { return offer_name(each.kernel, each.form) == note.kernel; });
    if (!note.refusal.empty() || !may_stand_for(*row, *choice.row)) continue;
    if (note.taken) best = forms.size();
    forms.push_back({.name = note.kernel, .microseconds = note.microseconds});
    notes.push_back(&note);
    rows.push_back(&*row);
  }
  const std::string chooser = "kernel of " + offer_name(table.front().kernel, table.front().form);
  const size_t tuned = take_form(ctx, chooser, forms, best);
  notes[best]->taken = false;
  notes[tuned]->taken = true;
  choice.row = rows[tuned];
}

// Chooses, then emits once.
template <typename Row, typename Problem>
bool lower_by_offers(LowerContext& ctx, std::span<const Row> table, const Problem& problem) {
  Choice<Row> choice = choose(table, ctx, problem);
  if (choice.row == nullptr) return fail_for_offers(ctx, choice.notes);
  choose_tuned(ctx, table, choice);
  const size_t first_step = ctx.program().steps.size();
  if (!choice.row->emit(ctx, problem)) return false;
  note_offers(ctx.program(), first_step, choice.row->kernel, std::move(choice.notes));
  return true;
}

}  // namespace rlx
