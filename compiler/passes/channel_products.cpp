// SPDX-License-Identifier: Apache-2.0
// Products along an inner axis, which models write as a transpose that brings the axis to the end,
// linear layers, and a transpose back: mixed tokens (MLP-Mixer, gMLP), mixed heads (CaiT). They are
// convolutions of one element over that axis as it stands, and nothing is transposed.
#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"

namespace rlx {
namespace {

// Fewer elements behind the axis are no pixels worth the name: a product of lines reads them well.
constexpr int64_t kLeastPixels = 8;

// The axis that a transpose brings to the end, the others in order; nullopt of other permutations.
std::optional<size_t> axis_to_end(const std::vector<size_t>& perm) {
  if (perm.size() < 2 || perm.back() + 1 == perm.size()) return std::nullopt;
  const size_t axis = perm.back();
  for (size_t i = 0; i + 1 < perm.size(); ++i) {
    if (perm[i] != (i < axis ? i : i + 1)) return std::nullopt;
  }
  return axis;
}

// True for the way back: the last axis comes to `axis`.
bool brings_back(const std::vector<size_t>& perm, size_t axis) {
  if (perm[axis] + 1 != perm.size()) return false;
  for (size_t i = 0; i < perm.size(); ++i) {
    if (i != axis && perm[i] != (i < axis ? i : i - 1)) return false;
  }
  return true;
}

// What stands between the two transposes.
struct Chain {
  ValueId source{};  // before the first transpose
  size_t axis = 0;   // of the source, over which products go
  std::vector<NodeId> nodes;
  NodeId back{};  // the second transpose
};

std::optional<Chain> chain_from(const Module& module, const Graph& graph, NodeId first) {
  const Node& transpose = graph.node(first);
  if (transpose.op != OpId::transpose) return std::nullopt;
  const std::optional<size_t> axis = axis_to_end(permutation_of(graph, transpose));
  if (!axis) return std::nullopt;
  Chain chain{.source = *transpose.inputs[0], .axis = *axis, .nodes = {}, .back = {}};
  const Shape& shape = graph.value(chain.source).type.shape;
  const Dim pixels =
      element_count(Shape(shape.begin() + static_cast<int64_t>(*axis) + 1, shape.end()));
  if (pixels.bound() < kLeastPixels) return std::nullopt;
  ValueId at = transpose.outputs[0];
  bool has_product = false;
  while (const std::optional<NodeId> reader = sole_reader(graph, at)) {
    const Node& node = graph.node(*reader);
    if (node.op == OpId::transpose) {
      chain.back = *reader;
      const bool is_back = brings_back(permutation_of(graph, node), *axis);
      return has_product && is_back ? std::optional(chain) : std::nullopt;
    }
    const std::optional<size_t> lines = line_input(graph, node);
    if (!lines || node.inputs[*lines] != at) return std::nullopt;
    if (const std::optional<ProductNode> product = product_of(graph, node)) {
      if (weight_of(module, graph, product->w) == nullptr) return std::nullopt;
      has_product = true;
    }
    chain.nodes.push_back(*reader);
    at = node.outputs[0];
  }
  return std::nullopt;
}

// The chain's nodes over [images, channels, pixels].
class Straightener {
 public:
  Straightener(Graph& graph, const Chain& chain) : graph_(graph), chain_(chain) {}

  void run() {
    const Shape shape = graph_.value(chain_.source).type.shape;
    const auto axis = shape.begin() + static_cast<int64_t>(chain_.axis);
    const Dim images = element_count(Shape(shape.begin(), axis));
    const Dim pixels = element_count(Shape(axis + 1, shape.end()));
    NodeEmitter first(graph_, chain_.nodes.front());
    at_ = first.reshape(chain_.source, {images, *axis, pixels});
    for (size_t i = 0; i < chain_.nodes.size(); ++i) {
      const NodeId id = chain_.nodes[i];
      const Node node = graph_.node(id);
      std::optional<ProductNode> product = product_of(graph_, node);
      if (!product) {
        at_ = scaled(id, node);
        continue;
      }
      const std::optional<ValueId> bias = bias_behind(i, *product);
      if (bias) {
        product->bias = bias;
        ++i;
      }
      at_ = convolved(chain_.nodes[i], node, *product);
    }
    const ValueId result = graph_.node(chain_.back).outputs[0];
    NodeEmitter last(graph_, chain_.back);
    graph_.replace_uses(result, last.reshape(at_, graph_.value(result).type.shape));
  }

 private:
  // What the next node adds to each channel, where the convolution may add it.
  [[nodiscard]] std::optional<ValueId> bias_behind(size_t index, const ProductNode& product) const {
    if (product.bias || !product.activation.empty() || index + 1 == chain_.nodes.size())
      return std::nullopt;
    const Node& add = graph_.node(chain_.nodes[index + 1]);
    const TensorType& result = graph_.value(add.outputs[0]).type;
    if (add.op != OpId::add) return std::nullopt;
    const ValueId other = *add.inputs[1 - *line_input(graph_, add)];
    const TensorType& type = graph_.value(other).type;
    const bool is_bias =
        type.dtype == result.dtype && element_count(type.shape) == result.shape.back();
    return is_bias ? std::optional(other) : std::nullopt;
  }

  ValueId convolved(NodeId id, const Node& node, const ProductNode& product) {
    NodeEmitter emitter(graph_, id);
    ValueId w = product.w;
    if (!product.rows) w = emitter.emit("transpose", {w}, {{"perm", Ints{1, 0}}});
    const Shape rows = emitter.type(w).shape;
    std::vector<std::optional<ValueId>> inputs = {at_, emitter.reshape(w, {rows[0], rows[1], 1})};
    if (product.bias) inputs.emplace_back(emitter.reshape(*product.bias, {rows[0]}));
    return add_node_before(graph_, id, "conv", node.name, std::move(inputs), product.activation);
  }

  ValueId scaled(NodeId id, const Node& node) {
    const size_t whole = *line_input(graph_, node);
    NodeEmitter emitter(graph_, id);
    std::vector<std::optional<ValueId>> inputs = node.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i == whole) {
        inputs[i] = at_;
      } else if (inputs[i]) {
        inputs[i] = emitter.reshape(*inputs[i], {element_count(emitter.type(*inputs[i]).shape), 1});
      }
    }
    return add_node_before(graph_, id, node.op, node.name, std::move(inputs), node.attributes);
  }

  Graph& graph_;
  const Chain& chain_;
  ValueId at_{};
};

}  // namespace

size_t channel_products(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      if (!graph.contains(id)) continue;
      const std::optional<Chain> chain = chain_from(module, graph, id);
      if (!chain) continue;
      Straightener(graph, *chain).run();
      ++changed;
    }
  }
  if (changed != 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
