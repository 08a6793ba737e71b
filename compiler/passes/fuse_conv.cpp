// SPDX-License-Identifier: Apache-2.0
// Residual and activation into conv; filters into the order that kernels read.
#include <optional>

#include "compiler/ops/op_id.h"
#include "compiler/ops/vision/conv_offers.h"
#include "compiler/ops/vision/layouts.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

// Those of a kernel that takes every layout where there is no target, or no kernel.
ConvLayouts layouts_of(const PassOptions& options, const Graph& graph, const Node& node) {
  if (options.target == nullptr) return {};
  return decided_at_all_sizes(
      [&] { return conv_layouts(offer_context(options), graph, node).value_or(ConvLayouts{}); });
}

// What is added to the conv's result, where the node adds a value of the same type and nothing
// else.
std::optional<ValueId> added_value(const Graph& graph, const Node& node, ValueId result) {
  if (node.op != OpId::add || node.inputs[0] == node.inputs[1]) return std::nullopt;
  const ValueId other = *node.inputs[node.inputs[0] == result ? 1 : 0];
  const TensorType& type = graph.value(result).type;
  if (graph.value(other).type != type || graph.value(node.outputs[0]).type != type)
    return std::nullopt;
  return other;
}

// A conv grown by the nodes after it.
struct GrownConv {
  Node node;
  std::vector<NodeId> absorbed;

  void absorb(const Graph& graph, NodeId id) {
    node.outputs = graph.node(id).outputs;
    absorbed.push_back(id);
  }
};

GrownConv grown(const Graph& graph, const Node& conv, const PassOptions& options) {
  GrownConv result{.node = conv, .absorbed = {}};
  std::optional<NodeId> reader = sole_reader(graph, conv.outputs[0]);
  const bool has_residual = conv.inputs.size() > 3 && conv.inputs[3];
  if (reader && !has_residual && layouts_of(options, graph, conv).adds_residual) {
    if (const auto residual = added_value(graph, graph.node(*reader), conv.outputs[0])) {
      result.node.inputs.resize(4);
      result.node.inputs[3] = residual;
      result.absorb(graph, *reader);
      reader = sole_reader(graph, result.node.outputs[0]);
    }
  }
  if (reader && activation_fits(graph.node(*reader))) {
    const Node& activation = graph.node(*reader);
    result.node.attributes["activation"] = activation.op;
    result.node.attributes.insert(activation.attributes.begin(), activation.attributes.end());
    result.absorb(graph, *reader);
  }
  return result;
}

bool fuse_one(Graph& graph, NodeId id, const PassOptions& options) {
  const Node& conv = graph.node(id);
  if (conv.op != OpId::conv || conv.attributes.contains("activation")) return false;
  GrownConv fused = grown(graph, conv, options);
  if (fused.absorbed.empty()) return false;
  graph.insert_node_before(fused.absorbed.back(), std::move(fused.node));
  graph.remove_node(id);
  for (NodeId absorbed : fused.absorbed) graph.remove_node(absorbed);
  return true;
}

// ---- filters ----

NodeId emit_transpose(Graph& graph, NodeId before, ValueId x, const Ints& perm) {
  const std::string name = graph.fresh_name(graph.value(x).name + ".transpose");
  const ValueId output =
      graph.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}});
  const Node& reader = graph.node(before);
  const NodeId id = graph.insert_node_before(before, {.name = name,
                                                      .op = "transpose",
                                                      .inputs = {x},
                                                      .outputs = {output},
                                                      .attributes = {{"perm", perm}},
                                                      .region = {},
                                                      .place = reader.place,
                                                      .source = reader.source});
  Diagnostics diagnostics;
  RLX_CHECK(check_and_infer(graph, id, diagnostics), diagnostics.text());
  return id;
}

// The orders of the axes that a kernel reads, and back from there.
struct FilterAxes {
  Ints stored;
  Ints seen;
};
// [Co, spatial.., C] and [spatial.., C, Co], of filters [Co, C, spatial..].
FilterAxes channels_last_axes(size_t rank) {
  FilterAxes axes{.stored = {0}, .seen = {0, rank - 1}};
  for (size_t axis = 2; axis < rank; ++axis) {
    axes.stored.emplace_back(axis);
    axes.seen.emplace_back(axis - 1);
  }
  axes.stored.emplace_back(1);
  return axes;
}
FilterAxes filters_last_axes(size_t rank) {
  FilterAxes axes{.stored = {}, .seen = {rank - 1, rank - 2}};
  for (size_t axis = 2; axis < rank; ++axis) {
    axes.stored.emplace_back(axis);
    axes.seen.emplace_back(axis - 2);
  }
  axes.stored.insert(axes.stored.end(), {1, 0});
  return axes;
}

// The conv reads a weight of another order through a view.
bool lay_out(Module& module, Graph& graph, NodeId conv, const FilterAxes& order,
             Diagnostics& diagnostics) {
  const ValueId w = *graph.node(conv).inputs[1];
  const NodeId stored = emit_transpose(graph, conv, w, order.stored);
  const NodeId view = emit_transpose(graph, conv, graph.node(stored).outputs[0], order.seen);
  const bool folded = fold_weights(module, graph, graph.node(stored), diagnostics);
  if (folded) graph.set_input(conv, 1, graph.node(view).outputs[0]);
  if (!folded) graph.remove_node(view);
  graph.remove_node(stored);
  return folded;
}

// nullopt where the weights stay as they are, as those of single taps do, or are none.
std::optional<FilterAxes> wanted_order(const Module& module, const Graph& graph, const Node& conv,
                                       const PassOptions& options,
                                       const std::vector<bool>& channels_last) {
  if (conv.op != OpId::conv || weight_of(module, graph, *conv.inputs[1]) == nullptr)
    return std::nullopt;
  const Shape& shape = graph.value(*conv.inputs[1]).type.shape;
  const Dim taps = element_count(Shape(shape.begin() + 2, shape.end()));
  if (taps == 1) return std::nullopt;
  if (channels_last[index_of(conv.outputs[0])] &&
      conv_follows_channels_last(offer_context(options), graph, conv))
    return filters_last_axes(shape.size());
  const FilterOrder order = layouts_of(options, graph, conv).filters;
  if (order == FilterOrder::FiltersLast) return filters_last_axes(shape.size());
  if (shape[1] == 1 || order == FilterOrder::AsTheyAre) return std::nullopt;
  return channels_last_axes(shape.size());
}

}  // namespace

size_t fuse_conv(Module& module, const PassOptions& options, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      if (graph.contains(id) && fuse_one(graph, id, options)) ++changed;
    }
  }
  return changed;
}

size_t lay_out_filters(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  if (options.target == nullptr) return 0;
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<bool> channels_last = channels_last_values(offer_context(options), graph);
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      const std::optional<FilterAxes> wanted =
          wanted_order(module, graph, graph.node(id), options, channels_last);
      if (wanted && lay_out(module, graph, id, *wanted, diagnostics)) ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
