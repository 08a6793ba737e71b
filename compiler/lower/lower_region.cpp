// SPDX-License-Identifier: Apache-2.0
#include "compiler/lower/lower_region.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "compiler/lower/lower_node.h"
#include "compiler/lower/state_writes.h"
#include "compiler/ops/control/region_form.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/vision/layouts.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "schema/plan_regions.h"

namespace rlx {
namespace {

const TensorType kWordType{.dtype = DType::i32, .shape = {}};

bool same_layout(const TensorRef& a, const TensorRef& b) {
  return a.offset_bytes == b.offset_bytes && a.strides == b.strides;
}

bool same_view(const TensorRef& a, const TensorRef& b) {
  return a.buffer == b.buffer && same_layout(a, b);
}

class RegionLowering {
 public:
  RegionLowering(LoweringState& state, const Node& node, std::vector<StepRegion>& regions,
                 Diagnostics& diagnostics)
      : state_(state),
        program_(state.program),
        node_(node),
        regions_(regions),
        diagnostics_(diagnostics),
        form_(region_form(node)),
        without_(state.options.without != nullptr ? *state.options.without
                                                  : std::vector<std::string>()) {
    // The library's products are measured and chosen as steps by themselves.
    without_.emplace_back("library");
  }

  bool run() {
    for (size_t i = 0; i < form_.carries; ++i) begin_carry(kLoopFirstCarry + i);
    if (form_.kind == RegionKind::While) region_.word = carried_.front().buffer;
    if (form_.kind == RegionKind::Branch) region_.word = begin_word();
    std::vector<TensorRef> inputs = carried_;
    for (size_t i = kLoopFirstCarry + form_.carries; i < node_.inputs.size(); ++i)
      inputs.push_back(shared(*node_.inputs[i]));
    region_.counter = state_.scratch(kWordType, node_.name + ".trips").buffer;
    region_.name = node_.name;
    region_.most_trips = narrow<uint32_t>(form_.trips);
    region_.first_step = narrow<uint32_t>(program_.steps.size());
    if (!lower_body(*node_.bodies.front(), inputs)) return false;
    return finish();
  }

 private:
  [[nodiscard]] Step step_for(const std::string& reason) const {
    Step step;
    step.node = node_.name;
    step.op = node_.op;
    step.source = node_.source;
    step.reason = reason;
    return step;
  }

  // A place of the region's own with the input's value; the input's own where it dies here. The
  // word is read by runtimes beside the steps, so it shares its bytes with nothing.
  void begin_carry(size_t input) {
    const ValueId id = *node_.inputs[input];
    const bool is_word = form_.kind == RegionKind::While && input == kLoopFirstCarry;
    if (!is_word && dies_here(id, state_.ref(id))) {
      carried_.push_back(state_.ref(id));
      return;
    }
    const TensorRef place =
        state_.scratch(state_.graph.value(id).type, node_.name + (is_word ? ".word" : ".carry"));
    state_.copy_into(place, id, step_for("what the first trip begins with"));
    carried_.push_back(place);
  }

  BufferId begin_word() {
    const TensorRef place = state_.scratch(kWordType, node_.name + ".word");
    state_.copy_into(place, *node_.inputs[kLoopCondition], step_for("whether the branch runs"));
    return place.buffer;
  }

  [[nodiscard]] bool dies_here(ValueId id, const TensorRef& given) const {
    const Graph& graph = state_.graph;
    const Buffer& buffer = program_.buffer(given.buffer);
    const bool is_whole = given.dense() && given.offset_bytes == 0 &&
                          buffer.size_bytes == byte_size(graph.value(id).type);
    if (buffer.segment != Segment::Arena || !is_whole) return false;
    if (std::any_of(carried_.begin(), carried_.end(),
                    [&](const TensorRef& other) { return other.buffer == given.buffer; }))
      return false;
    const NodeId here = *graph.value(node_.outputs.front()).producer;
    const std::vector<ValueId> values = state_.values_in(given.buffer);
    return std::none_of(values.begin(), values.end(), [&](ValueId other) {
      if (graph.is_output(other)) return true;
      const auto uses = std::count(node_.inputs.begin(), node_.inputs.end(), std::optional(other));
      if (uses > (other == id ? 1 : 0)) return true;
      const std::vector<NodeId> readers = graph.readers(other);
      return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
        return graph.node(reader).op == OpId::state_write || graph.runs_before(here, reader);
      });
    });
  }

  // What all trips read, as it stands, or copied once where that is no dense tensor.
  TensorRef shared(ValueId id) {
    const TensorRef given = state_.ref(id);
    return given.dense() ? given : state_.materialize(given, step_for({}));
  }

  // The body as lowering is to see it: its inputs have places already, and a node behind all others
  // reads what outlives a trip, so that nothing overwrites it.
  Graph closed(const Graph& body) const {
    Graph result = body;
    const std::vector<ValueId> outputs = body.outputs();
    result.inputs.clear();
    result.output_names.clear();
    result.set_outputs({});
    std::vector<ValueId> outlives(outputs.begin() + kRegionFirstOutput, outputs.end());
    outlives.insert(outlives.end(),
                    body.inputs.begin() + static_cast<ptrdiff_t>(kRegionFirstInput + form_.carries),
                    body.inputs.end());
    for (const ValueId id : outlives) {
      const ValueId read = result.add_value({.name = result.fresh_name("end"),
                                             .type = body.value(id).type,
                                             .weight = {},
                                             .state = {}});
      result.add_node({.name = result.fresh_name("end"),
                       .op = "identity",
                       .inputs = {id},
                       .outputs = {read},
                       .attributes = {},
                       .region = {}});
    }
    return result;
  }

  bool lower_body(const Graph& body, const std::vector<TensorRef>& inputs) {
    LowerOptions options = state_.options;
    options.without = &without_;
    const Graph graph = closed(body);
    LoweringState inner(state_.module, graph, options, program_);
    for (size_t i = 0; i < inputs.size(); ++i)
      inner.set_ref(body.inputs[kRegionFirstInput + i], inputs[i]);
    const std::vector<bool> channels_last = channels_last_values(OfferContext(options), graph);
    for (size_t i = 0; i < channels_last.size(); ++i)
      if (channels_last[i]) inner.store_channels_last(ValueId(i));
    place_concat_parts(inner, diagnostics_);
    for (const NodeId id : body.order()) {
      if (!lower_node(inner, graph.node(id), diagnostics_)) return false;
    }
    write_carries(inner, body);
    return true;
  }

  // The body's outputs to the places where the next trip finds them. What one place holds may be
  // the new value of another: such values are taken aside first.
  void write_carries(LoweringState& inner, const Graph& body) {
    std::vector<TensorRef> given;
    for (size_t i = 0; i < carried_.size(); ++i) {
      TensorRef from = inner.ref(body.outputs()[kRegionFirstOutput + i]);
      const bool is_carried =
          std::any_of(carried_.begin(), carried_.end(),
                      [&](const TensorRef& at) { return at.buffer == from.buffer; });
      if (is_carried && !same_view(from, carried_[i])) {
        const TensorRef aside = inner.scratch(from.type, node_.name + ".aside");
        emit_strided_copy(inner.options, program_, step_for("a carried value that moves on"), from,
                          aside);
        from = aside;
      }
      given.push_back(std::move(from));
    }
    // The word last: see StepRegion::word.
    std::vector<size_t> order(carried_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const bool has_word = form_.kind == RegionKind::While;
    if (has_word) std::rotate(order.begin(), order.begin() + 1, order.end());
    std::vector<CarryCopy> copies;
    for (const size_t i : order) {
      if (same_view(given[i], carried_[i])) continue;
      const size_t step = program_.steps.size();
      emit_strided_copy(inner.options, program_, step_for("what the next trip begins with"),
                        given[i], carried_[i]);
      // What lies otherwise than the carry is no copy of its bytes.
      if (program_.steps.size() == step + 1 && same_layout(given[i], carried_[i]))
        copies.push_back({.step = step,
                          .from = given[i].buffer,
                          .carry = carried_[i].buffer,
                          .is_last = has_word && i == 0});
    }
    write_carries_in_place(program_, region_.first_step, std::move(copies));
  }

  bool finish() {
    for (size_t i = region_.first_step; i < program_.steps.size(); ++i)
      program_.steps[i].alternatives.clear();
    region_.step_count = narrow<uint32_t>(program_.steps.size()) - region_.first_step;
    for (size_t i = 0; i < carried_.size(); ++i) state_.set_ref(node_.outputs[i], carried_[i]);
    // A body that leaves all as it is has no steps.
    if (region_.step_count > 0) regions_.push_back(std::move(region_));
    uint64_t steps = 0;
    for (const StepRegion& region : regions_)
      steps += uint64_t{region.step_count} * region.most_trips;
    if (steps <= kMaxRegionSteps) return true;
    return NodeContext(*find_op(node_.op), node_, diagnostics_)
        .fail(DiagCode::Limit,
              "the trips of the loops up to it take " + std::to_string(steps) + " steps, at most " +
                  std::to_string(kMaxRegionSteps) + " are taken",
              "give it a smaller max_iterations or length");
  }

  LoweringState& state_;
  Program& program_;
  const Node& node_;
  std::vector<StepRegion>& regions_;
  Diagnostics& diagnostics_;
  const RegionForm form_;
  std::vector<std::string> without_;
  StepRegion region_;
  std::vector<TensorRef> carried_;
};

}  // namespace

bool lower_region(LoweringState& state, const Node& node, std::vector<StepRegion>& regions,
                  Diagnostics& diagnostics) {
  return RegionLowering(state, node, regions, diagnostics).run();
}

}  // namespace rlx
