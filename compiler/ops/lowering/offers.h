// SPDX-License-Identifier: Apache-2.0
// Tables of the kernels that compute one kind of problem: each row is an offer, asked alike by
// lowerings and by the passes that prepare for them. A new way to compute the problem is a row.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ops/lowering/alternates.h"
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
  // Of what the row emits for the sizes up to that of `largest`, where this is not what it would
  // emit for the problem alone. Precondition: no refusal of either.
  double (*microseconds_of)(const OfferContext& at, const Problem& largest,
                            const Problem& problem) = nullptr;
  // Whether another table lowers the problem, which has alternates of its own.
  bool (*is_elsewhere)(const Problem& problem) = nullptr;
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
// Returns whether the user or the tuner named the row.
template <typename Row>
bool choose_named(LowerContext& ctx, std::span<const Row> table, Choice<Row>& choice) {
  const auto taken = std::ranges::find_if(choice.notes, &OfferNote::taken);
  if (ctx.is_preferred(taken->kernel)) return true;
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
  const size_t choices = ctx.program().form_choices.size();
  const size_t tuned = take_form(ctx, chooser, forms, best);
  notes[best]->taken = false;
  notes[tuned]->taken = true;
  choice.row = rows[tuned];
  return ctx.program().form_choices.size() > choices && ctx.program().form_choices.back().is_tuned;
}

// Which rows of a table serve which sizes of a problem.
template <typename Row, typename Problem>
class RowsBySize {
 public:
  RowsBySize(const OfferContext& at, std::span<const Row> table, const Problem& problem,
             const Dim& size)
      : at_(at), table_(table), problem_(problem), size_(size), sizes_(alternate_sizes(size)) {
    for (const int64_t most : sizes_) problems_.push_back(at_size(problem, most));
    for (size_t i = 1; i < sizes_.size(); ++i)
      next_above_.push_back(at_size(problem, sizes_[i] + size.known_factor()));
  }

  // The stretches of sizes with the rows that serve them, `plain` where one serves all.
  [[nodiscard]] std::vector<Stretch> choose_rows(const Row& plain) const {
    if (is_elsewhere(plain)) return {};
    std::vector<Choice<Row>> best;
    std::vector<double> least;
    for (const Problem& problem : problems_) {
      best.push_back(choose(table_, at_, problem));
      if (best.back().row == nullptr) return {};
      least.push_back(best.back().microseconds);
    }
    std::vector<TimesFrom> times;
    for (const Row& row : table_) {
      const bool may_serve = !is_elsewhere(row) && may_stand_for(row, plain);
      times.push_back(may_serve ? times_of(row, best) : never());
    }
    leave_to_lowest_rank(times);
    return choose_alternates(times, least, static_cast<size_t>(&plain - table_.data()));
  }

  [[nodiscard]] ServedSizes served(std::span<const Stretch> stretches, size_t number) const {
    return served_by(size_, sizes_, stretches, number);
  }
  // As the stretch's row is given it. Of a single size everything is known.
  [[nodiscard]] Problem problem_of(std::span<const Stretch> stretches, size_t number) const {
    const size_t first = stretches[number].first_size;
    return is_single(first) ? problems_[first] : for_sizes(problem_, served(stretches, number));
  }
  [[nodiscard]] const Problem& at_largest(const Stretch& stretch) const {
    return problems_[stretch.first_size];
  }

 private:
  // No stretch of more than the least size begins with it.
  [[nodiscard]] bool is_single(size_t from) const {
    return from > 0 && sizes_[from] == size_.range().least && is_least_once(size_);
  }

  [[nodiscard]] bool is_elsewhere(const Row& row) const {
    return row.is_elsewhere != nullptr && row.is_elsewhere(problem_);
  }

  [[nodiscard]] TimesFrom never() const {
    return TimesFrom(sizes_.size(), std::vector<double>(sizes_.size(), kNever));
  }

  [[nodiscard]] bool is_taken(const Row& row, const Problem& problem) const {
    if (row.is_for != nullptr && !row.is_for(at_.device())) return false;
    return offer_exclusion(at_, row.kernel, row.form).empty() &&
           (row.takes_free_sizes || !has_free_sizes(problem)) && row.refusal(at_, problem).empty();
  }

  // Rows of a higher rank do not serve sizes that one of a lower rank serves, as in fixed plans;
  // but for what serves a single size alone, others may serve that too.
  void leave_to_lowest_rank(std::vector<TimesFrom>& times) const {
    for (size_t i = 0; i < sizes_.size(); ++i) {
      for (size_t from = 0; from <= i; ++from) {
        if (is_single(from)) continue;
        std::optional<uint8_t> lowest;
        for (size_t row = 0; row < table_.size(); ++row) {
          const bool serves = std::isfinite(times[row][from][i]);
          if (serves && (!lowest || table_[row].rank < *lowest)) lowest = table_[row].rank;
        }
        for (size_t row = 0; row < table_.size(); ++row)
          if (lowest && table_[row].rank > *lowest) times[row][from][i] = kNever;
      }
    }
  }

  // `best`: what is taken at each size alone.
  [[nodiscard]] TimesFrom times_of(const Row& row, std::span<const Choice<Row>> best) const {
    // Rows of a higher rank are slower than those of the lowest one, whatever estimates say.
    constexpr double kOfRank = 1.25;
    const size_t count = sizes_.size();
    TimesFrom times = never();
    for (size_t from = 0; from < count; ++from) {
      // What another table or the library computes is no dispatch.
      if (from > 0 && !row.kernel) break;
      ServedSizes served{.size = size_};
      if (from > 0) served.most = sizes_[from];
      if (!is_taken(row, is_single(from) ? problems_[from] : for_sizes(problem_, served)) ||
          !is_taken(row, problems_[from]))
        continue;
      for (size_t i = from; i < count; ++i) {
        if (!is_taken(row, problems_[i])) break;
        if (i + 1 < count && !is_taken(row, next_above_[i])) break;
        times[from][i] = row.microseconds_of == nullptr
                             ? row.microseconds(at_, problems_[i])
                             : row.microseconds_of(at_, problems_[from], problems_[i]);
        if (row.rank > best[i].row->rank)
          times[from][i] = std::max(times[from][i], kOfRank * best[i].microseconds);
      }
    }
    return times;
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const OfferContext& at_;
  const std::span<const Row> table_;
  const Problem& problem_;
  const Dim size_;
  const std::vector<int64_t> sizes_;
  std::vector<Problem> problems_;    // at each size
  std::vector<Problem> next_above_;  // at the least size above each but the first
};

// Emits the rows of the stretches one behind the other, that of the largest sizes first.
template <typename Row, typename Problem>
bool emit_alternates(LowerContext& ctx, std::span<const Row> table,
                     const RowsBySize<Row, Problem>& rows, std::span<const Stretch> stretches) {
  Program& program = ctx.program();
  for (size_t i = 0; i < stretches.size(); ++i) {
    const Row& row = table[stretches[i].form];
    const size_t first_step = program.steps.size();
    const size_t first_choice = program.form_choices.size();
    if (!row.emit(ctx, rows.problem_of(stretches, i))) return false;
    // A tuner times what runs at the bound.
    if (i > 0) program.form_choices.resize(first_choice);
    serve(program, first_step, rows.served(stretches, i), ctx.state().layout_copies());
    Choice<Row> choice = choose(table, ctx, rows.at_largest(stretches[i]));
    for (OfferNote& note : choice.notes)
      note.taken = note.kernel == offer_name(row.kernel, row.form);
    note_offers(program, first_step, row.kernel, std::move(choice.notes));
  }
  return true;
}

// Chooses, then emits once, or the alternates of sizes that a run gives.
template <typename Row, typename Problem>
bool lower_by_offers(LowerContext& ctx, std::span<const Row> table, const Problem& problem) {
  Choice<Row> choice = choose(table, ctx, problem);
  if (choice.row == nullptr) return fail_for_offers(ctx, choice.notes);
  const bool is_named = choose_named(ctx, table, choice);
  if constexpr (HasAlternates<Problem>) {
    if (const std::optional<Dim> size = is_named ? std::nullopt : sizing(problem)) {
      const RowsBySize<Row, Problem> rows(ctx, table, problem, *size);
      const std::vector<Stretch> stretches = rows.choose_rows(*choice.row);
      if (stretches.size() > 1) return emit_alternates(ctx, table, rows, stretches);
    }
  }
  const size_t first_step = ctx.program().steps.size();
  if (!choice.row->emit(ctx, problem)) return false;
  note_offers(ctx.program(), first_step, choice.row->kernel, std::move(choice.notes));
  return true;
}

}  // namespace rlx
