// SPDX-License-Identifier: Apache-2.0
// The checks before every call of a session, and the times of its runs.
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
      max_bindings_(origin.max_bindings),
      bound_states_(view_.index().states()->size()),
      queue_(origin.queue_depth) {
  const std::vector<uint64_t> symbols = symbols_at_maximum(view_.index());
  programs_.reserve(view_.entry_count());
  for (uint32_t e = 0; e < view_.entry_count(); ++e) {
    present_.push_back(e);
    Program& program = programs_.emplace_back(Program{.entry = e,
                                                      .symbols = symbols,
                                                      .record = &view_.entry(e, plan_->target()),
                                                      .unbound = &view_.entry(e, plan_->target()),
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
  made.record = record_for(made.bound->entry_ranges(entry, plan_->target()), symbols);
  made.unbound = record_for(view_.entry_ranges(entry, plan_->target()), symbols);
  const std::vector<IoRange> own = io_ranges(*made.record);
  for (size_t i = 0; i < own.size(); ++i) {
    made.io[i].io.value = own[i].value;
    made.io[i].io.range.size_bytes = own[i].range.size_bytes;
  }
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

size_t SessionBase::io_number(uint32_t entry, uint32_t value) const {
  const std::vector<IoSlot>& slots = programs_[entry].io;
  const auto found =
      std::ranges::find_if(slots, [&](const IoSlot& slot) { return slot.io.value == value; });
  return static_cast<size_t>(found - slots.begin());
}

Status SessionBase::check_bindable_io(uint32_t entry, size_t number) const {
  for (const fb::Entry* record : view_.entry_ranges(entry, plan_->target()))
    RLX_RETURN_IF_ERROR(check_bindable(*record, io_ranges(*record)[number].value));
  return {};
}

Status SessionBase::check_ready(std::string_view what) const {
  if (is_running()) {
    return invalid_state(
        text_of(what, ": a run of this session is still under way; wait for it first"));
  }
  return health();
}

Status SessionBase::prepare_if_needed(uint32_t program) {
  if (programs_[program].is_prepared) return {};
  RLX_RETURN_IF_ERROR(prepare_program(program));
  programs_[program].is_prepared = true;
  return {};
}

Status SessionBase::prepare(uint32_t entry) {
  if (programs_[present_[entry]].is_prepared) return {};
  RLX_RETURN_IF_ERROR(check_ready("prepare"));
  return prepare_if_needed(present_[entry]);
}

Status SessionBase::write(uint32_t entry, uint32_t value, std::span<const std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_ready("write"));
  const IoSlot& slot = io_slot(entry, value);
  if (slot.bound_address.has_value())
    return invalid_state("write: the input lives in a bound buffer; write it there");
  return bytes.empty() ? Status() : write_io(slot, bytes);
}

Status SessionBase::read(uint32_t entry, uint32_t value, std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_ready("read"));
  const IoSlot& slot = io_slot(entry, value);
  if (slot.bound_address.has_value())
    return invalid_state("read: the output lives in a bound buffer; read it there");
  return bytes.empty() ? Status() : read_io(slot, bytes);
}

Status SessionBase::check_bindable(const fb::Entry&, uint32_t) const {
  return {};
}

Status SessionBase::bind(uint32_t entry, uint32_t value, ExternalBuffer buffer) {
  RLX_RETURN_IF_ERROR(check_ready("bind"));
  const std::optional<uint64_t> address =
      buffer.size_bytes == 0 ? std::nullopt : std::optional(buffer.device_address);
  const size_t number = io_number(entry, value);
  if (programs_[entry].io[number].bound_address == address) return {};
  if (address.has_value()) RLX_RETURN_IF_ERROR(check_bindable_io(entry, number));
  for (uint32_t p = 0; p < programs_.size(); ++p) {
    if (!programs_[p].is_linked || programs_[p].entry != entry) continue;
    IoSlot& slot = programs_[p].io[number];
    slot.bound_address = address;
    move_io(p, slot);
    programs_[p].is_prepared = false;
  }
  return {};
}

Status SessionBase::submit(uint32_t entry) {
  if (submit_count_ - end_count_ == queue_.size()) {
    return invalid_state(text_of("submit: ", queue_.size(), " of ", queue_.size(),
                                 " runs of this session are still under way; wait for one first"));
  }
  RLX_RETURN_IF_ERROR(health());
  const uint32_t program = present_[entry];
  RLX_RETURN_IF_ERROR(prepare_if_needed(program));
  const uint32_t slot = slot_of(submit_count_);
  RLX_RETURN_IF_ERROR(launch(program, slot));
  queue_[slot] = {.program = program, .begin = std::chrono::steady_clock::now()};
  ++submit_count_;
  return {};
}

Status SessionBase::end_run(const Run& run, RunEnd end) {
  Program& runs = programs_[run.program];
  const auto now = std::chrono::steady_clock::now();
  // How long before its wake-up such a run ended is not known: the next one is slept through for
  // less, until its end is seen.
  runs.last_duration = nanoseconds(now - run.begin) * (end.overslept ? 3 : 4) / 4;
  ++end_count_;
  if (is_running()) queue_[slot_of(end_count_)].begin = now;
  if (!end.status.ok()) {
    return {end.status.code(), text_of("plan ", quoted(view_.name()), ", entry ",
                                       quoted(PlanView::text(runs.record->name())), " on ",
                                       info_.id, ": ", end.status.message())};
  }
  if (!is_running()) RLX_RETURN_IF_ERROR(finish_run(last_run_microseconds_));
  return health();
}

Status SessionBase::wait(uint64_t timeout_nanoseconds) {
  if (!is_running()) return {};
  const uint32_t slot = slot_of(end_count_);
  const Run run = queue_[slot];
  // Several times what use_time_of_run() takes.
  constexpr uint64_t kNoHurry = 10'000'000;
  if (timeout_nanoseconds >= kNoHurry) use_time_of_run(run.program);
  const nanoseconds elapsed(std::chrono::steady_clock::now() - run.begin);
  const nanoseconds expected =
      std::max(programs_[run.program].last_duration - elapsed, nanoseconds(0));
  RunEnd end = wait_for_run(slot, timeout_nanoseconds, expected);
  return end.is_over ? end_run(run, std::move(end)) : std::move(end.status);
}

Status SessionBase::profile(uint32_t entry, std::vector<StepTime>& times) {
  if (!profile_) return invalid_state("profile: the plan was loaded without the option profile");
  RLX_RETURN_IF_ERROR(check_ready("profile"));
  StepTimes measured;
  const auto steps = static_cast<uint32_t>(PlanView::steps(bound_record(entry)).size());
  RLX_RETURN_IF_ERROR(keep_states("profile",
                                  {.program = present_[entry], .first = 0, .count = steps},
                                  [&] { return time_steps(present_[entry], measured); }));
  times.clear();
  for (const double microseconds : measured.microseconds) {
    times.push_back({.step = static_cast<uint32_t>(times.size()), .microseconds = microseconds});
  }
  last_run_microseconds_ = measured.all_microseconds;
  return {};
}

Status SessionBase::read_after(uint32_t entry, uint32_t step, uint32_t value,
                               std::span<std::byte> bytes) {
  RLX_RETURN_IF_ERROR(check_ready("read_after"));
  return keep_states("read_after", {.program = present_[entry], .first = 0, .count = step + 1},
                     [&] { return run_and_read(present_[entry], step, value, bytes); });
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
  return keep_states("time_algorithms", {.program = present_[entry], .first = step, .count = 1},
                     [&] { return time_library(present_[entry], step, most, algorithms); });
}

Status SessionBase::time_library(uint32_t, uint32_t, uint32_t, std::vector<GemmAlgorithm>&) {
  return unsuitable("this device has no library of products to tune");
}

}  // namespace rlx
