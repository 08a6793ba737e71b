// SPDX-License-Identifier: Apache-2.0
// Control flow of the reference IR: sub-graphs under other names, written as the catalogue's
// operators before anything is bound.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/import/reference_ir/alias.h"
#include "compiler/import/source_graph.h"
#include "compiler/support/diagnostics.h"

namespace rlx::reference_ir {

// The node as the catalogue calls it: If, While, Scan, CustomFn. nullopt: another node, or one
// whose attributes do not fit, which was reported (the second then holds).
struct ControlFlow {
  std::optional<SourceNode> node;
  bool is_refused = false;
};
ControlFlow as_control_flow(const SourceNode& node, Diagnostics& diagnostics);

// ScanBackward and ScanBackwardXs: a scan in reverse, whose body is body_vjp, over values that
// stand before it in the graph under names of its own.
struct ScanBackward {
  SourceNode node;
  std::vector<std::pair<std::string, ValueId>> reads;
};
bool is_scan_backward(std::string_view op);
// Leaves by AliasNode::refuse where the node does not fit.
ScanBackward as_scan_backward(AliasNode& typed, const SourceNode& node);

}  // namespace rlx::reference_ir
