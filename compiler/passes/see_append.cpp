// SPDX-License-Identifier: Apache-2.0
// A copy of one row to an index, as decoders with a cache of fixed size write it, is an append to
// the cache.
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"

namespace rlx {
namespace {

enum CopyInput : size_t { kInto, kIndex, kRows };

bool is_append(const Graph& graph, const Node& node) {
  if (node.op != OpId::index_copy) return false;
  const Shape& into = graph.value(*node.inputs[kInto]).type.shape;
  const TensorType& rows = graph.value(*node.inputs[kRows]).type;
  const auto rank = static_cast<int64_t>(into.size());
  const int64_t given = node_integer(node, "axis");
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis == 0) return false;  // a cache's first dim is its batch
  // Of several rows an append drops those behind the end, whatever stands at its begin.
  return graph.value(*node.inputs[kIndex]).type.shape == Shape{1} &&
         rows.dtype == graph.value(node.outputs[0]).type.dtype &&
         rows.shape.size() == into.size() && rows.shape[static_cast<size_t>(axis)] == 1;
}

}  // namespace

size_t see_append(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (!is_append(graph, graph.node(id))) continue;
      const Node node = graph.node(id);
      NodeEmitter emitter(graph, id);
      const ValueId position = emitter.reshape(*node.inputs[kIndex], {});
      const ValueId y =
          emitter.emit("kv_append", {node.inputs[kInto], node.inputs[kRows], position},
                       {{"axis", node_integer(node, "axis")}});
      graph.replace_uses(node.outputs[0], y);
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
