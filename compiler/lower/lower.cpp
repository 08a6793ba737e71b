// SPDX-License-Identifier: Apache-2.0
// Walks a graph and lets each op emit its dispatches.
#include "compiler/lower/lower.h"

#include <algorithm>

#include "compiler/lower/layouts.h"
#include "compiler/lower/lower_node.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

// Names every op that cannot be lowered, all in one pass.
bool check_lowerings(const Graph& graph, Diagnostics& diagnostics) {
  bool good = true;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const OpDef* op = find_op(node.op);
    RLX_CHECK(op != nullptr, "lowering unknown op " + node.op);
    if (op->lower != nullptr) continue;
    NodeContext ctx(*op, node, diagnostics);
    good = ctx.fail(DiagCode::UnsupportedOp, "this op has no lowering");
  }
  return good;
}

bool is_empty(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&graph](ValueId id) {
    return element_count(graph.value(id).type.shape) == 0;
  });
}

}  // namespace

bool lower_node(LoweringState& state, const Node& node, Diagnostics& diagnostics) {
  const OpDef& op = *find_op(node.op);
  LowerContext ctx(op, state, node, diagnostics);
  if (is_empty(state.graph, node)) {
    for (size_t i = 0; i < node.outputs.size(); ++i) ctx.output(i);
    return true;
  }
  if (!op.lower(ctx)) return false;
  const std::vector<std::string> unread = ctx.attrs().unread();
  RLX_CHECK(unread.empty(), "lowering of " + node.op + " \"" + node.name + "\" ignored attribute " +
                                unread.front());
  for (ValueId output : node.outputs) state.ref(output);
  return true;
}

std::optional<Program> lower_entry(const Module& module, const Graph& graph,
                                   const LowerOptions& options, Diagnostics& diagnostics) {
  if (!check_lowerings(graph, diagnostics)) return std::nullopt;
  Program program;
  program.entry = graph.name;
  LoweringState state(module, graph, options, program);
  choose_layouts(state);
  place_concat_parts(state, diagnostics);
  bool good = true;
  for (NodeId id : graph.order()) {
    // A node after a failed one would only report second-hand faults.
    if (good) good = lower_node(state, graph.node(id), diagnostics);
  }
  if (!good) return std::nullopt;
  state.finish();
  return program;
}

}  // namespace rlx
