// SPDX-License-Identifier: Apache-2.0
// Rows of pixels: chains of convolutions that are worth a layout of their own.
#include "compiler/ops/vision/conv_rows.h"

#include <set>
#include <vector>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"

namespace rlx {
namespace {

// Filters that reach beyond a pixel, over channels enough: convolutions on matrix units.
bool is_windowed(const Graph& graph, const Node& node) {
  if (node.op != OpId::conv) return false;
  const Shape& w = graph.value(*node.inputs[1]).type.shape;
  const Shape& x = graph.value(*node.inputs[0]).type.shape;
  constexpr int64_t kLeastChannels = 16;
  return w.size() == 3 && w[2] > 1 && w[1] == x[1] && w[1] >= kLeastChannels &&
         w[0] >= kLeastChannels;
}

// Nodes that leave rows of pixels in the layout in which they find them.
bool keeps_layout(const Graph& graph, const Node& node) {
  const OpDef& op = *find_op(node.op);
  const bool cuts = node.op == OpId::slice || node.op == OpId::split;
  const bool pointwise = node.op == OpId::conv;
  return (cuts || pointwise || op.any_layout || node.op == OpId::ew_region ||
          op.scalar != nullptr) &&
         graph.value(node.outputs[0]).type.shape.size() == 3;
}

// Whether such nodes alone stand between this one and a convolution whose windows reach beyond a
// pixel.
bool is_beside_windows(const Graph& graph, const Node& from) {
  constexpr size_t kFarthest = 64;  // nodes looked at
  std::vector<const Node*> ways = {&from};
  std::set<const Node*> seen = {&from};
  const auto visit = [&](NodeId id) {
    const Node& node = graph.node(id);
    if (is_windowed(graph, node)) return true;
    if (seen.size() < kFarthest && keeps_layout(graph, node) && seen.insert(&node).second)
      ways.push_back(&node);
    return false;
  };
  while (!ways.empty()) {
    const Node& node = *ways.back();
    ways.pop_back();
    for (const ValueId output : node.outputs)
      for (const NodeId reader : graph.readers(output))
        if (visit(reader)) return true;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i] || (node.op == OpId::conv && i != 0 && i != 3)) continue;
      const Value& input = graph.value(*node.inputs[i]);
      if (input.origin == ValueOrigin::Node && input.type.shape.size() == 3 &&
          visit(*input.producer))
        return true;
    }
  }
  return false;
}

}  // namespace

std::string conv_rows_refusal(const OfferContext& at, const ConvProblem& problem,
                              double microseconds) {
  const Convolution& conv = problem.conv;
  if (conv.window.rank != 1) return {};
  if (is_beside_windows(*problem.graph, *problem.node)) return {};
  const bool multiplies = conv.window.is_pointwise() && conv_product_refusal(at, problem).empty();
  const double others =
      multiplies ? conv_product_time(at, problem) : conv_implicit_time(at, problem);
  const double copies = copy_microseconds(at.device(), conv.x.type, conv.x.type) +
                        copy_microseconds(at.device(), conv.y.type, conv.y.type);
  return others < microseconds + copies ? "rows of pixels whose copies outweigh the product" : "";
}

}  // namespace rlx
