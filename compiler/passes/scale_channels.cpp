// SPDX-License-Identifier: Apache-2.0
// Convolutions that multiply each channel by one number, as mul or fma, which join the elementwise
// nodes around them: depthwise filters of one element, and any of one element over one channel.
#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"

namespace rlx {
namespace {

bool scales(const Graph& graph, const Node& conv) {
  if (conv.op != OpId::conv || conv.attributes.contains("activation")) return false;
  if (conv.inputs.size() > 3 && conv.inputs[3]) return false;
  const TensorType& x = graph.value(*conv.inputs[0]).type;
  const TensorType& w = graph.value(*conv.inputs[1]).type;
  const bool is_point =
      std::all_of(w.shape.begin() + 1, w.shape.end(), [](const Dim& size) { return size == 1; });
  const bool keeps_channels = x.shape[1] == 1 || w.shape[0] == x.shape[1];
  const auto all_are = [&conv](const char* name, int64_t wanted) {
    const Ints values = AttributeReader(*find_op(conv.op), conv.attributes).integers(name);
    return std::ranges::all_of(values, [&](const Dim& value) { return value == wanted; });
  };
  return is_point && keeps_channels && all_are("stride", 1) && all_are("pads", 0);
}

// In f32 where a filter or a bias has another type: rounded once either way.
void replace(Graph& graph, NodeId id) {
  const Node conv = graph.node(id);
  NodeEmitter emitter(graph, id);
  const TensorType& x = emitter.type(*conv.inputs[0]);
  const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2];
  const bool is_plain = emitter.type(*conv.inputs[1]).dtype == x.dtype &&
                        (!has_bias || emitter.type(*conv.inputs[2]).dtype == x.dtype);
  const DType result = x.dtype;
  const DType dtype = is_plain ? result : DType::f32;
  Shape column(x.shape.size(), 1);
  column[1] = emitter.type(*conv.inputs[1]).shape[0];
  std::vector<std::optional<ValueId>> inputs = {emitter.cast(*conv.inputs[0], dtype)};
  for (size_t i = 1; i < (has_bias ? 3U : 2U); ++i)
    inputs.emplace_back(emitter.cast(emitter.reshape(*conv.inputs[i], column), dtype));
  const char* op = has_bias ? "fma" : "mul";
  Node last = conv;
  last.op = is_plain ? op : "cast";
  last.attributes.clear();
  if (is_plain) {
    last.inputs = std::move(inputs);
  } else {
    last.inputs = {emitter.emit(op, std::move(inputs))};
    last.attributes["to"] = std::string(name_of(result));
  }
  graph.insert_node_before(id, std::move(last));
  graph.remove_node(id);
}

}  // namespace

size_t scale_channels(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      if (!scales(graph, graph.node(id))) continue;
      replace(graph, id);
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
