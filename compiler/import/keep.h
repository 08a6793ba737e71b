// SPDX-License-Identifier: Apache-2.0
// Intermediate values as outputs, to look at what a model computes on its way.
#pragma once

#include <span>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

struct KeptValues {
  std::vector<std::string> names;  // in any entry
  bool all = false;                // every result of a node
};

// Makes the values outputs behind those that the entries have, in execution order, each once under
// its own name. What is kept can no longer vanish in a fusion, so the plan is another one; rlxrun
// --dump-after looks into an unchanged plan. Reports names that no entry has.
bool keep_values(Module& module, const KeptValues& kept, Diagnostics& diagnostics);

}  // namespace rlx
