// SPDX-License-Identifier: Apache-2.0
// Walks a graph and lets each op emit its dispatches.
#include "compiler/lower/lower.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "compiler/lower/layouts.h"
#include "compiler/lower/lower_node.h"
#include "compiler/ops/movement.h"
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

// Ops that read and write tensors of any strides at no cost.
bool takes_any_strides(const Graph& graph, NodeId id) {
  static constexpr std::string_view kOps[] = {"concat", "tile", "repeat_interleave",
                                              "resize_nearest_2x"};
  const std::string& op = graph.node(id).op;
  return find_op(op)->lower == lower_elementwise ||
         std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

bool writes_any_strides(const Graph& graph, ValueId id) {
  const std::optional<NodeId> producer = graph.value(id).producer;
  return producer && takes_any_strides(graph, *producer);  // init has values without producers
}

bool is_read_by_strides(const Graph& graph, ValueId id) {
  const std::vector<NodeId> readers = graph.readers(id);
  return std::all_of(readers.begin(), readers.end(),
                     [&graph](NodeId reader) { return takes_any_strides(graph, reader); });
}

// A concat writes its result part by part. Scattered, it leaves the bytes between to its
// neighbours, and nobody may read it before these are written too, not even to copy it beside
// itself.
bool is_whole_at_once(const Graph& graph, ValueId id) {
  return graph.node(*graph.value(id).producer).op != "concat";
}

// Only results of nodes that are nobody's output are written where this entry likes.
bool is_owned(const Graph& graph, ValueId id) {
  return graph.value(id).origin == ValueOrigin::Node && !graph.is_output(id);
}

// The value of which `id` is another shape and nothing else reads, or nullopt.
std::optional<ValueId> reshaped_from(const Graph& graph, ValueId id) {
  const std::optional<NodeId> producer = graph.value(id).producer;
  if (!producer) return std::nullopt;
  const Node& node = graph.node(*producer);
  const bool reshapes = node.op == "reshape" || node.op == "squeeze" || node.op == "unsqueeze" ||
                        node.op == "flatten";
  if (!reshapes || !is_owned(graph, *node.inputs[0])) return std::nullopt;
  if (graph.readers(id).size() != 1 || graph.readers(*node.inputs[0]).size() != 1)
    return std::nullopt;
  return node.inputs[0];
}

// The slot for a part, or for the value that the part reshapes. A part lies scattered in its concat
// only where its producer writes it so, and nobody reads it who would gather it again.
void place_part(LoweringState& state, ValueId part, TensorRef slot) {
  const Graph& graph = state.graph;
  if (!is_owned(graph, part)) return;
  const bool read_by_strides = is_read_by_strides(graph, part);
  const bool read_once = graph.readers(part).size() == 1;
  while (const std::optional<ValueId> source = reshaped_from(graph, part)) {
    auto strides = reshape_strides(slot.shape(), slot.strides, graph.value(*source).type.shape);
    if (!strides) break;
    part = *source;
    slot.type = graph.value(part).type;
    slot.strides = std::move(*strides);
  }
  if (slot.dense()) {
    slot.strides = dense_strides(slot.shape());
  } else if (!read_by_strides || !writes_any_strides(graph, part) ||
             (!read_once && !is_whole_at_once(graph, part))) {
    return;
  }
  state.place(part, std::move(slot));
}

}  // namespace

namespace {

// The slots of a concat's parts within the whole.
std::vector<TensorRef> slots_of(const Graph& graph, const Node& node, const TensorRef& whole,
                                size_t axis) {
  std::vector<TensorRef> slots;
  int64_t start = 0;
  for (const std::optional<ValueId>& part : node.inputs) {
    slots.push_back(shifted(whole, start * whole.strides[axis]));
    slots.back().type = graph.value(*part).type;
    start += slots.back().shape()[axis];
  }
  return slots;
}

// Where a later concat of the same parts, and more, has given them places side by side, without
// gaps, the parts make up this concat as they stand.
void place_whole(LoweringState& state, const Node& node, size_t axis) {
  const Graph& graph = state.graph;
  const ValueId output = node.outputs[0];
  const TensorRef* first = state.place_of(*node.inputs[0]);
  if (first == nullptr || !is_owned(graph, output)) return;
  TensorRef whole = *first;
  whole.type = graph.value(output).type;
  whole.strides = dense_strides(whole.shape());
  const std::vector<TensorRef> slots = slots_of(graph, node, whole, axis);
  for (size_t i = 0; i < slots.size(); ++i) {
    const TensorRef* place = state.place_of(*node.inputs[i]);
    if (place == nullptr || !is_same_place(*place, slots[i])) return;
  }
  state.place(output, std::move(whole));
}

}  // namespace

void place_concat_parts(LoweringState& state, Diagnostics& diagnostics) {
  const Graph& graph = state.graph;
  std::vector<NodeId> nodes(graph.order().rbegin(), graph.order().rend());
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    if (node.op != "concat") continue;
    NodeContext ctx(*find_op("concat"), node, diagnostics);
    if (is_empty(graph, node)) continue;
    const size_t rank = graph.value(node.outputs[0]).type.shape.size();
    const auto axis = static_cast<size_t>(ctx.axis(ctx.attrs().integer("axis"), rank).value());
    place_whole(state, node, axis);
    const TensorRef whole = state.allocate(node.outputs[0]);
    std::vector<TensorRef> slots = slots_of(graph, node, whole, axis);
    std::set<ValueId> seen;
    for (size_t i = 0; i < slots.size(); ++i) {
      const ValueId part = *node.inputs[i];
      if (seen.insert(part).second) place_part(state, part, std::move(slots[i]));
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
