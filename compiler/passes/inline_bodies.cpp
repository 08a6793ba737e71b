// SPDX-License-Identifier: Apache-2.0
// The pass that leaves no bodies but those of loops that become regions.
#include "compiler/passes/body_inliner.h"

namespace rlx {

bool inline_bodies_of(Module& module, Graph& graph, Diagnostics& diagnostics) {
  BodyInliner(module, graph, ControlFlow::Unrolled, diagnostics).run();
  return !diagnostics.has_errors();
}

size_t inline_bodies(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries)
    changed += BodyInliner(module, graph, options.control, diagnostics).run();
  return changed;
}

}  // namespace rlx
