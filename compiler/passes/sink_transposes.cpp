// SPDX-License-Identifier: Apache-2.0
// transpose(f(x)) as f(transpose(x)) where elementwise nodes stand on both sides, so that one
// kernel computes both: a scale of channels that are last before an image of planes is added.
#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"

namespace rlx {
namespace {

bool is_scalar(const Node& node) {
  return find_op(node.op)->scalar != nullptr && node.outputs.size() == 1;
}

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
  if (!producer || sole_reader(graph, x) != id || !is_scalar(graph.node(*producer))) return {};
  const std::optional<NodeId> reader = sole_reader(graph, transpose.outputs[0]);
  if (!reader || !is_scalar(graph.node(*reader))) return {};
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

}  // namespace rlx
