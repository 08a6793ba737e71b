// SPDX-License-Identifier: Apache-2.0
// Zeros padded around the images of a conv become its own pads: its kernels write no zeros.
#include <optional>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"

namespace rlx {
namespace {

// What the node pads to the spatial dims of [N, C, spatial..], begins before ends; nullopt where it
// does something else.
std::optional<Ints> spatial_zeros(const Graph& graph, const Node& node) {
  if (node.op != OpId::pad) return std::nullopt;
  const AttributeReader attrs(*find_op(node.op), node.attributes);
  if (attrs.text("mode") != "constant" || attrs.real("value") != 0) return std::nullopt;
  const auto rank = static_cast<int64_t>(graph.value(*node.inputs[0]).type.shape.size());
  const Ints pads = attrs.integers("pads");
  Ints axes = attrs.integers("axes");
  if (!attrs.has("axes"))
    for (int64_t d = 0; d < rank; ++d) axes.push_back(d);
  Ints zeros(static_cast<size_t>(2 * (rank - 2)), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim& before = pads[i];
    const Dim& after = pads[axes.size() + i];
    if (before == 0 && after == 0) continue;
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 2 || before < 0 || after < 0) return std::nullopt;
    zeros[static_cast<size_t>(axis - 2)] += before;
    zeros[static_cast<size_t>(rank - 2 + axis - 2)] += after;
  }
  return zeros;
}

// The conv's own pads, all of them written out.
Ints pads_of(const Node& conv, size_t rank) {
  Ints pads = AttributeReader(*find_op(conv.op), conv.attributes).integers("pads");
  if (pads.size() <= 1) pads.assign(2 * rank, pads.empty() ? Dim(0) : pads[0]);
  if (pads.size() == rank) pads.insert(pads.end(), pads.begin(), pads.end());
  return pads;
}

bool fold_pad(Graph& graph, NodeId id) {
  const Node& conv = graph.node(id);
  if (conv.op != OpId::conv) return false;
  const Value& x = graph.value(*conv.inputs[0]);
  if (x.origin != ValueOrigin::Node) return false;
  const Node& pad = graph.node(*x.producer);
  const std::optional<Ints> zeros = spatial_zeros(graph, pad);
  if (!zeros) return false;
  Ints pads = pads_of(conv, zeros->size() / 2);
  for (size_t i = 0; i < pads.size(); ++i) pads[i] += (*zeros)[i];
  const ValueId inner = *pad.inputs[0];
  graph.change_node(id, [&](Node& node) {
    node.inputs[0] = inner;
    node.attributes["pads"] = pads;
  });
  return true;
}

}  // namespace

size_t fold_pads(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order)
      while (fold_pad(graph, id)) ++changed;
  }
  return changed;
}

}  // namespace rlx
