// SPDX-License-Identifier: Apache-2.0
// Where values live while a graph is lowered.
#include "compiler/ops/lowering/lower_context.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

bool same_view(const TensorRef& a, const TensorRef& b) {
  return a.buffer == b.buffer && a.offset_bytes == b.offset_bytes && a.type == b.type &&
         a.strides == b.strides;
}

// The dims in the order in which they lie in memory; one dim of all elements where no order is that
// of the strides.
Shape shape_as_stored(const Shape& shape, const Strides& strides) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  do {
    Shape stored;
    for (const size_t axis : order) stored.push_back(shape[axis]);
    const Strides dense = dense_strides(stored);
    const auto fits = [&](size_t place) {
      return stored[place] == 1 || dense[place] == strides[order[place]];
    };
    size_t place = 0;
    while (place < stored.size() && fits(place)) ++place;
    if (place == stored.size()) return stored;
  } while (std::ranges::next_permutation(order).found);
  return {element_count(shape)};
}

void emit_copy(const LowerOptions& options, Program& program, Step step, const TensorRef& from,
               const TensorRef& to) {
  if (element_count(from.shape()) == 0) return;
  if (!from.dense() || !to.dense()) {
    emit_strided_copy(options, program, step, from, to);
    return;
  }
  step.kind = StepKind::Copy;
  step.accesses = {make_access(0, from, AccessMode::Read, 1),
                   make_access(8, to, AccessMode::Write, 1)};
  step.bytes_moved = 2 * byte_size(from.type);
  if (step.reason.empty()) step.reason = "dense copy";
  program.steps.push_back(std::move(step));
}

}  // namespace

TensorRef dense_ref(BufferId buffer, const TensorType& type) {
  return {.buffer = buffer, .offset_bytes = 0, .type = type, .strides = dense_strides(type.shape)};
}

LoweringState::LoweringState(const Module& module_in, const Graph& graph_in,
                             const LowerOptions& options_in, Program& program_in)
    : module(module_in),
      graph(graph_in),
      options(options_in),
      program(program_in),
      refs_(graph_in.value_count()),
      places_(graph_in.value_count()),
      channels_last_(graph_in.value_count()) {
  if (options.target != nullptr && options.target->device.is_cpu())
    program.defines["RLX_PAIRED_LOADS"] = "1";
  for (uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    const BufferId buffer = program.add_buffer({.name = value.name,
                                                .type = value.type,
                                                .size_bytes = byte_size(value.type),
                                                .segment = Segment::Io,
                                                .weight = {},
                                                .state = {},
                                                .input_index = i,
                                                .output_index = {}});
    program.inputs.push_back(buffer);
    set_ref(graph.inputs[i], dense_ref(buffer, value.type));
  }
  for (uint32_t i = 0; i < graph.outputs().size(); ++i) {
    const Value& value = graph.value(graph.outputs()[i]);
    const BufferId buffer = program.add_buffer({.name = graph.output_names.at(i),
                                                .type = value.type,
                                                .size_bytes = byte_size(value.type),
                                                .segment = Segment::Io,
                                                .weight = {},
                                                .state = {},
                                                .input_index = {},
                                                .output_index = i});
    program.outputs.push_back(buffer);
    std::optional<TensorRef>& place = places_[index_of(graph.outputs()[i])];
    if (value.origin == ValueOrigin::Node && !place) place = dense_ref(buffer, value.type);
  }
}

TensorRef LoweringState::leaf_ref(const Value& value) {
  Buffer buffer{.name = value.name,
                .type = value.type,
                .size_bytes = byte_size(value.type),
                .segment = Segment::Weights,
                .weight = value.weight,
                .state = value.state,
                .input_index = {},
                .output_index = {}};
  if (value.origin == ValueOrigin::State) buffer.segment = Segment::State;
  return dense_ref(program.add_buffer(std::move(buffer)), value.type);
}

const TensorRef& LoweringState::ref(ValueId id) {
  std::optional<TensorRef>& ref = refs_.at(index_of(id));
  if (!ref) {
    const Value& value = graph.value(id);
    RLX_CHECK(value.origin == ValueOrigin::Weight || value.origin == ValueOrigin::State,
              "value \"" + value.name + "\" was not lowered");
    set_ref(id, leaf_ref(value));
  }
  return *ref;
}

void LoweringState::set_ref(ValueId id, TensorRef ref) {
  values_in_[ref.buffer].push_back(id);
  refs_.at(index_of(id)) = std::move(ref);
}

TensorRef LoweringState::allocate(ValueId id) {
  const Value& value = graph.value(id);
  if (refs_.at(index_of(id))) return *refs_[index_of(id)];
  if (const std::optional<TensorRef>& place = places_.at(index_of(id))) {
    set_ref(id, *place);
  } else if (channels_last_[index_of(id)]) {
    set_ref(id, stored_as(value.type, fresh_strides(id), value.name + ".channels_last"));
  } else if (strides_.contains(id)) {
    set_ref(id, stored_as(value.type, fresh_strides(id), value.name + ".turned"));
  } else {
    set_ref(id, scratch(value.type, value.name));
  }
  return *refs_[index_of(id)];
}

Strides LoweringState::fresh_strides(ValueId id) const {
  const Shape& shape = graph.value(id).type.shape;
  if (channels_last_[index_of(id)]) return channels_last_strides(shape);
  const auto found = strides_.find(id);
  return found == strides_.end() ? dense_strides(shape) : found->second;
}

void LoweringState::join(ValueId id, JoinedParts parts) {
  for (const TensorRef& part : parts.parts) values_in_[part.buffer].push_back(id);
  joined_[id] = std::move(parts);
}

void LoweringState::place(ValueId id, TensorRef ref) {
  std::optional<TensorRef>& place = places_.at(index_of(id));
  if (!place) place = std::move(ref);
}

TensorRef LoweringState::materialize(const TensorRef& ref, const Step& origin) {
  return materialize_as(ref, dense_strides(ref.shape()), "dense", origin);
}

TensorRef LoweringState::materialize_as(const TensorRef& ref, const Strides& strides,
                                        const std::string& layout, const Step& origin) {
  for (const LayoutCopy& copy : copies_[ref.buffer]) {
    if (same_view(copy.from, ref) && copy.to.strides == strides) return copy.to;
  }
  const TensorRef packed =
      stored_as(ref.type, strides, program.buffer(ref.buffer).name + "." + layout);
  Step step = origin;
  step.reason = layout + " copy of a strided view for " + origin.op;
  const size_t first_step = program.steps.size();
  emit_copy(options, program, std::move(step), ref, packed);
  for (size_t i = first_step; i < program.steps.size(); ++i) layout_copies_.insert(i);
  copies_[ref.buffer].push_back({.from = ref, .to = packed});
  return packed;
}

TensorRef LoweringState::stored_as(const TensorType& type, const Strides& strides,
                                   const std::string& name) {
  TensorRef ref =
      scratch({.dtype = type.dtype, .shape = shape_as_stored(type.shape, strides)}, name);
  ref.type = type;
  ref.strides = strides;
  return ref;
}

TensorRef LoweringState::scratch(const TensorType& type, const std::string& name) {
  return dense_ref(program.add_buffer({.name = name,
                                       .type = type,
                                       .size_bytes = byte_size(type),
                                       .segment = Segment::Arena,
                                       .weight = {},
                                       .state = {},
                                       .input_index = {},
                                       .output_index = {}}),
                   type);
}

std::vector<ValueId> LoweringState::values_in(BufferId buffer) const {
  std::vector<ValueId> values;
  const auto known = values_in_.find(buffer);
  if (known == values_in_.end()) return values;
  for (const ValueId id : known->second) {
    // A value in parts lies in the buffers of all of them.
    if (joined(id) != nullptr || refs_[index_of(id)]->buffer == buffer) values.push_back(id);
  }
  return values;
}

void LoweringState::forget_copies_of(BufferId buffer) {
  copies_.erase(buffer);
}

bool LoweringState::write_state_at_end(StateId state, TensorRef from, Step origin) {
  if (!written_states_.insert(state).second) return false;
  state_writes_.push_back({.state = state, .from = std::move(from), .origin = std::move(origin)});
  return true;
}

void LoweringState::copy_into(const TensorRef& place, ValueId id, Step step) {
  const TensorRef& from = ref(id);
  if (!same_view(from, place)) emit_copy(options, program, std::move(step), from, place);
}

void LoweringState::finish() {
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    Step step;
    step.node = graph.output_names[i];
    step.op = "output";
    const TensorType& type = graph.value(graph.outputs()[i]).type;
    copy_into(dense_ref(program.outputs[i], type), graph.outputs()[i], std::move(step));
  }
  // What was appended to a state in place is there already.
  std::erase_if(state_writes_, [this](const StateWrite& write) {
    const bool own = program.buffer(write.from.buffer).state == write.state;
    return own && same_view(write.from, dense_ref(write.from.buffer, write.from.type));
  });
  // A state's old value may be another state's new one: take such values aside before any state
  // changes.
  for (StateWrite& write : state_writes_) {
    if (program.buffer(write.from.buffer).segment == Segment::State) {
      write.from = materialize(write.from, write.origin);
    }
  }
  std::map<StateId, BufferId> state_buffers;
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i].state) state_buffers.try_emplace(*program.buffers[i].state, BufferId{i});
  }
  for (StateWrite& write : state_writes_) {
    const auto buffer = state_buffers.find(write.state);
    RLX_CHECK(buffer != state_buffers.end(), "write of a state that was never read");
    emit_copy(options, program, std::move(write.origin), write.from,
              dense_ref(buffer->second, write.from.type));
  }
}

LowerContext::LowerContext(const OpDef& op, LoweringState& state, const Node& node,
                           Diagnostics& diagnostics)
    : NodeContext(op, node, diagnostics),
      OfferContext(state.options, &state.program),
      state_(&state) {}

const TensorType& LowerContext::input_type(size_t i) const {
  return state_->graph.value(node().inputs.at(i).value()).type;
}

bool LowerContext::is_read(size_t i) const {
  const ValueId id = node().outputs.at(i);
  return state_->graph.is_output(id) || !state_->graph.readers(id).empty();
}

const TensorType& LowerContext::output_type(size_t i) const {
  return state_->graph.value(node().outputs.at(i)).type;
}

TensorRef LowerContext::input(size_t i) const {
  return state_->ref(node().inputs.at(i).value());
}

TensorRef LowerContext::dense(const TensorRef& ref) {
  return ref.dense() ? ref : state_->materialize(ref, new_step());
}

TensorRef LowerContext::channels_last(const TensorRef& ref) {
  if (pixel_pitch(ref) && alignment(ref) >= kWidestAccessBytes) return ref;
  return state_->materialize_as(ref, channels_last_strides(ref.shape()), "channels_last",
                                new_step());
}

TensorRef LowerContext::output(size_t i) {
  return state_->allocate(node().outputs.at(i));
}

void LowerContext::alias_output(size_t i, TensorRef view) {
  state_->set_ref(node().outputs.at(i), std::move(view));
}

TensorRef LowerContext::scratch(const TensorType& type, const std::string& name) {
  return state_->scratch(type, node().name + "." + name);
}

namespace {

// Whether one of the names is the offer's, or its kernel's.
bool names_offer(const std::vector<std::string>* names, std::string_view offer) {
  if (names == nullptr) return false;
  const std::string_view kernel = offer.substr(0, offer.find(' '));
  return std::any_of(names->begin(), names->end(),
                     [&](const std::string& name) { return name == offer || name == kernel; });
}

}  // namespace

bool OfferContext::is_left_out(std::string_view offer) const {
  return names_offer(options_.without, offer);
}

bool OfferContext::is_preferred(std::string_view offer) const {
  return names_offer(options_.prefer, offer);
}

const std::string* OfferContext::tuned_form(const std::string& key) const {
  if (options_.tuned == nullptr) return nullptr;
  const auto found = options_.tuned->find(key);
  return found == options_.tuned->end() ? nullptr : &found->second;
}

Segment OfferContext::segment_of(const TensorRef& ref) const {
  return program_ == nullptr ? Segment::Arena : program_->buffer(ref.buffer).segment;
}

uint32_t OfferContext::alignment(const TensorRef& ref) const {
  return std::min(ref.alignment_bytes(segment_of(ref)), kWidestAccessBytes);
}

void LowerContext::copy(const TensorRef& from, const TensorRef& to, const std::string& why) {
  const size_t first_step = program().steps.size();
  emit_copy(state_->options, program(), new_step(), from, to);
  tell_why(first_step, why);
}

void LowerContext::copy(const JoinedParts& from, const TensorRef& to, const std::string& why) {
  const size_t first_step = program().steps.size();
  emit_joined_copy(state_->options, program(), new_step(), from, to);
  tell_why(first_step, why);
}

void LowerContext::tell_why(size_t first_step, const std::string& why) {
  if (why.empty()) return;
  for (size_t i = first_step; i < program().steps.size(); ++i) {
    std::string& reason = program().steps[i].reason;
    reason = why + ": " + reason;
  }
}

std::string no_place_refusal(const LoweringState& /*state*/, const Node& /*node*/,
                             const TensorRef& /*place*/) {
  return {};
}

Step LowerContext::new_step() const {
  Step step;
  step.node = node().name;
  step.op = node().op;
  step.source = node().source;
  return step;
}

}  // namespace rlx
