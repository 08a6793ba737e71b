// SPDX-License-Identifier: Apache-2.0
// From a run to the page of its plan.
#include <memory>

#include "runtime/plan/free_sizes.h"
#include "runtime/plan/plan_view.h"
#include "tools/inspect/html.h"
#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/report.h"

namespace rlx::tool {
namespace {

// The plan at the sizes of the run; the plan itself where none is free.
std::shared_ptr<const PlanView> at_sizes(const std::shared_ptr<const PlanView>& plan,
                                         const std::vector<SymbolValue>& chosen) {
  if (chosen.empty()) return plan;
  std::vector<uint64_t> values = symbols_at_maximum(plan->index());
  for (uint32_t i = 0; i < values.size(); ++i) {
    for (const SymbolValue& symbol : chosen) {
      if (PlanView::text(plan->index().symbols()->Get(i)->name()) == symbol.name)
        values[i] = symbol.value;
    }
  }
  std::vector<const fb::Entry*> records = plan->records();
  std::erase_if(records, [&](const fb::Entry* entry) { return !is_made_for(*entry, values); });
  std::shared_ptr<const PlanView> bound;
  check(PlanView::bind(*plan, records, values, bound));
  return bound;
}

}  // namespace

std::string report_page(const Options& options, const Report& report) {
  std::shared_ptr<const PlanView> plan;
  check(PlanView::open_file(options.plan_path, {.weights_folder = options.weights_folder}, plan));
  MeasuredSteps measured{
      .entry = report.entry.name, .device = report.device.name, .microseconds = {}};
  for (const StepProfile& step : report.profile) measured.microseconds.push_back(step.microseconds);
  return report_html(*at_sizes(plan, report.symbols), *plan, measured);
}

}  // namespace rlx::tool
