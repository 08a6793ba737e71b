// SPDX-License-Identifier: Apache-2.0
// The table that kernels over rows share which take a row as a whole or in chunks: reductions,
// searches, statistics and scans.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/lowering/rows.h"

namespace rlx {

enum class RowForm : uint8_t { ColumnChunks, Column, RowChunks, Row };

constexpr bool is_column(RowForm form) {
  return form == RowForm::ColumnChunks || form == RowForm::Column;
}
constexpr bool is_chunked(RowForm form) {
  return form == RowForm::ColumnChunks || form == RowForm::RowChunks;
}

// How threads go over the rows, and how many chunks each row is taken in.
struct RowWay {
  RowPlan plan;
  RowChunks chunks;
};

// One form, asked of a Problem, which has
//   const RowLoops& rows() const;
//   uint32_t lane_elements() const;   neighbours that a thread of a row takes at once
//   uint32_t columns() const;         neighbouring rows that a thread takes at once, by column
//   RowChunks split(const OfferContext&, const RowPlan&) const;   a count of 1: in no chunks
//   std::string whole_refusal(const RowPlan&) const;   why rows are not taken as a whole
//   StepWork work(const RowWay&) const;   of all steps
//   bool emit(LowerContext&, const RowWay&) const;
template <typename Problem, RowForm form>
struct RowFormOf {
  static RowPlan plan(const Problem& problem) {
    if (is_column(form)) return plan_side_by_side(problem.rows(), problem.columns()).value();
    return plan_neighbours(loop_count(problem.rows().reduced), problem.lane_elements());
  }
  static RowWay way(const OfferContext& at, const Problem& problem) {
    const RowPlan threads = plan(problem);
    if (is_chunked(form)) return {.plan = threads, .chunks = problem.split(at, threads)};
    const int64_t length = loop_count(problem.rows().reduced).bound();
    return {.plan = threads, .chunks = {.count = 1, .length = std::max<int64_t>(length, 1)}};
  }
  static std::string refusal(const OfferContext& at, const Problem& problem) {
    if (is_column(form) && !plan_side_by_side(problem.rows()))
      return "rows that do not stand side by side";
    if (!is_chunked(form)) return problem.whole_refusal(plan(problem));
    if (has_free_sizes(problem.rows()) && problem.whole_refusal(plan(problem)).empty())
      return "rows that a run may make too few or too short";
    if (problem.split(at, plan(problem)).count > 1) return {};
    return "enough rows to keep the device busy, or rows too short for chunks";
  }
  // What joins the chunks is a step of its own.
  static double microseconds(const OfferContext& at, const Problem& problem) {
    const double second = is_chunked(form) ? at.device().step_microseconds : 0;
    return thread_bound_microseconds(at.device(), problem.work(way(at, problem))) + second;
  }
  static bool emit(LowerContext& ctx, const Problem& problem) {
    return problem.emit(ctx, way(ctx, problem));
  }
  static constexpr Offer<Problem> row(KernelId kernel, std::string_view name, uint8_t rank) {
    return {.kernel = kernel,
            .form = name,
            .rank = rank,
            .estimate = Estimate::Bound,
            .refusal = refusal,
            .microseconds = microseconds,
            .emit = emit};
  }
};

// Rows that stand side by side are read side by side: along each, every element would be a line of
// memory of its own. Chunks come before whole rows, as they are refused where those keep the device
// busy. The last form takes what one group of threads takes.
template <typename Problem>
constexpr std::array<Offer<Problem>, 4> row_offers(KernelId kernel) {
  return {RowFormOf<Problem, RowForm::ColumnChunks>::row(kernel, "column chunks", 0),
          RowFormOf<Problem, RowForm::Column>::row(kernel, "column", 1),
          RowFormOf<Problem, RowForm::RowChunks>::row(kernel, "row chunks", 2),
          RowFormOf<Problem, RowForm::Row>::row(kernel, "row", 3)};
}

}  // namespace rlx
