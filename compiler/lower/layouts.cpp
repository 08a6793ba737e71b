// SPDX-License-Identifier: Apache-2.0
// The choice of layouts.
#include "compiler/lower/layouts.h"

#include <algorithm>
#include <map>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/vision/conv_offers.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

constexpr size_t kRank = 4;

class LayoutChoice {
 public:
  explicit LayoutChoice(LoweringState& state)
      : state_(state), graph_(state.graph), chosen_(graph_.value_count()) {
    const OfferContext at(state.options);
    for (NodeId id : graph_.order()) {
      std::optional<ConvLayouts> layouts;
      // A size that is needed as a number is refused by the node's own lowering.
      const auto read =
          free_size_read_by([&] { layouts = conv_layouts(at, graph_, graph_.node(id)); });
      if (!read && layouts && layouts->matrix_units) matrix_convolutions_.emplace(id, *layouts);
    }
  }

  void run() {
    for (NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const auto found = matrix_convolutions_.find(id);
      if (found == matrix_convolutions_.end()) continue;
      if (found->second.x_channels_last) choose(*node.inputs[0]);
      choose(node.outputs[0]);
      if (node.inputs.size() > 3 && node.inputs[3]) choose(*node.inputs[3]);
    }
    while (!fresh_.empty()) {
      const ValueId id = fresh_.back();
      fresh_.pop_back();
      spread(id);
    }
    for (size_t i = 0; i < chosen_.size(); ++i) {
      if (chosen_[i]) state_.store_channels_last(ValueId(i));
    }
  }

 private:
  // Nodes that read and write any layout of their tensors of rank 4.
  [[nodiscard]] static bool takes_any_layout(const Node& node) {
    const OpDef& op = *find_op(node.op);
    const bool elementwise = node.op == OpId::ew_region || op.scalar != nullptr;
    return elementwise || (op.any_layout && node.outputs.size() == 1);
  }

  // Unless the value has its layout already, or must be dense.
  void choose(ValueId id) {
    const Value& value = graph_.value(id);
    if (chosen_[index_of(id)] || value.type.shape.size() != kRank || graph_.is_output(id)) return;
    if (value.origin != ValueOrigin::Node) return;
    const bool writes_so = matrix_convolutions_.contains(*value.producer);
    if (!writes_so && !takes_any_layout(graph_.node(*value.producer))) return;
    chosen_[index_of(id)] = true;
    fresh_.push_back(id);
  }

  // Inputs that are broadcast have another shape than the result; so have those of the ops that
  // change an image's size.
  [[nodiscard]] bool counts(const Node& node, ValueId input) const {
    const Shape& shape = graph_.value(input).type.shape;
    return shape.size() == kRank &&
           (find_op(node.op)->any_layout || shape == graph_.value(node.outputs[0]).type.shape);
  }

  // From a value that is stored channels last to the other side of the nodes around it.
  void spread(ValueId id) {
    for (NodeId reader : graph_.readers(id)) {
      const Node& node = graph_.node(reader);
      if (takes_any_layout(node) && counts(node, id)) choose(node.outputs[0]);
    }
    const Node& producer = graph_.node(*graph_.value(id).producer);
    if (!takes_any_layout(producer) || producer.outputs[0] != id) return;
    for (const std::optional<ValueId>& input : producer.inputs) {
      if (input && counts(producer, *input)) choose(*input);
    }
  }

  LoweringState& state_;
  const Graph& graph_;
  std::map<NodeId, ConvLayouts> matrix_convolutions_;
  std::vector<bool> chosen_;
  std::vector<ValueId> fresh_;  // chosen, but not yet spread from
};

}  // namespace

void choose_layouts(LoweringState& state) {
  LayoutChoice(state).run();
}

}  // namespace rlx
