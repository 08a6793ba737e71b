// SPDX-License-Identifier: Apache-2.0
// The choice of layouts.
#include "compiler/ops/vision/layouts.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/vision/conv_offers.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

// Rows of pixels [N, C, W] or images [N, C, H, W].
bool has_pixels(const Shape& shape) {
  return shape.size() == 3 || shape.size() == 4;
}

class LayoutChoice {
 public:
  LayoutChoice(const OfferContext& at, const Graph& graph)
      : graph_(graph), chosen_(graph.value_count()) {
    for (NodeId id : graph_.order()) {
      std::optional<ConvLayouts> layouts;
      bool follows = false;
      // A size that is needed as a number is refused by the node's own lowering.
      const auto read = free_size_read_by([&] {
        layouts = conv_layouts(at, graph_, graph_.node(id));
        follows = conv_follows_channels_last(at, graph_, graph_.node(id));
      });
      if (read) continue;
      if (layouts && layouts->y_channels_last) writing_so_.emplace(id, *layouts);
      if (follows) following_.insert(id);
    }
  }

  std::vector<bool> run() {
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const auto found = writing_so_.find(id);
      const bool is_written_so = found != writing_so_.end();
      const bool between = following_.contains(id) && meets_transpose(node);
      if (!is_written_so && !between) continue;
      if (between || found->second.x_channels_last) choose(*node.inputs[0]);
      choose(node.outputs[0]);
      if (node.inputs.size() > 3 && node.inputs[3]) choose(*node.inputs[3]);
    }
    while (!fresh_.empty()) {
      const ValueId id = fresh_.back();
      fresh_.pop_back();
      spread(id);
    }
    return std::move(chosen_);
  }

 private:
  // Nodes that read and write any layout of their images and rows of pixels.
  [[nodiscard]] bool takes_any_layout(NodeId id) const {
    const Node& node = graph_.node(id);
    const OpDef& op = *find_op(node.op);
    const bool elementwise = node.op == OpId::ew_region || op.scalar != nullptr;
    return elementwise || (op.any_layout && node.outputs.size() == 1) || following_.contains(id);
  }

  // Whether the graph itself brings x from channels last, or takes y there.
  [[nodiscard]] bool meets_transpose(const Node& conv) const {
    const Value& x = graph_.value(*conv.inputs[0]);
    const auto moves = [&](NodeId id, const Ints& perm) {
      const Node& node = graph_.node(id);
      return node.op == OpId::transpose && node.attributes.contains("perm") &&
             std::get<Ints>(node.attributes.at("perm")) == perm;
    };
    if (x.origin == ValueOrigin::Node && moves(*x.producer, {0, 3, 1, 2})) return true;
    const std::vector<NodeId> readers = graph_.readers(conv.outputs[0]);
    return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
      return moves(reader, {0, 2, 3, 1});
    });
  }

  // Unless the value has its layout already, or must be dense.
  void choose(ValueId id) {
    const Value& value = graph_.value(id);
    if (chosen_[index_of(id)] || !has_pixels(value.type.shape) || graph_.is_output(id)) return;
    if (value.origin != ValueOrigin::Node) return;
    const bool writes_so = writing_so_.contains(*value.producer);
    if (!writes_so && !takes_any_layout(*value.producer)) return;
    chosen_[index_of(id)] = true;
    fresh_.push_back(id);
  }

  // Inputs that are broadcast have another shape than the result; so have those of the ops that
  // change an image's size. Filters and bias are no images.
  [[nodiscard]] bool counts(NodeId id, ValueId input) const {
    const Node& node = graph_.node(id);
    if (following_.contains(id))
      return input == node.inputs[0] || (node.inputs.size() > 3 && node.inputs[3] == input);
    const Shape& shape = graph_.value(input).type.shape;
    return has_pixels(shape) &&
           (find_op(node.op)->any_layout || shape == graph_.value(node.outputs[0]).type.shape);
  }

  // From a value that is stored channels last to the other side of the nodes around it.
  void spread(ValueId id) {
    for (NodeId reader : graph_.readers(id)) {
      if (takes_any_layout(reader) && counts(reader, id)) choose(graph_.node(reader).outputs[0]);
    }
    const NodeId made_by = *graph_.value(id).producer;
    const Node& producer = graph_.node(made_by);
    if (!takes_any_layout(made_by) || producer.outputs[0] != id) return;
    for (const std::optional<ValueId>& input : producer.inputs) {
      if (input && counts(made_by, *input)) choose(*input);
    }
  }

  const Graph& graph_;
  std::map<NodeId, ConvLayouts> writing_so_;
  std::set<NodeId> following_;  // convolutions that take the layout of their neighbours
  std::vector<bool> chosen_;
  std::vector<ValueId> fresh_;  // chosen, but not yet spread from
};

}  // namespace

std::vector<bool> channels_last_values(const OfferContext& at, const Graph& graph) {
  return LayoutChoice(at, graph).run();
}

}  // namespace rlx
