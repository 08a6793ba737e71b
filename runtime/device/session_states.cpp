// SPDX-License-Identifier: Apache-2.0
// The states of a session: how they begin, what the host does with them, and where they lie.
#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/device/session_base.h"

namespace rlx {

std::string SessionBase::state_text(uint32_t state) const {
  return text_of("state ", quoted(PlanView::text(view_.index().states()->Get(state)->name())));
}

Status SessionBase::check_own(std::string_view what, uint32_t state) const {
  RLX_RETURN_IF_ERROR(check_ready(what));
  if (!bound_states_[state].has_value()) return {};
  return invalid_state(text_of(what, ": ", state_text(state),
                               " is bound to the caller's memory; use it there, or bind it with ",
                               "size 0 first"));
}

Status SessionBase::reset_states() {
  RLX_RETURN_IF_ERROR(check_ready("reset_states"));
  return view_.index().states()->size() == 0 ? Status() : fill_states();
}

Status SessionBase::read_state(const StatePart& part, std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_own("read_state", part.state));
  return bytes.empty() ? Status() : read_state_bytes(part, bytes);
}

Status SessionBase::write_state(const StatePart& part, std::span<const std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_own("write_state", part.state));
  return bytes.empty() ? Status() : write_state_bytes(part, bytes);
}

Status SessionBase::copy_state(uint32_t state, const DeviceSession& from) {
  const auto& source = static_cast<const SessionBase&>(from);
  RLX_RETURN_IF_ERROR(check_own("copy_state", state));
  RLX_RETURN_IF_ERROR(source.check_own("copy_state, in the session to copy from", state));
  const fb::State& record = *view_.index().states()->Get(state);
  if (record.size_bytes() == 0) return {};
  return copy_state_bytes(
      {.offset_bytes = record.offset_bytes(), .size_bytes = record.size_bytes()}, source);
}

bool SessionBase::holds(uint32_t state, const fb::Value& value) const {
  const fb::State& record = *view_.index().states()->Get(state);
  return value.segment() == fb::Segment::State && record.offset_bytes() <= value.offset_bytes() &&
         value.offset_bytes() - record.offset_bytes() < record.size_bytes();
}

std::optional<uint64_t> SessionBase::bound_address(const fb::Value& value) const {
  for (uint32_t s = 0; s < bound_states_.size(); ++s) {
    if (!bound_states_[s].has_value() || !holds(s, value)) continue;
    return *bound_states_[s] +
           (value.offset_bytes() - view_.index().states()->Get(s)->offset_bytes());
  }
  return std::nullopt;
}

Status SessionBase::check_bindable_state(uint32_t state) const {
  for (const fb::Entry* entry : view_.records(plan_->target())) {
    for (uint32_t v = 0; v < entry->values()->size(); ++v) {
      if (holds(state, PlanView::value(*entry, v))) RLX_RETURN_IF_ERROR(check_bindable(*entry, v));
    }
  }
  return {};
}

Status SessionBase::bind_state(uint32_t state, ExternalBuffer buffer) {
  RLX_RETURN_IF_ERROR(check_ready("bind_state"));
  const std::optional<uint64_t> address =
      buffer.size_bytes == 0 ? std::nullopt : std::optional(buffer.device_address);
  if (bound_states_[state] == address) return {};
  if (address.has_value()) RLX_RETURN_IF_ERROR(check_bindable_state(state));
  bound_states_[state] = address;
  for (uint32_t p = 0; p < programs_.size(); ++p) {
    if (!programs_[p].is_linked) continue;
    link(p);
    programs_[p].is_prepared = false;
  }
  return {};
}

bool SessionBase::writes_state(StepRange steps, uint32_t state) const {
  const fb::Entry& entry = record(steps.program);
  for (const fb::Step& step : PlanView::steps(entry).subspan(steps.first, steps.count)) {
    for (const fb::Relocation& range : PlanView::relocations(entry, step)) {
      if (range.mode() != fb::AccessMode::Read &&
          holds(state, PlanView::value(entry, range.value())))
        return true;
    }
  }
  return false;
}

Status SessionBase::save_states(std::string_view what, StepRange steps,
                                std::vector<SavedState>& saved) {
  for (uint32_t s = 0; s < bound_states_.size(); ++s) {
    if (!writes_state(steps, s)) continue;
    if (bound_states_[s].has_value()) {
      return invalid_state(text_of(what, ": it would write ", state_text(s),
                                   ", which is bound to the caller's memory and could not be put ",
                                   "back; bind it with size 0 first"));
    }
    const uint64_t size_bytes = view_.index().states()->Get(s)->size_bytes();
    SavedState& kept = saved.emplace_back(SavedState{
        .part = {.state = s, .piece_bytes = size_bytes, .stride_bytes = size_bytes, .pieces = 1},
        .bytes = std::vector<std::byte>(size_bytes)});
    RLX_RETURN_IF_ERROR(read_state_bytes(kept.part, kept.bytes));
  }
  return {};
}

Status SessionBase::keep_states(std::string_view what, StepRange steps,
                                const std::function<Status()>& body) {
  std::vector<SavedState> saved;
  RLX_RETURN_IF_ERROR(save_states(what, steps, saved));
  Status status = body();
  for (const SavedState& kept : saved) {
    Status restored = write_state_bytes(kept.part, kept.bytes);
    if (status.ok()) status = std::move(restored);
  }
  return status;
}

Status write_states(const PlanView& plan, std::span<const std::optional<uint64_t>> bound,
                    StateWriter& writer) {
  for (uint32_t s = 0; s < bound.size(); ++s) {
    if (bound[s].has_value()) continue;
    const fb::State* const state = plan.index().states()->Get(s);
    const ByteRange range{.offset_bytes = state->offset_bytes(), .size_bytes = state->size_bytes()};
    if (range.size_bytes == 0) continue;
    switch (state->init()) {
      case fb::StateInit::Zeros:
        RLX_RETURN_IF_ERROR(writer.fill_zeros(range));
        break;
      case fb::StateInit::Weight: {
        const fb::Weight& weight = *plan.index().weights()->Get(*state->init_weight());
        RLX_RETURN_IF_ERROR(writer.copy_weight(weight.offset_bytes(), range));
        break;
      }
    }
  }
  return {};
}

}  // namespace rlx
