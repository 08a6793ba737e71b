// SPDX-License-Identifier: Apache-2.0
// Images of few channels, filled up with zeros to the whole pieces that matrix units copy, where
// the convolution on them and the copy together are faster.
#include <optional>
#include <vector>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/vision/conv_offers.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/support/free_size.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// The share of the time that may be left: estimates are no better.
constexpr double kFilledGain = 0.8;

// Channels that are missing in the last piece; 0 where nothing can be added.
int64_t missing_channels(const Module& module, const Graph& graph, const Node& conv) {
  if (conv.op != OpId::conv || node_integer(conv, "groups") != 1) return 0;
  const TensorType& x = graph.value(*conv.inputs[0]).type;
  const Weight* w = weight_of(module, graph, *conv.inputs[1]);
  if (w == nullptr || w->type.dtype != x.dtype || element_count(w->type.shape) == 0) return 0;
  const int64_t channels = w->type.shape[1];
  return round_up(channels, kWidestAccessBytes / element_bytes(x.dtype)) - channels;
}

// The convolution of filled images instead of one node.
NodeId fill(Graph& graph, NodeId id, int64_t missing) {
  Node conv = graph.node(id);
  NodeEmitter emitter(graph, id);
  for (const size_t i : {0, 1})
    conv.inputs[i] =
        emitter.emit("pad", {conv.inputs[i]}, {{"pads", Ints{0, missing}}, {"axes", Ints{1}}});
  const NodeId filled = graph.insert_node_before(id, std::move(conv));
  graph.remove_node(id);
  return filled;
}

bool is_faster(const OfferContext& at, const Graph& graph, NodeId id, int64_t missing) {
  Graph trial = graph;
  const Node& filled = trial.node(fill(trial, id, missing));
  const std::optional<double> now = conv_node_microseconds(at, graph, graph.node(id));
  const std::optional<double> then = conv_node_microseconds(at, trial, filled);
  const double copy = copy_microseconds(at.device(), graph.value(*graph.node(id).inputs[0]).type,
                                        trial.value(*filled.inputs[0]).type);
  return now && then && *then + copy < kFilledGain * *now;
}

}  // namespace

size_t pad_channels(Module& module, const PassOptions& options, Diagnostics&) {
  if (options.target == nullptr) return 0;
  const OfferContext at = offer_context(options);
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      const int64_t missing = missing_channels(module, graph, graph.node(id));
      if (missing == 0) continue;
      if (!decided_at_all_sizes([&] { return is_faster(at, graph, id, missing); })) continue;
      fill(graph, id, missing);
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
