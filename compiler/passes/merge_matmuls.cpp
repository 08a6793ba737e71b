// SPDX-License-Identifier: Apache-2.0
// Matmuls of one input with constant weights of one layout become one matmul: the weights and
// biases are concatenated (folding does it once), the results are slices. Fewer and fuller kernels.
#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

// f64 folding of wider weights than this would cost more memory than it is worth.
constexpr int64_t kMostElements = int64_t{1} << 26;

bool flag_of(const Node& node, const char* name) {
  const auto found = node.attributes.find(name);
  return found != node.attributes.end() && std::get<bool>(found->second);
}

bool is_candidate(const Module& module, const Graph& graph, const Node& node) {
  if (node.op != "fused_matmul_bias_act" || node.attributes.contains("activation")) return false;
  if (node.inputs.size() > 3 && node.inputs[3]) return false;
  if (graph.is_output(node.outputs[0])) return false;
  const Weight* weight = weight_of(module, graph, *node.inputs[1]);
  const bool known = weight != nullptr && is_known(*weight);
  if (!known || element_count(weight->type.shape) > kMostElements) return false;
  if (node.inputs.size() < 3 || !node.inputs[2]) return true;
  const Weight* bias = weight_of(module, graph, *node.inputs[2]);
  const Shape columns = {graph.value(node.outputs[0]).type.shape.back()};
  return bias != nullptr && is_known(*bias) && bias->type.shape == columns;
}

// What the matmuls must share in an optional input: both lack it, or both have it in one dtype.
std::optional<DType> input_dtype(const Graph& graph, const Node& node, size_t input) {
  if (node.inputs.size() <= input || !node.inputs[input]) return std::nullopt;
  return graph.value(*node.inputs[input]).type.dtype;
}

bool agree(const Graph& graph, const Node& a, const Node& b) {
  return a.inputs[0] == b.inputs[0] && input_dtype(graph, a, 1) == input_dtype(graph, b, 1) &&
         input_dtype(graph, a, 2) == input_dtype(graph, b, 2) &&
         flag_of(a, "trans_w") == flag_of(b, "trans_w");
}

class Merger {
 public:
  Merger(Graph& graph, std::vector<NodeId> nodes) : graph_(graph), nodes_(std::move(nodes)) {}

  void run() {
    const Node first = graph_.node(nodes_[0]);
    const bool trans = flag_of(first, "trans_w");
    std::vector<std::optional<ValueId>> inputs = {first.inputs[0], concat(1, trans ? 0 : 1)};
    if (first.inputs.size() > 2 && first.inputs[2]) inputs.push_back(concat(2, 0));
    Attributes attributes;
    if (trans) attributes["trans_w"] = true;
    const ValueId joined =
        add("fused_matmul_bias_act", first.name + ".joined", inputs, std::move(attributes));
    int64_t start = 0;
    const auto axis = static_cast<int64_t>(graph_.value(joined).type.shape.size()) - 1;
    for (NodeId id : nodes_) {
      const ValueId old = graph_.node(id).outputs[0];
      const int64_t columns = graph_.value(old).type.shape.back();
      const ValueId part = add("narrow", graph_.value(old).name + ".part", {joined},
                               {{"axis", axis}, {"start", start}, {"len", columns}});
      start += columns;
      graph_.replace_uses(old, part);
    }
    for (NodeId id : nodes_) graph_.remove_node(id);
  }

 private:
  ValueId concat(size_t input, int64_t axis) {
    std::vector<std::optional<ValueId>> parts;
    for (NodeId id : nodes_) parts.push_back(graph_.node(id).inputs[input]);
    return add("concat", graph_.value(*parts[0]).name + ".joined", parts, {{"axis", axis}});
  }

  ValueId add(const std::string& op, const std::string& stem,
              std::vector<std::optional<ValueId>> inputs, Attributes attributes) {
    const std::string name = graph_.fresh_name(stem);
    const ValueId output =
        graph_.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}});
    const Node& origin = graph_.node(nodes_[0]);
    const NodeId id = graph_.insert_node_before(nodes_[0], {.name = name,
                                                            .op = op,
                                                            .inputs = std::move(inputs),
                                                            .outputs = {output},
                                                            .attributes = std::move(attributes),
                                                            .region = {},
                                                            .place = origin.place,
                                                            .source = origin.source});
    Diagnostics diagnostics;
    RLX_CHECK(check_and_infer(graph_, id, diagnostics), diagnostics.text());
    return output;
  }

  Graph& graph_;
  std::vector<NodeId> nodes_;
};

size_t merge_in(const Module& module, Graph& graph) {
  std::vector<std::vector<NodeId>> groups;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_candidate(module, graph, node)) continue;
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& members) {
      return agree(graph, graph.node(members[0]), node);
    });
    if (group == groups.end()) {
      groups.push_back({id});
    } else {
      group->push_back(id);
    }
  }
  size_t merged = 0;
  for (const std::vector<NodeId>& group : groups) {
    if (group.size() < 2) continue;
    Merger(graph, group).run();
    merged += group.size();
  }
  return merged;
}

}  // namespace

size_t merge_matmuls(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) changed += merge_in(module, graph);
  return changed;
}

}  // namespace rlx
