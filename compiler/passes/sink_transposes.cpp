// SPDX-License-Identifier: Apache-2.0
// transpose(f(x)) as f(transpose(x)) where elementwise nodes stand on both sides, so that one
// kernel computes both: a scale of channels that are last before an image of planes is added. And
// products of turned lines as products of the lines as they stand, turned behind them, where that
// meets its inverse or views that read any strides; activations and residuals behind views of
// products before these.
#include <algorithm>

#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"
#include "compiler/passes/view_chain.h"

namespace rlx {
namespace {

// What stands once for the whole result.
bool is_one_element(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& size) { return size == 1; });
}

// The input of an elementwise node that has its result's shape, where the others are smaller by
// more than one axis: two whole ones would be read in another order than they lie in.
std::optional<size_t> only_whole_input(const Graph& graph, const Node& node) {
  const Shape& result = graph.value(node.outputs[0]).type.shape;
  std::optional<size_t> whole;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i]) continue;
    const Shape& shape = graph.value(*node.inputs[i]).type.shape;
    if (shape == result) {
      if (whole) return std::nullopt;
      whole = i;
      continue;
    }
    const auto free = [](const Dim& size) { return size.is_free(); };
    if (std::any_of(shape.begin(), shape.end(), free)) return std::nullopt;
    if (std::count_if(shape.begin(), shape.end(), [](const Dim& size) { return size != 1; }) > 1)
      return std::nullopt;
  }
  return whole;
}

// An input of at most one axis that is not 1, as the transposed result meets it.
ValueId turned_vector(Graph& graph, NodeId before, ValueId input, const Ints& perm) {
  const Shape& shape = graph.value(input).type.shape;
  if (is_one_element(shape)) return input;
  const size_t lead = perm.size() - shape.size();
  Ints turned;
  for (const int64_t axis : perm) {
    const auto at = static_cast<size_t>(axis);
    turned.push_back(at < lead ? 1 : static_cast<int64_t>(shape[at - lead]));
  }
  return add_node_before(graph, before, "reshape", graph.value(input).name + ".turned", {input},
                         {{"shape", turned}});
}

// The transpose in front of the elementwise node, where there is one now.
std::optional<NodeId> sink(Graph& graph, NodeId id) {
  const Node transpose = graph.node(id);
  if (transpose.op != OpId::transpose || !transpose.attributes.contains("perm")) return {};
  const ValueId x = *transpose.inputs[0];
  const std::optional<NodeId> producer = graph.value(x).producer;
  if (!producer || sole_reader(graph, x) != id || !is_scalar_node(graph.node(*producer))) return {};
  const std::optional<NodeId> reader = sole_reader(graph, transpose.outputs[0]);
  if (!reader || !is_scalar_node(graph.node(*reader))) return {};
  const Node scalar = graph.node(*producer);
  const std::optional<size_t> whole = only_whole_input(graph, scalar);
  if (!whole) return {};

  const Ints perm = std::get<Ints>(transpose.attributes.at("perm"));
  std::vector<std::optional<ValueId>> inputs = scalar.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    inputs[i] = i == *whole ? add_node_before(graph, id, "transpose", transpose.name, {inputs[i]},
                                              transpose.attributes)
                            : turned_vector(graph, id, *inputs[i], perm);
  }
  const ValueId turned =
      add_node_before(graph, id, scalar.op, scalar.name, inputs, scalar.attributes);
  graph.replace_uses(transpose.outputs[0], turned);
  graph.remove_node(id);
  graph.remove_node(*producer);
  return graph.value(*inputs[*whole]).producer;
}

// ---- lines of products ----

// A node of a chain of lines, and what makes its result of that of the node with straight lines.
struct LineNode {
  NodeId id{};
  size_t input = 0;
  ViewChain undo;
};

// True where no reader of a value pays more for views of `after` than for those of `before`.
bool costs_no_more(const Graph& graph, ValueId value, const ViewChain& before,
                   const ViewChain& after) {
  bool is_read = graph.is_output(value);
  for (const NodeId id : graph.readers(value)) {
    const Node& reader = graph.node(id);
    if (!is_chained_view(reader)) is_read = true;
    if (!is_chained_view(reader)) continue;
    for (const ValueId output : reader.outputs) {
      ViewChain old_view = before;
      ViewChain new_view = after;
      if (!old_view.append(graph, reader, output) || !new_view.append(graph, reader, output) ||
          !costs_no_more(graph, output, old_view, new_view))
        return false;
    }
  }
  return !is_read || after.cost() <= before.cost();
}

// The nodes behind a product, itself the first, that may compute straight lines in its place.
std::vector<LineNode> line_nodes(const Graph& graph, NodeId product, const ViewChain& undo) {
  std::vector<LineNode> nodes;
  std::optional<NodeId> next = product;
  ValueId at = *graph.node(product).inputs[0];
  ViewChain views = undo;
  while (next) {
    const Node& node = graph.node(*next);
    const ValueId result = node.outputs[0];
    if (is_chained_view(node)) {
      if (!views.append(graph, node, result)) break;
    } else {
      const std::optional<size_t> input = line_input(graph, node);
      const Shape& shape = graph.value(result).type.shape;
      if (!input || node.inputs[*input] != at || shape.back() == 1 || !views.keeps_last_dim())
        break;
      views = views.with_last_dim(shape.back());
      nodes.push_back({.id = *next, .input = *input, .undo = views});
    }
    if (node.outputs.size() != 1) break;
    at = result;
    next = sole_reader(graph, at);
  }
  return nodes;
}

// An activation behind views of what a product or a convolution computes stands before them, where
// the kernel may compute it.
bool lift_activation(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!activation_fits(node)) return false;
  const ValueId viewed = *node.inputs[0];
  ValueId x = viewed;
  const Node* made_by = producer_of(graph, x);
  while (made_by != nullptr && (is_reshaping(*made_by) || made_by->op == OpId::transpose)) {
    if (!sole_reader(graph, x)) return false;
    x = *made_by->inputs[0];
    made_by = producer_of(graph, x);
  }
  const bool computes =
      made_by != nullptr &&
      (made_by->op == OpId::conv || made_by->op == OpId::add || product_of(graph, *made_by));
  const std::optional<NodeId> first_view = sole_reader(graph, x);
  if (x == viewed || !computes || !first_view) return false;
  const ValueId y = node.outputs[0];
  const ValueId active =
      add_node_before(graph, *first_view, node.op, node.name, {x}, node.attributes);
  graph.set_input(*first_view, 0, active);
  graph.replace_uses(y, viewed);
  graph.remove_node(id);
  return true;
}

// A reshape that alone reads a product, perhaps with its bias; nullopt of others.
const Node* reshaped_product(const Graph& graph, ValueId id) {
  const Node* view = producer_of(graph, id);
  if (view == nullptr || !is_reshaping(*view) || !sole_reader(graph, id)) return nullptr;
  const ValueId x = *view->inputs[0];
  const Node* made_by = producer_of(graph, x);
  if (made_by != nullptr && made_by->op == OpId::add) {
    const std::optional<size_t> lines = line_input(graph, *made_by);
    made_by = lines ? producer_of(graph, *made_by->inputs[*lines]) : nullptr;
  }
  const bool is_product = made_by != nullptr && product_of(graph, *made_by);
  return is_product && sole_reader(graph, x) ? view : nullptr;
}

// What is added to a reshaped product is added to the product, where its kernel may do so.
bool lift_residual(Graph& graph, NodeId id) {
  const Node& add = graph.node(id);
  if (add.op != OpId::add) return false;
  const TensorType type = graph.value(add.outputs[0]).type;
  const Node* view = nullptr;
  ValueId residual{};
  for (size_t i = 0; i < 2 && view == nullptr; ++i) {
    residual = *add.inputs[1 - i];
    const Node* other = producer_of(graph, residual);
    const bool is_dense = other == nullptr || !is_chained_view(*other) || is_reshaping(*other);
    if (is_dense && graph.value(residual).type == type)
      view = reshaped_product(graph, *add.inputs[i]);
  }
  if (view == nullptr || graph.value(view->outputs[0]).type != type) return false;
  const ValueId x = *view->inputs[0];
  const ValueId result = add.outputs[0];
  const Attributes attributes = add.attributes;
  const std::string name = add.name;
  NodeEmitter emitter(graph, id);
  const ValueId as_product = emitter.reshape(residual, graph.value(x).type.shape);
  const ValueId sum = add_node_before(graph, id, "add", name, {x, as_product}, attributes);
  graph.replace_uses(result, emitter.reshape(sum, type.shape));
  graph.remove_node(id);
  return true;
}

bool straighten_lines(Graph& graph, NodeId id) {
  const Node& product = graph.node(id);
  const bool is_dead =
      graph.reader_count(product.outputs[0]) == 0 && !graph.is_output(product.outputs[0]);
  if (is_dead || !product_of(graph, product)) return false;
  const std::optional<FoundChain> found = chain_before(graph, *product.inputs[0]);
  if (!found) return false;
  const std::optional<ViewChain::Straight> straight = found->chain.straight();
  if (!straight || straight->chain.cost() > found->chain.cost()) return false;

  std::vector<LineNode> nodes = line_nodes(graph, id, straight->undo);
  const auto fits = [&graph](const LineNode& last) {
    const ValueId result = graph.node(last.id).outputs[0];
    const std::optional<ViewChain> plain = ViewChain::of(graph.value(result).type);
    return plain && costs_no_more(graph, result, *plain, last.undo);
  };
  while (!nodes.empty() && !fits(nodes.back())) nodes.pop_back();
  if (nodes.empty()) return false;

  ValueId lines = straight->chain.build(graph, id, found->source);
  for (const LineNode& line : nodes) {
    const Node node = graph.node(line.id);
    std::vector<std::optional<ValueId>> inputs = node.inputs;
    inputs[line.input] = lines;
    lines = add_node_before(graph, line.id, node.op, node.name, std::move(inputs), node.attributes);
  }
  const LineNode& last = nodes.back();
  graph.replace_uses(graph.node(last.id).outputs[0], last.undo.build(graph, last.id, lines));
  return true;
}

}  // namespace

size_t sink_transposes(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      std::optional<NodeId> at = graph.contains(id) ? std::optional(id) : std::nullopt;
      while (at && (at = sink(graph, *at))) ++changed;
    }
  }
  return changed;
}

size_t straighten_products(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      if (straighten_lines(graph, id) || lift_activation(graph, id) || lift_residual(graph, id))
        ++changed;
    }
  }
  if (changed == 0) return 0;
  // Turns meet the views behind them.
  remove_dead(module, options, diagnostics);
  canonicalise(module, options, diagnostics);
  remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
