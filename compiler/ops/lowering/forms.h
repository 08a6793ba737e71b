// SPDX-License-Identifier: Apache-2.0
// Choosing among forms whose expected times may be close: what a tuner measured beats estimates.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/dispatch/form_choice.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/support/sampled_sizes.h"

namespace rlx {

// Which of the forms a node gets: the one that the table of tuned forms names, or else forms[best].
// The program notes the choice, where there is one, with the forms that are close to the best. A
// chooser's name tells apart what the lowering of one node chooses.
size_t take_form(LowerContext& ctx, std::string_view chooser, const std::vector<TimedForm>& forms,
                 size_t best);

// The same of candidates at several sizes (least_excess).
template <typename Candidate>
Candidate take_form(LowerContext& ctx, std::string_view chooser,
                    const std::vector<std::vector<Candidate>>& candidates) {
  const Candidate& best =
      least_excess(candidates, [](const Candidate& candidate) { return candidate.microseconds; });
  std::vector<TimedForm> forms;
  size_t best_index = 0;
  for (const std::vector<Candidate>& at_sizes : candidates) {
    const Candidate& candidate = at_sizes.front();
    if (&candidate == &best) best_index = forms.size();
    forms.push_back({.name = candidate.text(), .microseconds = candidate.microseconds});
  }
  return candidates.at(take_form(ctx, chooser, forms, best_index)).front();
}

// Sizes of a free one, from its bound down, at which forms for parts of its range are chosen: all
// that it may be, where these are few and tiles apart; else where tiles end: 2^n and 3 * 2^n, from
// 64 on 5 * 2^n and 7 * 2^n too.
std::vector<int64_t> form_sizes(const Dim& size);

// Which of the forms serves from one of the sizes on, down to the next stretch.
struct Stretch {
  size_t first_size = 0;
  size_t form = 0;
};
// A few forms that together take little more than the least time at each size; the first stretch
// begins with the first size. microseconds[form][size] is infinite where a form does not serve.
std::vector<Stretch> stretches(const std::vector<std::vector<double>>& microseconds);

// Takes the steps from `end` on off the program. If it is one that differs from `step`, the only
// one before it, in nothing but kernel and grid, it becomes its form where `size` is at most
// `most`.
void join_form(Program& program, size_t step, size_t end, const Dim& size, int64_t most);

// Emits the form for the largest sizes of a free one, with others for smaller sizes that differ in
// nothing but kernel and grid. candidates[form][i] is at form_sizes(size)[i], its time infinite
// where it does not serve. emit(candidate) adds its steps.
template <typename Candidate, typename Emit>
void emit_forms(LowerContext& ctx, std::string_view chooser, const Dim& size,
                const std::vector<std::vector<Candidate>>& candidates, const Emit& emit) {
  const std::vector<int64_t> sizes = form_sizes(size);
  std::vector<std::vector<double>> microseconds;
  std::vector<TimedForm> forms;
  std::vector<size_t> candidate_of_form;
  for (const std::vector<Candidate>& at_sizes : candidates) {
    std::vector<double>& times = microseconds.emplace_back();
    times.reserve(at_sizes.size());
    for (const Candidate& candidate : at_sizes) times.push_back(candidate.microseconds);
    if (times.front() == std::numeric_limits<double>::infinity()) continue;
    candidate_of_form.push_back(microseconds.size() - 1);
    forms.push_back({.name = at_sizes.front().text(), .microseconds = times.front()});
  }
  const std::vector<Stretch> taken = stretches(microseconds);
  const auto largest = std::ranges::find(candidate_of_form, taken.front().form);
  const auto best = static_cast<size_t>(largest - candidate_of_form.begin());
  const size_t form = take_form(ctx, chooser, forms, best);
  const size_t step = ctx.program().steps.size();
  emit(candidates[candidate_of_form[form]].front());
  const size_t end = ctx.program().steps.size();
  // A tuner's choice is for all sizes.
  if (form != best) return;
  for (size_t i = taken.size(); i-- > 1;) {
    const Stretch& stretch = taken[i];
    emit(candidates[stretch.form][stretch.first_size]);
    join_form(ctx.program(), step, end, size, sizes[stretch.first_size]);
  }
}

// The same of candidates at one size.
template <typename Candidate>
Candidate take_form(LowerContext& ctx, std::string_view chooser,
                    const std::vector<Candidate>& candidates) {
  std::vector<std::vector<Candidate>> at_sizes;
  for (const Candidate& candidate : candidates) at_sizes.push_back({candidate});
  return take_form(ctx, chooser, at_sizes);
}

}  // namespace rlx
