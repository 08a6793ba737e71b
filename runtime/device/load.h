// SPDX-License-Identifier: Apache-2.0
// Loading a plan: what does not depend on how a device does it.
#pragma once

#include <future>

#include "runtime/base/status.h"
#include "runtime/plan/plan_memory.h"
#include "runtime/plan/plan_view.h"

namespace rlx {

// Loads a plan's code while its weights come from the disk: `code` on a thread of its own, or after
// the weights where there is none to be had. The first error, code's before that of the weights.
template <class Code, class Weights>
Status load_code_and_weights(const PlanView& plan, const Code& code, const Weights& weights) {
  constexpr std::launch kPolicy = std::launch::async | std::launch::deferred;
  std::future<Status> loaded = std::async(kPolicy, code);
  const Status brought = weights();
  RLX_RETURN_IF_ERROR(loaded.get());
  return explain_memory(brought, plan.header());
}

}  // namespace rlx
