// SPDX-License-Identifier: Apache-2.0
// Products of one input with weights of one layout become one product: the weights and biases are
// concatenated (folding does it once, on the host or in the init entry), the results are slices.
// Fewer and fuller kernels. Kernels of weights in blocks read up to three matrices where they are.
#include <map>
#include <tuple>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/weighted/weighted_product.h"
#include "compiler/passes/block_products.h"
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

// The product's result as the joined one's columns from `start` on, before `position`.
void replace_by_part(Graph& graph, NodeId position, ValueId old, ValueId joined, int64_t start) {
  const auto axis = static_cast<int64_t>(graph.value(joined).type.shape.size()) - 1;
  const int64_t columns = graph.value(old).type.shape.back();
  const ValueId part =
      add_node_before(graph, position, "narrow", graph.value(old).name + ".part", {joined},
                      {{"axis", axis}, {"start", start}, {"len", columns}});
  graph.replace_uses(old, part);
}

void merge(Graph& graph, const std::vector<Member>& members) {
  const NodeId position = members[0].node;
  // As it is now: what it reads may itself have become a part of a joined product.
  const ProductNode first = product_of(graph, graph.node(position)).value();
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
  for (const Member& member : members) {
    const ValueId old = graph.node(member.node).outputs[0];
    replace_by_part(graph, position, old, joined, start);
    start += graph.value(old).type.shape.back();
  }
  for (const Member& member : members) graph.remove_node(member.node);
}

// ---- weights in blocks ----

using In = FusedDequantInput;

struct BlockMember {
  NodeId node;
  BlockProduct product;
};

// Products that can be one agree in it: x, and the types of weights, results and biases.
using BlockKey = std::tuple<ValueId, DType, DType, std::optional<DType>>;

std::optional<BlockProduct> block_candidate(const Graph& graph, const Node& node) {
  std::optional<BlockProduct> product = block_product_of(graph, node);
  if (!product || !product->is_plain() || graph.is_output(node.outputs[0])) return std::nullopt;
  return product;
}

BlockKey block_key_of(const Graph& graph, const BlockProduct& product, ValueId result) {
  const auto dtype = [&graph](ValueId id) { return graph.value(id).type.dtype; };
  const std::optional<ValueId> bias = product.inputs[In::kBias];
  return {product.x(), dtype(product.w()), dtype(result),
          bias ? std::optional(dtype(*bias)) : std::nullopt};
}

// The kernels read the matrices where they are; their biases become one.
void merge_blocks(Graph& graph, const std::vector<BlockMember>& members) {
  const NodeId position = members[0].node;
  const ValueId first = graph.node(position).outputs[0];
  // As it is now: what it reads may itself have become a part of a joined product.
  BlockProduct joined = block_product_of(graph, graph.node(position)).value();
  std::vector<std::optional<ValueId>> biases;
  for (size_t i = 0; i < members.size(); ++i) {
    joined.inputs[In::kW + i] = members[i].product.w();
    biases.push_back(members[i].product.inputs[In::kBias]);
  }
  if (joined.inputs[In::kBias]) {
    joined.inputs[In::kBias] =
        add_node_before(graph, position, "concat", graph.value(*biases[0]).name + ".joined", biases,
                        {{"axis", int64_t{0}}});
  }
  const ValueId y = add_block_product(graph, position, graph.node(position).name + ".joined",
                                      std::move(joined), graph.value(first).type.dtype);
  int64_t start = 0;
  for (const BlockMember& member : members) {
    const ValueId old = graph.node(member.node).outputs[0];
    const int64_t columns = graph.value(old).type.shape.back();
    replace_by_part(graph, position, old, y, start);
    start += columns;
  }
  for (const BlockMember& member : members) graph.remove_node(member.node);
}

size_t merge_blocks_in(Graph& graph) {
  std::vector<std::vector<BlockMember>> groups;
  std::map<BlockKey, size_t> group_of;  // the one that still has room
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::optional<BlockProduct> product = block_candidate(graph, node);
    if (!product) continue;
    const auto [place, fresh] =
        group_of.try_emplace(block_key_of(graph, *product, node.outputs[0]), groups.size());
    if (!fresh && groups[place->second].size() == kMostBlockMatrices) place->second = groups.size();
    if (place->second == groups.size()) groups.emplace_back();
    groups[place->second].push_back({id, std::move(*product)});
  }
  size_t merged = 0;
  for (const std::vector<BlockMember>& group : groups) {
    if (group.size() < 2) continue;
    merge_blocks(graph, group);
    merged += group.size();
  }
  return merged;
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
  for (Graph& graph : module.entries) changed += merge_in(module, graph) + merge_blocks_in(graph);
  return changed;
}

}  // namespace rlx
