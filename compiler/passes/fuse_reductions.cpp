// SPDX-License-Identifier: Apache-2.0
// Elementwise chains up to the end of a reduction: a chain that only a reduction reads is computed
// inside it, and its result never reaches memory.
#include <algorithm>

#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/reduce_chain.h"
#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/rows/reduce_lower.h"
#include "compiler/passes/chain.h"
#include "compiler/passes/pass.h"
#include "compiler/support/blocks.h"

namespace rlx {

// One over no axes may be a mere view of its input.
bool is_reduction(const Graph& graph, const Node& node) {
  if (find_op(node.op)->lower != lower_reduce || !node.region.empty()) return false;
  const auto axes = node.attributes.find("axes");
  if (axes != node.attributes.end()) return !std::get<Ints>(axes->second).empty();
  return !graph.value(*node.inputs[0]).type.shape.empty();
}

namespace {

// f64 keeps its own kernels, which exist for some ops only; 8-bit floats and c64 have functions
// that regions alone include.
bool is_foreign(DType dtype) {
  return dtype == DType::f64 || is_float8(dtype) || dtype == DType::c64;
}

bool uses_foreign_types(const Graph& graph, const Node& producer) {
  const auto reads_foreign = [&graph](const std::optional<ValueId>& id) {
    return is_foreign(graph.value(*id).type.dtype);
  };
  const std::vector<RegionStep> steps = chain_of(graph, producer);
  return std::any_of(producer.inputs.begin(), producer.inputs.end(), reads_foreign) ||
         std::any_of(steps.begin(), steps.end(),
                     [](const RegionStep& step) { return is_foreign(step.dtype); });
}

// A reduction walks its chain by rows, not by coordinates.
bool reads_positions(const Graph& graph, const Node& producer) {
  const std::vector<RegionStep> steps = chain_of(graph, producer);
  return std::any_of(steps.begin(), steps.end(),
                     [](const RegionStep& step) { return is_positional(step.op); });
}

std::optional<NodeId> chain_before(const Graph& graph, const Node& reduction) {
  const ValueId x = *reduction.inputs[0];
  const Value& value = graph.value(x);
  if (value.origin != ValueOrigin::Node || graph.is_output(x)) return std::nullopt;
  if (graph.reader_count(x) != 1) return std::nullopt;
  const Node& producer = graph.node(*value.producer);
  const bool fits = is_elementwise(producer) && has_chain_types(graph, producer) &&
                    producer.inputs.size() <= kMaxReduceOperands &&
                    !uses_foreign_types(graph, producer) && !reads_positions(graph, producer) &&
                    cost_of(graph, chain_of(graph, producer), producer.inputs) <= kMostInlineCost;
  return fits ? value.producer : std::nullopt;
}

}  // namespace

size_t fuse_reductions(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (!is_reduction(graph, graph.node(id))) continue;
      const std::optional<NodeId> producer = chain_before(graph, graph.node(id));
      if (!producer) continue;
      graph.change_node(id, [&](Node& reduction) {
        reduction.region = chain_of(graph, graph.node(*producer));
        reduction.inputs = graph.node(*producer).inputs;
      });
      graph.remove_node(*producer);
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
