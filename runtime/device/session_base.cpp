// SPDX-License-Identifier: Apache-2.0
// The checks before every call of a session, the times of its runs, and the begin of its states.
#include "runtime/device/session_base.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/dtype.h"
#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/plan/free_sizes.h"

namespace rlx {

using std::chrono::nanoseconds;

SessionBase::SessionBase(Origin origin)
    : plan_(std::move(origin.plan)),
      counted_(origin.objects, ObjectKind::Session),
      view_(origin.view),
      info_(origin.info),
      profile_(origin.profile),
      max_bindings_(origin.max_bindings) {
  const std::vector<uint64_t> symbols = symbols_at_maximum(view_.index());
  programs_.reserve(view_.entry_count());
  for (uint32_t e = 0; e < view_.entry_count(); ++e) {
    present_.push_back(e);
    Program& program = programs_.emplace_back(Program{.entry = e,
                                                      .symbols = symbols,
                                                      .record = &view_.entry(e, plan_->target()),
                                                      .is_linked = true});
    for (const IoRange& io : io_ranges(*program.record))
      program.io.push_back({.io = io, .bound_address = std::nullopt});
  }
}

void SessionBase::use_program(uint32_t entry, uint32_t program) {
  present_[entry] = program;
  programs_[program].last_use = ++uses_;
}

bool SessionBase::use_binding(uint32_t entry, std::span<const uint64_t> symbols) {
  for (uint32_t p = 0; p < programs_.size(); ++p) {
    const Program& program = programs_[p];
    if (!program.is_linked || program.entry != entry ||
        !std::ranges::equal(program.symbols, symbols))
      continue;
    use_program(entry, p);
    return true;
  }
  return false;
}

uint32_t SessionBase::place_for_binding() {
  if (programs_.size() - present_.size() < max_bindings_) {
    programs_.emplace_back();
    return static_cast<uint32_t>(programs_.size() - 1);
  }
  const auto oldest =
      std::min_element(programs_.begin() + static_cast<ptrdiff_t>(present_.size()), programs_.end(),
                       [](const Program& a, const Program& b) { return a.last_use < b.last_use; });
  const auto place = static_cast<uint32_t>(oldest - programs_.begin());
  // Its entry is at the maximum until it is bound again.
  if (present_[oldest->entry] == place) present_[oldest->entry] = oldest->entry;
  return place;
}

Status SessionBase::add_binding(uint32_t entry, std::span<const uint64_t> symbols,
                                std::shared_ptr<const PlanView> bound) {
  RLX_RETURN_IF_ERROR(check_ready("add_binding"));
  Program made{.entry = entry,
               .symbols = {symbols.begin(), symbols.end()},
               .bound = std::move(bound),
               .io = programs_[entry].io};
  made.record = &made.bound->entry(entry, plan_->target());
  for (IoSlot& slot : made.io)
    slot.io.range.size_bytes = PlanView::value(*made.record, slot.io.value).size_bytes();
  const uint32_t place = place_for_binding();
  programs_[place] = std::move(made);
  link(place);
  programs_[place].is_linked = true;
  use_program(entry, place);
  return {};
}

void SessionBase::show_index_errors(std::span<std::byte> words) {
  std::fill(words.begin(), words.end(), std::byte{0});
  index_errors_ = {reinterpret_cast<uint32_t*>(words.data()), words.size() / kIndexErrorBytes};
}

SessionBase::IoSlot& SessionBase::io_slot(Program& program, uint32_t value) {
  std::vector<IoSlot>& slots = program.io;
  return *std::find_if(slots.begin(), slots.end(),
                       [&](const IoSlot& slot) { return slot.io.value == value; });
}

Status SessionBase::check_ready(std::string_view what) const {
  if (running_.has_value()) {
    return invalid_state(
        text_of(what, ": a run of this session is still under way; wait for it first"));
  }
  return health();
}

nanoseconds SessionBase::since_submit() const {
  return nanoseconds(std::chrono::steady_clock::now() - submitted_);
}

Status SessionBase::prepare(uint32_t entry) {
  const uint32_t program = present_[entry];
  if (programs_[program].is_prepared) return {};
  RLX_RETURN_IF_ERROR(check_ready("prepare"));
  RLX_RETURN_IF_ERROR(prepare_program(program));
  programs_[program].is_prepared = true;
  return {};
}

Status SessionBase::write(uint32_t entry, uint32_t value, std::span<const std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_ready("write"));
  const IoSlot& slot = io_slot(programs_[entry], value);
  if (slot.bound_address.has_value())
    return invalid_state("write: the input lives in a bound buffer; write it there");
  return bytes.empty() ? Status() : write_io(slot, bytes);
}

Status SessionBase::read(uint32_t entry, uint32_t value, std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_ready("read"));
  const IoSlot& slot = io_slot(programs_[entry], value);
  if (slot.bound_address.has_value())
    return invalid_state("read: the output lives in a bound buffer; read it there");
  return bytes.empty() ? Status() : read_io(slot, bytes);
}

Status SessionBase::check_bindable(uint32_t, uint32_t) const {
  return {};
}

Status SessionBase::bind(uint32_t entry, uint32_t value, ExternalBuffer buffer) {
  RLX_RETURN_IF_ERROR(check_ready("bind"));
  const std::optional<uint64_t> address =
      buffer.size_bytes == 0 ? std::nullopt : std::optional(buffer.device_address);
  if (io_slot(programs_[entry], value).bound_address == address) return {};
  if (address.has_value()) RLX_RETURN_IF_ERROR(check_bindable(entry, value));
  for (uint32_t p = 0; p < programs_.size(); ++p) {
    if (!programs_[p].is_linked || programs_[p].entry != entry) continue;
    IoSlot& slot = io_slot(programs_[p], value);
    slot.bound_address = address;
    move_io(p, slot);
    programs_[p].is_prepared = false;
  }
  return {};
}

Status SessionBase::submit(uint32_t entry) {
  RLX_RETURN_IF_ERROR(check_ready("submit"));
  RLX_RETURN_IF_ERROR(prepare(entry));
  RLX_RETURN_IF_ERROR(launch(present_[entry]));
  submitted_ = std::chrono::steady_clock::now();
  running_ = present_[entry];
  return {};
}

Status SessionBase::wait(uint64_t timeout_nanoseconds) {
  if (!running_.has_value()) return {};
  Program& runs = programs_[*running_];
  const nanoseconds expected = std::max(runs.last_duration - since_submit(), nanoseconds(0));
  RunEnd end = wait_for_run(timeout_nanoseconds, expected);
  if (!end.is_over) return std::move(end.status);
  // How long before its wake-up such a run ended is not known: the next one is slept through for
  // less, until its end is seen.
  runs.last_duration = end.overslept ? since_submit() * 3 / 4 : since_submit();
  running_.reset();
  if (!end.status.ok()) {
    return {end.status.code(), text_of("plan ", quoted(view_.name()), ", entry ",
                                       quoted(PlanView::text(runs.record->name())), " on ",
                                       info_.id, ": ", end.status.message())};
  }
  RLX_RETURN_IF_ERROR(finish_run(last_run_microseconds_));
  return health();
}

Status SessionBase::profile(uint32_t entry, std::vector<StepTime>& times) {
  if (!profile_) return invalid_state("profile: the plan was loaded without the option profile");
  RLX_RETURN_IF_ERROR(check_ready("profile"));
  StepTimes measured;
  RLX_RETURN_IF_ERROR(time_steps(present_[entry], measured));
  times.clear();
  for (const double microseconds : measured.microseconds) {
    times.push_back({.step = static_cast<uint32_t>(times.size()), .microseconds = microseconds});
  }
  last_run_microseconds_ = measured.all_microseconds;
  return {};
}

Status SessionBase::reset_states() {
  RLX_RETURN_IF_ERROR(check_ready("reset_states"));
  return view_.index().states()->size() == 0 ? Status() : fill_states();
}

Status SessionBase::read_after(uint32_t entry, uint32_t step, uint32_t value,
                               std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_ready("read_after"));
  return run_and_read(present_[entry], step, value, bytes);
}

Status SessionBase::poison_arena(std::byte pattern) {
  RLX_RETURN_IF_ERROR(check_ready("poison_arena"));
  return fill_arena(pattern);
}

Status SessionBase::time_algorithms(uint32_t entry, uint32_t step, uint32_t most,
                                    std::vector<GemmAlgorithm>& algorithms) {
  RLX_RETURN_IF_ERROR(check_ready("time_algorithms"));
  if (PlanView::steps(bound_record(entry))[step].kind() != fb::StepKind::LibraryGemm) {
    return invalid_argument(text_of(bound_view(entry).describe_step(bound_record(entry), step),
                                    " is no library product"));
  }
  return time_library(present_[entry], step, most, algorithms);
}

Status SessionBase::time_library(uint32_t, uint32_t, uint32_t, std::vector<GemmAlgorithm>&) {
  return unsuitable("this device has no library of products to tune");
}

Status write_states(const PlanView& plan, StateWriter& writer) {
  for (const fb::State* state : *plan.index().states()) {
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
