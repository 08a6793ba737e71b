// SPDX-License-Identifier: Apache-2.0
// A cast of a norm's result to halves that alone reads it is the norm's own rounding: what a norm
// computes is f32, so the bits stay.
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

bool round_norm(Graph& graph, NodeId id, Diagnostics& diagnostics) {
  const Node& norm = graph.node(id);
  if (norm.op != OpId::layer_norm && norm.op != OpId::rms_norm) return false;
  const ValueId y = norm.outputs[0];
  if (graph.value(y).type.dtype != DType::f32) return false;
  const std::optional<NodeId> reader = sole_reader(graph, y);
  if (!reader || graph.node(*reader).op != OpId::cast) return false;
  const ValueId rounded = graph.node(*reader).outputs[0];
  const DType dtype = graph.value(rounded).type.dtype;
  if (!is_half(dtype)) return false;
  Node result = norm;
  result.attributes["out_dtype"] = std::string(name_of(dtype));
  result.outputs[0] = rounded;
  const NodeId added = graph.insert_node_before(id, std::move(result));
  graph.remove_node(id);
  graph.remove_node(*reader);
  RLX_CHECK(check_and_infer(graph, added, diagnostics), diagnostics.text());
  return true;
}

}  // namespace

size_t round_norms(Module& module, const PassOptions&, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      if (graph.contains(id) && round_norm(graph, id, diagnostics)) ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
