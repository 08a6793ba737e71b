// SPDX-License-Identifier: Apache-2.0
// Transposed convolutions as convolutions of all their phases where the target gains by it.
#include <algorithm>
#include <cmath>
#include <variant>

#include "compiler/ops/op_id.h"
#include "compiler/ops/vision/conv_offers.h"
#include "compiler/ops/vision/conv_transpose.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/reference/evaluate.h"

namespace rlx {
namespace {

// What the convolution must gain, as a share of the time: estimates are no better.
constexpr double kGain = 0.8;

// Random numbers are finite; what the init entry computes may be anything.
bool are_finite_weights(const Module& module, const Graph& graph, ValueId id) {
  const Weight* weight = weight_of(module, graph, id);
  if (weight == nullptr) return false;
  if (std::holds_alternative<RandomData>(weight->data)) return true;
  if (!is_known(*weight)) return false;
  const Tensor w = weight_tensor(module, *weight);
  return std::all_of(w.floats.begin(), w.floats.end(), [](double v) { return std::isfinite(v); });
}

// The bytes of a result of several spatial dims are put in place by a copy.
double placing_microseconds(const OfferContext& at, const TensorType& result) {
  if (result.shape.size() == 3) return 0;
  return copy_microseconds(at.device(), result, result);
}

bool replace_one(Module& module, Graph& graph, NodeId id, const OfferContext& at,
                 Diagnostics& diagnostics) {
  const Node& node = graph.node(id);
  if (node.op != OpId::conv_transpose_gather) return false;
  if (!are_finite_weights(module, graph, *node.inputs[1])) return false;
  Graph trial = graph;
  RewriteContext ctx(*find_op(node.op), module, trial, id, diagnostics);
  const std::optional<ValueId> product = emit_transpose_phases(ctx);
  if (!product) return false;
  const std::optional<double> microseconds =
      conv_node_microseconds(at, trial, trial.node(*trial.value(*product).producer));
  if (!microseconds) return false;
  const double phases = *microseconds + placing_microseconds(at, trial.value(*product).type);
  if (phases > kGain * conv_transpose_microseconds(at, graph, node)) return false;
  graph = std::move(trial);
  return true;
}

}  // namespace

size_t phases_of_transposes(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  if (options.target == nullptr) return 0;
  const OfferContext at = offer_context(options);
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order)
      if (replace_one(module, graph, id, at, diagnostics)) ++changed;
  }
  return changed;
}

}  // namespace rlx
