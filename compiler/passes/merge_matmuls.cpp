// SPDX-License-Identifier: Apache-2.0
// Products of one input with weights of one layout become one product: the weights and biases are
// concatenated (folding does it once, on the host or in the init entry), the results are slices.
// Fewer and fuller kernels.
#include <map>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"

namespace rlx {
namespace {

// f64 folding of wider weights than this would cost more memory than it is worth.
constexpr int64_t kMostElements = int64_t{1} << 26;
// Of products in one. All results of a joined product live until the last of them is read, and its
// columns are counted in 32 bits; a 64th of the launches is as good as none of them.
constexpr size_t kMostJoined = 64;

// A product of a weight without epilogue but a bias per column, whose result may become a slice.
std::optional<ProductNode> candidate(const Module& module, const Graph& graph, const Node& node) {
  std::optional<ProductNode> product = product_of(graph, node);
  if (!product || product->residual || !product->activation.empty()) return std::nullopt;
  if (graph.is_output(node.outputs[0])) return std::nullopt;
  const Weight* weight = weight_of(module, graph, product->w);
  if (weight == nullptr) return std::nullopt;
  if (is_known(*weight) && element_count(weight->type.shape) > kMostElements) return std::nullopt;
  if (!product->bias) return product;
  const Weight* bias = weight_of(module, graph, *product->bias);
  const Shape columns = {graph.value(node.outputs[0]).type.shape.back()};
  return bias != nullptr && bias->type.shape == columns ? product : std::nullopt;
}

// Products that can be one agree in it: of one x, weights of one layout and dtype, and biases
// alike.
struct GroupKey {
  ValueId x{};
  bool rows = false;
  DType w{};
  std::optional<DType> bias;
  auto operator<=>(const GroupKey&) const = default;
};

GroupKey key_of(const Graph& graph, const ProductNode& product) {
  GroupKey key{.x = product.x, .rows = product.rows, .w = graph.value(product.w).type.dtype};
  if (product.bias) key.bias = graph.value(*product.bias).type.dtype;
  return key;
}

struct Member {
  NodeId node;
  ProductNode product;
};

// The products that become one.
struct Group {
  std::vector<Member> members;
  int64_t columns = 0;

  [[nodiscard]] bool has_room(int64_t more) const {
    return members.size() < kMostJoined && columns <= kCountLimit - more;
  }
};

void merge(Graph& graph, const std::vector<Member>& members) {
  const NodeId position = members[0].node;
  const ProductNode& first = members[0].product;
  const std::string stem = graph.node(position).name + ".joined";
  const auto join = [&](ValueId (*part)(const ProductNode&), int64_t axis) {
    std::vector<std::optional<ValueId>> parts;
    for (const Member& member : members) parts.emplace_back(part(member.product));
    return add_node_before(graph, position, "concat", graph.value(*parts[0]).name + ".joined",
                           parts, {{"axis", axis}});
  };
  std::vector<std::optional<ValueId>> inputs = {
      first.x, join([](const ProductNode& product) { return product.w; }, first.rows ? 0 : 1)};
  if (first.bias)
    inputs.push_back(join([](const ProductNode& product) { return *product.bias; }, 0));
  Attributes attributes;
  if (first.rows) attributes["trans_w"] = true;
  const ValueId joined = add_node_before(graph, position, "fused_matmul_bias_act", stem,
                                         std::move(inputs), std::move(attributes));
  int64_t start = 0;
  const auto axis = static_cast<int64_t>(graph.value(joined).type.shape.size()) - 1;
  for (const Member& member : members) {
    const ValueId old = graph.node(member.node).outputs[0];
    const int64_t columns = graph.value(old).type.shape.back();
    const ValueId part =
        add_node_before(graph, position, "narrow", graph.value(old).name + ".part", {joined},
                        {{"axis", axis}, {"start", start}, {"len", columns}});
    start += columns;
    graph.replace_uses(old, part);
  }
  for (const Member& member : members) graph.remove_node(member.node);
}

size_t merge_in(const Module& module, Graph& graph) {
  std::vector<Group> groups;
  std::map<GroupKey, size_t> group_of;  // the one that still has room
  for (NodeId id : graph.order()) {
    const std::optional<ProductNode> product = candidate(module, graph, graph.node(id));
    if (!product) continue;
    const int64_t columns = graph.value(graph.node(id).outputs[0]).type.shape.back();
    const auto [place, fresh] = group_of.try_emplace(key_of(graph, *product), groups.size());
    if (!fresh && !groups[place->second].has_room(columns)) place->second = groups.size();
    if (place->second == groups.size()) groups.emplace_back();
    Group& group = groups[place->second];
    group.members.push_back({id, *product});
    group.columns += columns;
  }
  size_t merged = 0;
  for (const Group& group : groups) {
    if (group.members.size() < 2) continue;
    merge(graph, group.members);
    merged += group.members.size();
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
