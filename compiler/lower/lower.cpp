// SPDX-License-Identifier: Apache-2.0
// Walks a graph and lets each op emit its dispatches.
#include "compiler/lower/lower.h"

#include <algorithm>
#include <set>

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

// True where the concat's parts are contiguous runs of its output.
bool parts_are_contiguous(const Shape& shape, int64_t axis) {
  return std::all_of(shape.begin(), shape.begin() + axis, [](int64_t dim) { return dim == 1; });
}

}  // namespace

void place_concat_parts(LoweringState& state, Diagnostics& diagnostics) {
  const Graph& graph = state.graph;
  std::vector<NodeId> nodes(graph.order().rbegin(), graph.order().rend());
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    if (node.op != "concat") continue;
    NodeContext ctx(*find_op("concat"), node, diagnostics);
    const TensorType& type = graph.value(node.outputs[0]).type;
    const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), type.shape.size()).value();
    if (!parts_are_contiguous(type.shape, axis) || is_empty(graph, node)) continue;
    TensorRef slot = state.allocate(node.outputs[0]);
    std::set<ValueId> seen;
    for (const std::optional<ValueId>& part : node.inputs) {
      slot.type = graph.value(*part).type;
      slot.strides = dense_strides(slot.type.shape);
      const bool owned = graph.value(*part).origin == ValueOrigin::Node && !graph.is_output(*part);
      if (owned && seen.insert(*part).second) state.place(*part, slot);
      slot.offset_bytes += byte_size(slot.type);
    }
  }
}

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
