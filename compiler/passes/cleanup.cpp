// SPDX-License-Identifier: Apache-2.0
// Dead nodes, common subexpressions, decomposition.
#include <map>
#include <tuple>

#include "compiler/ops/op_def.h"
#include "compiler/ops/registered_ops.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

size_t remove_dead_nodes(Graph& graph) {
  std::vector<bool> needed(graph.value_count());
  for (ValueId id : graph.outputs()) needed[index_of(id)] = true;
  std::vector<NodeId> dead;
  const std::vector<NodeId>& order = graph.order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = graph.node(*it);
    bool live = find_op(node.op)->has_effect;
    for (ValueId output : node.outputs) live = live || needed[index_of(output)];
    if (!live) {
      dead.push_back(*it);
      continue;
    }
    for (const std::optional<ValueId>& input : node.inputs) {
      if (input) needed[index_of(*input)] = true;
    }
  }
  for (NodeId id : dead) graph.remove_node(id);
  return dead.size();
}

using NodeKey = std::tuple<std::string, std::vector<std::optional<ValueId>>, std::string, size_t>;

// As text, because numbers compare otherwise than they compute: -0.0 equals 0.0, and NaN has no
// place in an order.
std::string attributes_key(const Attributes& attributes) {
  std::string key;
  for (const auto& [name, value] : attributes) key += name + "=" + to_string(value) + ";";
  return key;
}

size_t merge_common_nodes(Graph& graph) {
  std::map<NodeKey, NodeId> seen;
  size_t merged = 0;
  const std::vector<NodeId> order = graph.order();
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (find_op(node.op)->has_effect || !node.region.empty() || !node.bodies.empty()) continue;
    const auto [first, fresh] = seen.try_emplace(
        NodeKey(node.op, node.inputs, attributes_key(node.attributes), node.outputs.size()), id);
    if (fresh) continue;
    const Node& same = graph.node(first->second);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      graph.replace_uses(node.outputs[i], same.outputs[i]);
    }
    graph.remove_node(id);
    ++merged;
  }
  return merged;
}

}  // namespace

size_t remove_dead(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) changed += remove_dead_nodes(graph);
  return changed;
}

size_t merge_common(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) changed += merge_common_nodes(graph);
  return changed;
}

bool decompose_node(Module& module, Graph& graph, NodeId id, Diagnostics& diagnostics) {
  const OpDef& op = *find_op(graph.node(id).op);
  const std::string name = graph.node(id).name;
  RewriteContext ctx(op, module, graph, id, diagnostics);
  bool is_good = false;
  const std::optional<Dim> read = free_size_read_by([&] { is_good = op.decompose(ctx); });
  if (read) report_free_size(diagnostics, std::string(op.name), name, "its decomposition", *read);
  RLX_CHECK(is_good || diagnostics.has_errors(), "decomposition of " + name);
  return is_good && !read;
}

size_t decompose(Module& module, const PassOptions&, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    // A decomposition may use ops that decompose in turn: repeat until none is left.
    for (bool again = true; again;) {
      again = false;
      const std::vector<NodeId> order = graph.order();
      for (NodeId id : order) {
        const OpDef& op = *find_op(graph.node(id).op);
        // An extension that has a kernel keeps its graph for the evaluator and for gradients.
        if (op.decompose == nullptr || (is_registered(op.name) && op.lower != nullptr)) continue;
        if (!decompose_node(module, graph, id, diagnostics)) return changed;
        // An op with a kernel for some nodes leaves those as they are.
        if (graph.contains(id)) continue;
        ++changed;
        again = true;
      }
    }
  }
  return changed;
}

}  // namespace rlx
