// SPDX-License-Identifier: Apache-2.0
// Every call of the C API on one plan and device.
#include "tests/fuzz/plans/session_calls.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/text.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx::test {
namespace {

// Those that a plan, a device or memory can cause.
bool is_fair(rlx_status status) {
  return status == RLX_INVALID_PLAN || status == RLX_UNSUITABLE_DEVICE ||
         status == RLX_OUT_OF_HOST_MEMORY || status == RLX_OUT_OF_DEVICE_MEMORY ||
         status == RLX_INDEX_OUT_OF_RANGE || status == RLX_ASSERTION_FAILED;
}

rlx_tensor tensor_of(const rlx_tensor_info& info, const std::vector<std::byte>& bytes) {
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = bytes.data();
  tensor.size_bytes = bytes.size();
  tensor.dtype = info.dtype;
  tensor.rank = info.rank;
  std::copy_n(info.dims, RLX_MAX_RANK, tensor.dims);
  return tensor;
}

// An axis ranges of which are few copies; the last one of blocks has ranges of whole blocks only.
uint32_t handy_axis(const rlx_tensor_info& state, uint64_t number) {
  constexpr uint64_t kMostCopies = 256;
  const auto wanted = static_cast<uint32_t>(number % state.rank);
  uint64_t copies = 1;
  for (uint32_t axis = 0; axis < wanted && copies <= kMostCopies; ++axis)
    copies *= state.dims[axis];
  return copies <= kMostCopies && wanted + 1 < state.rank ? wanted : 0;
}

// Where the null device takes a caller's memory.
constexpr uint64_t kStateAlignment = 256;

}  // namespace

SessionCalls::SessionCalls(std::span<const std::byte> plan, rlx_device* device, uint64_t number)
    : bytes_(plan), device_(device), number_(number) {}

SessionCalls::~SessionCalls() {
  rlx_session_close(other_);
  rlx_session_close(session_);
  rlx_plan_close(plan_);
}

bool SessionCalls::ok(rlx_status status, const char* call) {
  if (status == RLX_OK) return true;
  const std::string sentence = rlx_last_error();
  if (bad_.empty() && (!is_fair(status) || sentence.empty()))
    bad_ = text_of(call, " gives ", rlx_status_name(status), ": ", sentence);
  return false;
}

void SessionCalls::refused(rlx_status status, rlx_status wanted, const char* call) {
  const std::string sentence = status == RLX_OK ? "" : rlx_last_error();
  if (bad_.empty() && (status != wanted || sentence.empty()))
    bad_ = text_of(call, " gives ", rlx_status_name(status), ", wanted ", rlx_status_name(wanted),
                   ": ", sentence);
}

std::string SessionCalls::run() {
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  ok(rlx_plan_preflight(bytes_.data(), kPlanHeaderBytes, device_, &info), "rlx_plan_preflight");
  if (open()) {
    ask_plan();
    for (uint32_t entry = 0; entry < entry_count_ && bad_.empty(); ++entry) run_entry(entry);
    ask_states();
    ok(rlx_session_reset_states(session_), "rlx_session_reset_states");
  }
  return bad_;
}

bool SessionCalls::open() {
  rlx_plan_options options = RLX_INIT(rlx_plan_options);
  options.copy_memory = number_ % 2;
  if (!ok(rlx_plan_open_memory(bytes_.data(), bytes_.size(), &options, &plan_),
          "rlx_plan_open_memory"))
    return false;
  session_ = create_session();
  return session_ != nullptr;
}

// A queue of more than one run does not go with checks of indices.
rlx_session* SessionCalls::create_session() {
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.profile = 1;
  options.check_indices = number_ % 2;
  options.max_bindings = static_cast<uint32_t>(number_ % 3);
  options.queue_depth = queue_depth_ = number_ % 2 == 1 ? 1 : 1 + number_ / 2 % 4;
  rlx_session* session = nullptr;
  ok(rlx_session_create(plan_, device_, &options, &session), "rlx_session_create");
  return session;
}

void SessionCalls::ask_plan() {
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  if (!ok(rlx_plan_get_info(plan_, &info), "rlx_plan_get_info")) return;
  entry_count_ = info.entry_count;
  for (uint32_t e = 0; e < entry_count_; ++e) {
    rlx_entry_info entry = RLX_INIT(rlx_entry_info);
    uint32_t found = 0;
    if (!ok(rlx_plan_get_entry(plan_, e, &entry), "rlx_plan_get_entry")) return;
    if (!ok(rlx_plan_find_entry(plan_, entry.name, &found), "rlx_plan_find_entry")) return;
    if (found != e) bad_ = "rlx_plan_find_entry finds another entry of that name";
  }
}

// A mutant need not have a program for all values of symbols together.
bool SessionCalls::has_nothing(rlx_status status) {
  return status == RLX_INVALID_ARGUMENT && rlx_plan_symbol_count(plan_) > 1;
}

bool SessionCalls::set_inputs(uint32_t entry) {
  rlx_entry_info info = RLX_INIT(rlx_entry_info);
  if (!ok(rlx_plan_get_entry(plan_, entry, &info), "rlx_plan_get_entry")) return false;
  for (uint32_t i = 0; i < info.input_count; ++i) {
    rlx_tensor_info input = RLX_INIT(rlx_tensor_info);
    const rlx_status known = rlx_session_get_input(session_, entry, i, &input);
    if (has_nothing(known) || !ok(known, "rlx_session_get_input")) return false;
    std::vector<std::byte> data(input.size_bytes);
    for (size_t b = 0; b < data.size(); b += 16) data[b] = std::byte(number_ + b);
    const rlx_tensor tensor = tensor_of(input, data);
    if (!ok(rlx_session_set_input(session_, entry, input.name, &tensor), "rlx_session_set_input"))
      return false;
  }
  return true;
}

void SessionCalls::read_outputs(uint32_t entry) {
  rlx_entry_info info = RLX_INIT(rlx_entry_info);
  if (!ok(rlx_plan_get_entry(plan_, entry, &info), "rlx_plan_get_entry")) return;
  for (uint32_t i = 0; i < info.output_count; ++i) {
    rlx_tensor_info output = RLX_INIT(rlx_tensor_info);
    if (!ok(rlx_session_get_output(session_, entry, i, &output), "rlx_session_get_output")) return;
    std::vector<std::byte> data(output.size_bytes);
    if (!ok(rlx_session_read_output(session_, entry, output.name, data.data(), data.size()),
            "rlx_session_read_output"))
      return;
  }
}

// Free ones at their minimum, or somewhere.
bool SessionCalls::set_symbols(uint32_t entry, bool at_minimum) {
  bool any = false;
  for (uint32_t i = 0; i < rlx_plan_symbol_count(plan_); ++i) {
    rlx_symbol_info symbol = RLX_INIT(rlx_symbol_info);
    if (!ok(rlx_plan_get_symbol(plan_, i, &symbol), "rlx_plan_get_symbol")) return false;
    if (symbol.is_free == 0) continue;
    const uint64_t count = (symbol.maximum - symbol.minimum) / symbol.multiple_of + 1;
    const uint64_t steps = at_minimum ? 0 : (number_ + i) % count;
    any = true;
    const rlx_status set = rlx_session_set_symbol(session_, entry, symbol.name,
                                                  symbol.minimum + steps * symbol.multiple_of);
    // Between two ranges there is nothing, nor below a range that a mutant has made smaller.
    if (set != RLX_INVALID_ARGUMENT && !ok(set, "rlx_session_set_symbol")) return false;
    set_wrong_symbol(entry, symbol);
  }
  return any;
}

// Values outside the range leave the symbol as it is.
void SessionCalls::set_wrong_symbol(uint32_t entry, const rlx_symbol_info& symbol) {
  uint64_t before = 0;
  uint64_t after = 0;
  ok(rlx_session_get_symbol(session_, entry, symbol.name, &before), "rlx_session_get_symbol");
  refused(rlx_session_set_symbol(session_, entry, symbol.name, symbol.maximum + 1),
          RLX_INVALID_ARGUMENT, "rlx_session_set_symbol beyond the maximum");
  ok(rlx_session_get_symbol(session_, entry, symbol.name, &after), "rlx_session_get_symbol");
  if (bad_.empty() && before != after) bad_ = "a refused value changed a symbol";
}

void SessionCalls::run_entry(uint32_t entry) {
  run_at_present_sizes(entry);
  for (const bool at_minimum : {true, false}) {
    if (bad_.empty() && set_symbols(entry, at_minimum)) run_at_present_sizes(entry);
  }
}

void SessionCalls::run_at_present_sizes(uint32_t entry) {
  ok(rlx_session_poison_arena(session_, 0xA5), "rlx_session_poison_arena");
  if (!set_inputs(entry)) return;
  const rlx_status prepared = rlx_session_prepare(session_, entry);
  if (has_nothing(prepared) || !ok(prepared, "rlx_session_prepare")) return;
  if (!ok(rlx_session_run(session_, entry), "rlx_session_run")) return;
  ran_ = true;
  read_outputs(entry);
  if (bad_.empty()) queue_runs(entry);
  ask_program(entry);
}

// None is set while a run is under way.
void SessionCalls::refuse_symbols(uint32_t entry) {
  for (uint32_t i = 0; i < rlx_plan_symbol_count(plan_); ++i) {
    rlx_symbol_info symbol = RLX_INIT(rlx_symbol_info);
    if (!ok(rlx_plan_get_symbol(plan_, i, &symbol), "rlx_plan_get_symbol")) return;
    if (symbol.is_free == 0) continue;
    refused(rlx_session_set_symbol(session_, entry, symbol.name, symbol.minimum), RLX_INVALID_STATE,
            "rlx_session_set_symbol during a run");
  }
}

// As many runs as the queue holds, and one more.
void SessionCalls::queue_runs(uint32_t entry) {
  uint64_t first = 0;
  uint32_t queued = 0;
  for (; queued < queue_depth_; ++queued) {
    uint64_t run = 0;
    if (!ok(rlx_session_enqueue(session_, entry, &run), "rlx_session_enqueue")) break;
    if (queued == 0) first = run;
    if (bad_.empty() && run != first + queued) bad_ = "runs of a queue are not counted one by one";
  }
  if (queued == queue_depth_ && bad_.empty()) {
    uint64_t none = 0;
    refused(rlx_session_enqueue(session_, entry, &none), RLX_INVALID_STATE,
            "rlx_session_enqueue to a full queue");
    refuse_symbols(entry);
    // In the middle, then all.
    ok(rlx_session_wait_for(session_, first + number_ % queue_depth_, UINT64_MAX),
       "rlx_session_wait_for");
  }
  ok(rlx_session_wait(session_, UINT64_MAX), "rlx_session_wait");
}

void SessionCalls::ask_states() {
  for (uint32_t i = 0; i < rlx_plan_state_count(plan_) && bad_.empty(); ++i) {
    rlx_tensor_info state = RLX_INIT(rlx_tensor_info);
    if (ok(rlx_plan_get_state(plan_, i, &state), "rlx_plan_get_state")) keep_state(state);
  }
}

// Saved, restored, copied, bound.
void SessionCalls::keep_state(const rlx_tensor_info& state) {
  std::vector<std::byte> held(state.size_bytes);
  if (!ok(rlx_session_read_state(session_, state.name, nullptr, held.data(), held.size()),
          "rlx_session_read_state"))
    return;
  for (size_t b = number_ % 7; b < held.size(); b += 16) held[b] = std::byte(number_ + b);
  const rlx_tensor tensor = tensor_of(state, held);
  if (!ok(rlx_session_write_state(session_, state.name, nullptr, &tensor),
          "rlx_session_write_state"))
    return;
  std::vector<std::byte> again(held.size());
  ok(rlx_session_read_state(session_, state.name, nullptr, again.data(), again.size()),
     "rlx_session_read_state");
  if (bad_.empty() && held != again) bad_ = "a state does not hold what was written to it";
  if (state.rank > 0) keep_range(state);
  copy_state(state, held);
  bind_state(state);
}

// A range that is read and written back; one that is none.
void SessionCalls::keep_range(const rlx_tensor_info& state) {
  rlx_state_range range = RLX_INIT(rlx_state_range);
  range.axis = handy_axis(state, number_);
  const uint64_t size = state.dims[range.axis];
  range.begin = size == 0 ? 0 : number_ % size;
  const bool is_whole = range.axis + 1 == state.rank;  // of blocks, whole ones are needed
  if (is_whole) range.begin = 0;
  range.count = is_whole ? size : (size - range.begin + 1) / 2;
  std::vector<std::byte> part(size == 0 ? 0 : state.size_bytes / size * range.count);
  if (ok(rlx_session_read_state(session_, state.name, &range, part.data(), part.size()),
         "rlx_session_read_state of a range")) {
    rlx_tensor tensor = tensor_of(state, part);
    tensor.dims[range.axis] = range.count;
    ok(rlx_session_write_state(session_, state.name, &range, &tensor),
       "rlx_session_write_state of a range");
  }
  range.count = size + 1;
  refused(rlx_session_read_state(session_, state.name, &range, part.data(), part.size()),
          RLX_INVALID_ARGUMENT, "rlx_session_read_state beyond an axis");
}

void SessionCalls::copy_state(const rlx_tensor_info& state, const std::vector<std::byte>& held) {
  if (other_ == nullptr) other_ = create_session();
  if (other_ == nullptr ||
      !ok(rlx_session_copy_state(other_, state.name, session_), "rlx_session_copy_state"))
    return;
  std::vector<std::byte> copy(held.size());
  ok(rlx_session_read_state(other_, state.name, nullptr, copy.data(), copy.size()),
     "rlx_session_read_state");
  if (bad_.empty() && held != copy) bad_ = "a copied state is another one";
}

// To this program's memory, which is the null device's own.
void SessionCalls::bind_state(const rlx_tensor_info& state) {
  rlx_device_info device = RLX_INIT(rlx_device_info);
  ok(rlx_device_get_info(device_, &device), "rlx_device_get_info");
  if (std::strcmp(device.id, "null") != 0 || state.size_bytes == 0) return;
  std::vector<std::byte> memory(state.size_bytes + kStateAlignment);
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  const uint64_t address = round_up(uint64_t{begin}, kStateAlignment);
  refused(rlx_session_bind_state(session_, state.name, address, state.size_bytes - 1),
          RLX_INVALID_ARGUMENT, "rlx_session_bind_state to less than the state");
  if (!ok(rlx_session_bind_state(session_, state.name, address, state.size_bytes),
          "rlx_session_bind_state"))
    return;
  for (uint32_t entry = 0; entry < entry_count_ && bad_.empty(); ++entry) {
    if (set_inputs(entry)) ok(rlx_session_run(session_, entry), "rlx_session_run");
  }
  refused(rlx_session_read_state(session_, state.name, nullptr, memory.data(), state.size_bytes),
          RLX_INVALID_STATE, "rlx_session_read_state of the caller's memory");
  ok(rlx_session_bind_state(session_, state.name, 0, 0), "rlx_session_bind_state to none");
}

void SessionCalls::ask_program(uint32_t entry) {
  rlx_program_info program = RLX_INIT(rlx_program_info);
  if (!ok(rlx_session_get_program(session_, entry, &program), "rlx_session_get_program")) return;
  std::vector<rlx_step_time> times(program.step_count + 1);
  uint32_t count = 0;
  ok(rlx_session_profile(session_, entry, times.data(), program.step_count, &count),
     "rlx_session_profile");
  if (count > program.step_count) bad_ = "rlx_session_profile tells more steps than there are";
  for (uint32_t s = 0; s < program.step_count; ++s) {
    rlx_step_info step = RLX_INIT(rlx_step_info);
    if (!ok(rlx_session_get_step(session_, entry, s, &step), "rlx_session_get_step")) return;
    if (std::strlen(step.kernel) == 0) bad_ = "a step's kernel has no name";
  }
  for (uint32_t v = 0; v < program.value_count; ++v) {
    rlx_tensor_info value = RLX_INIT(rlx_tensor_info);
    if (!ok(rlx_session_get_value(session_, entry, v, &value), "rlx_session_get_value")) return;
    std::vector<std::byte> data(value.size_bytes);
    const uint32_t last = std::min(value.last_step, program.step_count - 1);
    if (program.step_count == 0 || v % 4 != number_ % 4) continue;
    ok(rlx_session_read_value(session_, entry, last, v, data.data(), data.size()),
       "rlx_session_read_value");
  }
}

}  // namespace rlx::test
