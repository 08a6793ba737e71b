// SPDX-License-Identifier: Apache-2.0
// A session's states, as its user reaches them: by name, whole or a range of one axis.
#include <algorithm>

#include "runtime/api/session.h"
#include "runtime/base/dtype.h"
#include "runtime/base/text.h"
#include "schema/random_states.h"

namespace rlx {
namespace {

std::string name_of(const fb::State& state) {
  return quoted(PlanView::text(state.name()));
}

// A part of a state, and the shape of its elements.
struct Selection {
  StatePart part;
  std::vector<uint64_t> dims;
  uint64_t size_bytes = 0;
};

Status check_range(const fb::State& state, const StateRange& range) {
  const uint32_t rank = state.dims()->size();
  if (range.axis >= rank) {
    return {RLX_INVALID_ARGUMENT, text_of("state ", name_of(state), " has ", rank,
                                          " axes, there is no axis ", range.axis)};
  }
  const uint64_t dim = state.dims()->Get(range.axis);
  if (range.begin <= dim && range.count <= dim - range.begin) return {};
  return {RLX_INVALID_ARGUMENT,
          text_of("state ", name_of(state), " has ", dim, " indices on axis ", range.axis, ", got ",
                  range.count, " from ", range.begin, " on")};
}

// Bytes of so many indices of an axis, with all axes behind it; none where blocks would be cut.
std::optional<uint64_t> bytes_from(const fb::State& state, uint32_t axis, uint64_t indices) {
  std::vector<uint64_t> dims(state.dims()->begin() + axis, state.dims()->end());
  dims.front() = indices;
  return tensor_bytes(state.dtype(), dims);
}

Status select(const fb::State& state, uint32_t number, const std::optional<StateRange>& range,
              Selection& selection) {
  const auto& dims = *state.dims();
  selection = {.part = {.state = number,
                        .piece_bytes = state.size_bytes(),
                        .stride_bytes = state.size_bytes(),
                        .pieces = 1},
               .dims = {dims.begin(), dims.end()},
               .size_bytes = state.size_bytes()};
  if (!range.has_value()) return {};
  RLX_RETURN_IF_ERROR(check_range(state, *range));
  selection.dims[range->axis] = range->count;
  const std::optional<uint64_t> begin = bytes_from(state, range->axis, range->begin);
  const std::optional<uint64_t> piece = bytes_from(state, range->axis, range->count);
  if (!begin.has_value() || !piece.has_value()) {
    const DTypeRow& row = *dtype_row(state.dtype());
    return {RLX_INVALID_ARGUMENT,
            text_of("state ", name_of(state), " is ", row.name, ": its last axis is cut between ",
                    "blocks of ", row.block_elements, " elements only, got ", range->count,
                    " from ", range->begin, " on")};
  }
  const uint64_t dim = dims.Get(range->axis);
  if (range->count == dim) return {};
  StatePart& part = selection.part;
  part.stride_bytes = *bytes_from(state, range->axis, dim);
  part.pieces = part.stride_bytes == 0 ? 0 : state.size_bytes() / part.stride_bytes;
  part.begin_bytes = *begin;
  part.piece_bytes = *piece;
  selection.size_bytes = part.pieces * part.piece_bytes;
  return {};
}

}  // namespace

bool overlap(ExternalBuffer a, ExternalBuffer b) {
  return a.device_address < b.device_address + b.size_bytes &&
         b.device_address < a.device_address + a.size_bytes;
}

Status check_memory(std::string_view what, ExternalBuffer buffer, const MemoryNeed& need) {
  const bool fits = buffer.size_bytes >= need.size_bytes && buffer.device_address != 0 &&
                    buffer.device_address % need.alignment_bytes == 0 &&
                    buffer.size_bytes <= UINT64_MAX - buffer.device_address;
  if (fits) return {};
  return {RLX_INVALID_ARGUMENT,
          text_of("the memory for ", what, " has address ", buffer.device_address, " and ",
                  buffer.size_bytes, " bytes, wanted an address that is a multiple of ",
                  need.alignment_bytes, " and at least ", need.size_bytes, " bytes")};
}

Status Session::find_state(std::string_view name, uint32_t& state) const {
  const auto& states = *plan_->index().states();
  std::vector<std::string_view> names;
  for (uint32_t s = 0; s < states.size(); ++s) {
    names.push_back(PlanView::text(states.Get(s)->name()));
    if (names.back() != name) continue;
    state = s;
    return {};
  }
  return {RLX_INVALID_ARGUMENT,
          text_of("the plan has no state ", quoted(name), "; its states are ", list_text(names))};
}

Status Session::reset_states() {
  RLX_RETURN_IF_ERROR(check_idle());
  return device_session_->reset_states();
}

Status Session::read_state(std::string_view name, const std::optional<StateRange>& range,
                           std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_idle());
  uint32_t number = 0;
  RLX_RETURN_IF_ERROR(find_state(name, number));
  const fb::State& state = *plan_->index().states()->Get(number);
  Selection selection;
  RLX_RETURN_IF_ERROR(select(state, number, range, selection));
  if (bytes.size() != selection.size_bytes) {
    return {RLX_INVALID_ARGUMENT,
            text_of("state ", name_of(state), " got room for ", bytes.size(), " bytes, wanted ",
                    selection.size_bytes, " for ", tensor_text(state.dtype(), selection.dims))};
  }
  return device_session_->read_state(selection.part, bytes);
}

Status Session::write_state(std::string_view name, const std::optional<StateRange>& range,
                            const HostTensor& tensor) {
  RLX_RETURN_IF_ERROR(check_idle());
  uint32_t number = 0;
  RLX_RETURN_IF_ERROR(find_state(name, number));
  const fb::State& state = *plan_->index().states()->Get(number);
  Selection selection;
  RLX_RETURN_IF_ERROR(select(state, number, range, selection));
  const std::string wanted = tensor_text(state.dtype(), selection.dims);
  if (tensor.dtype != state.dtype() || !std::ranges::equal(tensor.dims, selection.dims)) {
    return {RLX_INVALID_ARGUMENT,
            text_of("state ", name_of(state), " got ", tensor_text(tensor.dtype, tensor.dims),
                    ", wanted ", wanted)};
  }
  if (tensor.bytes.size() != selection.size_bytes) {
    return {RLX_INVALID_ARGUMENT,
            text_of("state ", name_of(state), " got ", tensor.bytes.size(), " bytes, wanted ",
                    selection.size_bytes, " for ", wanted)};
  }
  return device_session_->write_state(selection.part, tensor.bytes);
}

Status Session::set_seed(uint64_t seed, uint32_t step) {
  uint32_t number = 0;
  const bool has_seed = find_state(kRandomSeedState, number).ok();
  const bool has_step = find_state(kRandomStepState, number).ok();
  if (!has_seed && !has_step) {
    return {RLX_INVALID_ARGUMENT,
            "the plan draws no random numbers by the session's seed and step"};
  }
  // A plan whose nodes have seeds of their own, or are given steps, has but one of the two.
  if (has_seed) {
    RLX_RETURN_IF_ERROR(
        write_state(kRandomSeedState, std::nullopt,
                    {.bytes = std::as_bytes(std::span(&seed, 1)), .dtype = RLX_I64, .dims = {}}));
  }
  if (!has_step) return {};
  return write_state(kRandomStepState, std::nullopt,
                     {.bytes = std::as_bytes(std::span(&step, 1)), .dtype = RLX_U32, .dims = {}});
}

Status Session::copy_state(std::string_view name, const Session& from) {
  RLX_RETURN_IF_ERROR(check_idle());
  uint32_t state = 0;
  RLX_RETURN_IF_ERROR(find_state(name, state));
  if (from.plan_ != plan_) {
    return {RLX_INVALID_ARGUMENT,
            text_of("the session to copy from is of another plan handle or program, of plan ",
                    quoted(from.plan_->name()), "; states are copied between sessions of one")};
  }
  return device_session_->copy_state(state, *from.device_session_);
}

Status Session::check_apart_from_states(std::string_view what, ExternalBuffer buffer,
                                        std::optional<uint32_t> but) const {
  for (uint32_t s = 0; s < bound_states_.size(); ++s) {
    if (s == but || !bound_states_[s].has_value() || !overlap(buffer, *bound_states_[s])) continue;
    return {RLX_INVALID_ARGUMENT, text_of("the memory for ", what, " overlaps that of state ",
                                          name_of(*plan_->index().states()->Get(s)))};
  }
  return {};
}

Status Session::check_state_memory(uint32_t state, ExternalBuffer buffer) const {
  const fb::State& record = *plan_->index().states()->Get(state);
  const std::string what = text_of("state ", name_of(record));
  RLX_RETURN_IF_ERROR(check_memory(
      what, buffer, {.alignment_bytes = kArenaAlignmentBytes, .size_bytes = record.size_bytes()}));
  RLX_RETURN_IF_ERROR(check_apart_from_states(what, buffer, state));
  for (uint32_t e = 0; e < entries_.size(); ++e) {
    for (const std::vector<Port>* list : {&entries_[e].inputs, &entries_[e].outputs}) {
      for (const Port& port : *list) {
        if (!port.bound.has_value() || !overlap(buffer, *port.bound)) continue;
        return {RLX_INVALID_ARGUMENT,
                text_of("the memory for ", what, " overlaps that of ",
                        quoted(PlanView::text(value_of(e, port).name())), " of ", entry_text(e))};
      }
    }
  }
  return {};
}

Status Session::bind_state(std::string_view name, ExternalBuffer buffer) {
  RLX_RETURN_IF_ERROR(check_idle());
  uint32_t state = 0;
  RLX_RETURN_IF_ERROR(find_state(name, state));
  const bool gives_back = buffer.size_bytes == 0;
  if (!gives_back) RLX_RETURN_IF_ERROR(check_state_memory(state, buffer));
  RLX_RETURN_IF_ERROR(device_session_->bind_state(state, buffer));
  bound_states_[state] = gives_back ? std::nullopt : std::optional(buffer);
  for (Ports& ports : entries_) ports.prepared = false;
  return {};
}

}  // namespace rlx
