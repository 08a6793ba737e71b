// SPDX-License-Identifier: Apache-2.0
// Images that views make by a copy, as pixel shuffles do, in the order in which the convolutions
// behind them read: one copy in place of two.
#include <algorithm>

#include "compiler/ops/vision/conv_offers.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/passes/view_chain.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

bool reads_channels_last(const Graph& graph, NodeId id, ValueId x, const PassOptions& options) {
  const Node& node = graph.node(id);
  if (node.inputs[0] != x || std::count(node.inputs.begin(), node.inputs.end(), x) != 1)
    return false;
  return decided_at_all_sizes([&] {
    const auto layouts = conv_layouts(offer_context(options), graph, node);
    return layouts && layouts->x_channels_last;
  });
}

bool lay_out(Graph& graph, NodeId id, const PassOptions& options) {
  const Node& node = graph.node(id);
  if (!is_reshaping(node)) return false;
  const ValueId image = node.outputs[0];
  const std::vector<NodeId> readers = graph.readers(image);
  if (graph.value(image).type.shape.size() != 4 || graph.is_output(image) || readers.empty())
    return false;
  const bool all_read_so = std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
    return reads_channels_last(graph, reader, image, options);
  });
  std::optional<FoundChain> found = chain_before(graph, image);
  if (!all_read_so || !found || found->chain.cost() != ViewChain::Cost::Copy) return false;
  found->chain.turn({0, 2, 3, 1});
  const ValueId pixels = found->chain.build(graph, id, found->source);
  const ValueId seen = add_node_before(graph, id, "transpose", graph.value(image).name, {pixels},
                                       {{"perm", Ints{0, 3, 1, 2}}});
  graph.replace_uses(image, seen);
  graph.remove_node(id);
  return true;
}

}  // namespace

size_t lay_out_copies(Module& module, const PassOptions& options, Diagnostics&) {
  if (options.target == nullptr) return 0;
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      if (lay_out(graph, id, options)) ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
