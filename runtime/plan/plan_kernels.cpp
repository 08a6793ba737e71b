// SPDX-License-Identifier: Apache-2.0
// Which kernels of a plan a target runs, and what messages call them.
#include "runtime/plan/plan_kernels.h"

#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"

namespace rlx {
namespace {

void mark_used(const fb::Entry& entry, std::vector<bool>& used) {
  for (const fb::Step& step : PlanView::steps(entry)) {
    if (step.kind() == fb::StepKind::Dispatch) used[step.kernel()] = true;
  }
  for (const fb::StepForm& form : forms_of(entry)) {
    if (form.kernel() != kSkipForm) used[form.kernel()] = true;
  }
}

}  // namespace

std::vector<uint32_t> used_kernels(const PlanView& plan, fb::TargetKind target) {
  std::vector<bool> marks(plan.index().kernels()->size());
  for (const fb::Entry* record : plan.records(target)) mark_used(*record, marks);
  std::vector<uint32_t> used;
  for (uint32_t i = 0; i < marks.size(); ++i) {
    if (marks[i]) used.push_back(i);
  }
  return used;
}

std::string kernel_text(const fb::Kernel& kernel) {
  std::string text = text_of("kernel ", quoted(PlanView::text(kernel.name())));
  if (kernel.specialization() != nullptr && kernel.specialization()->size() != 0)
    text += text_of(" (", PlanView::text(kernel.specialization()), ")");
  return text;
}

}  // namespace rlx
