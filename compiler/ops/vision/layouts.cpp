// SPDX-License-Identifier: Apache-2.0
// The choice of layouts.
#include "compiler/ops/vision/layouts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/vision/conv_offers.h"
#include "compiler/support/free_size.h"
#include "compiler/support/shape.h"

namespace rlx {
namespace {

// Rows of pixels [N, C, W], images [N, C, H, W] or volumes [N, C, D, H, W].
bool has_pixels(const Shape& shape) {
  return shape.size() >= 3 && shape.size() <= 5;
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

  // Whether the graph itself brings x from channels last, or takes y there, by transposes and
  // reshapes.
  [[nodiscard]] bool meets_transpose(const Node& conv) const {
    const ValueId y = conv.outputs[0];
    const std::optional<Strides> strides = strides_of_view(*conv.inputs[0]);
    return (strides && has_strides(*conv.inputs[0], *strides)) ||
           is_read_densely(y, channels_last_strides(graph_.value(y).type.shape));
  }

  // The strides of what a transpose or a reshape of a value with these is; nullopt where it copies,
  // and for other nodes.
  [[nodiscard]] std::optional<Strides> moved(const Node& node, const Strides& strides) const {
    const Shape& from = graph_.value(*node.inputs[0]).type.shape;
    if (find_op(node.op)->view_kind == ViewKind::Reshape)
      return reshape_strides(from, strides, graph_.value(node.outputs[0]).type.shape);
    const auto perm = node.attributes.find("perm");
    if (node.op != OpId::transpose || perm == node.attributes.end()) return std::nullopt;
    Strides result;
    for (const Dim& axis : std::get<Ints>(perm->second)) {
      const auto d = static_cast<int64_t>(axis);
      result.push_back(strides.at(static_cast<size_t>(d < 0 ? d + std::ssize(strides) : d)));
    }
    return result;
  }

  // The transposes and reshapes that a value has come through, the last one first.
  [[nodiscard]] std::vector<NodeId> way_to(ValueId id) const {
    std::vector<NodeId> way;
    while (graph_.value(id).origin == ValueOrigin::Node) {
      const Node& node = graph_.node(*graph_.value(id).producer);
      const bool moves =
          node.op == OpId::transpose || find_op(node.op)->view_kind == ViewKind::Reshape;
      if (!moves) break;
      way.push_back(*graph_.value(id).producer);
      id = *node.inputs[0];
    }
    return way;
  }

  // At the end of a way that a value of these strides goes; nullopt where it is copied on it.
  [[nodiscard]] std::optional<Strides> strides_behind(const std::vector<NodeId>& way,
                                                      std::optional<Strides> strides) const {
    for (size_t i = way.size(); i-- > 0 && strides;) strides = moved(graph_.node(way[i]), *strides);
    return strides;
  }

  // Of a value that transposes and reshapes make of a dense one; nullopt for any other.
  [[nodiscard]] std::optional<Strides> strides_of_view(ValueId id) const {
    const std::vector<NodeId> way = way_to(id);
    if (way.empty()) return std::nullopt;
    const ValueId from = *graph_.node(way.back()).inputs[0];
    return strides_behind(way, dense_strides(graph_.value(from).type.shape));
  }

  // The value of which this one is a view that is stored channels last where that is: pixels and
  // lines that stand in turn.
  [[nodiscard]] std::optional<ValueId> same_layout_before(ValueId id) const {
    const std::vector<NodeId> way = way_to(id);
    if (way.empty()) return std::nullopt;
    const ValueId from = *graph_.node(way.back()).inputs[0];
    const Shape& shape = graph_.value(from).type.shape;
    if (!has_pixels(shape)) return std::nullopt;
    const std::optional<Strides> strides = strides_behind(way, channels_last_strides(shape));
    return strides && has_strides(id, *strides) ? std::optional(from) : std::nullopt;
  }

  // Whether these are the strides of the value channels last.
  [[nodiscard]] bool has_strides(ValueId id, const Strides& strides) const {
    const Shape& shape = graph_.value(id).type.shape;
    if (!has_pixels(shape) || shape[1] == 1) return false;
    const Strides wanted = channels_last_strides(shape);
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d] != 1 && strides[d] != wanted[d]) return false;
    return true;
  }

  // Whether transposes and reshapes make something dense of a value of these strides.
  [[nodiscard]] bool is_read_densely(ValueId id, const Strides& strides) const {
    for (const NodeId reader : graph_.readers(id)) {
      const Node& node = graph_.node(reader);
      const std::optional<Strides> next = moved(node, strides);
      if (!next) continue;
      const ValueId to = node.outputs[0];
      const bool dense = *next == dense_strides(graph_.value(to).type.shape);
      if (dense || is_read_densely(to, *next)) return true;
    }
    return false;
  }

  // Views of a part of each image, whose layout is that of the whole.
  [[nodiscard]] static bool cuts(const Node& node) {
    return node.op == OpId::slice || node.op == OpId::split;
  }

  // Unless the value has its layout already, or must be dense. A part has the layout of the whole.
  void choose(ValueId id) {
    const Value& value = graph_.value(id);
    if (chosen_[index_of(id)] || !has_pixels(value.type.shape) || graph_.is_output(id)) return;
    if (value.origin != ValueOrigin::Node) return;
    if (cuts(graph_.node(*value.producer))) {
      choose(*graph_.node(*value.producer).inputs[0]);
      return;
    }
    if (const std::optional<ValueId> from = same_layout_before(id)) {
      choose(*from);
      return;
    }
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
      const Node& node = graph_.node(reader);
      if (takes_any_layout(reader) && counts(reader, id)) choose(node.outputs[0]);
      if (!cuts(node)) continue;
      for (const ValueId part : node.outputs) {
        if (chosen_[index_of(part)] || graph_.is_output(part)) continue;
        chosen_[index_of(part)] = true;
        fresh_.push_back(part);
      }
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
