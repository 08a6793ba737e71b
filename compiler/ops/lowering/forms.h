// SPDX-License-Identifier: Apache-2.0
// Choosing among forms whose expected times may be close: what a tuner measured beats estimates.
#pragma once

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

// The same of candidates at one size.
template <typename Candidate>
Candidate take_form(LowerContext& ctx, std::string_view chooser,
                    const std::vector<Candidate>& candidates) {
  std::vector<std::vector<Candidate>> at_sizes;
  for (const Candidate& candidate : candidates) at_sizes.push_back({candidate});
  return take_form(ctx, chooser, at_sizes);
}

}  // namespace rlx
