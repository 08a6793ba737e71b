// SPDX-License-Identifier: Apache-2.0
// Every call of the C API on one plan and device.
#include "tests/fuzz/plans/session_calls.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/text.h"
#include "schema/plan_header.h"

namespace rlx::test {
namespace {

// Those that a plan, a device or memory can cause.
bool is_fair(rlx_status status) {
  return status == RLX_INVALID_PLAN || status == RLX_UNSUITABLE_DEVICE ||
         status == RLX_OUT_OF_HOST_MEMORY || status == RLX_OUT_OF_DEVICE_MEMORY ||
         status == RLX_INDEX_OUT_OF_RANGE;
}

}  // namespace

SessionCalls::SessionCalls(std::span<const std::byte> plan, rlx_device* device, uint64_t number)
    : bytes_(plan), device_(device), number_(number) {}

SessionCalls::~SessionCalls() {
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

std::string SessionCalls::run() {
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  ok(rlx_plan_preflight(bytes_.data(), kPlanHeaderBytes, device_, &info), "rlx_plan_preflight");
  if (open()) {
    ask_plan();
    for (uint32_t entry = 0; entry < entry_count_ && bad_.empty(); ++entry) run_entry(entry);
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
  rlx_session_options session = RLX_INIT(rlx_session_options);
  session.profile = 1;
  session.check_indices = number_ % 2;
  return ok(rlx_session_create(plan_, device_, &session, &session_), "rlx_session_create");
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

bool SessionCalls::set_inputs(uint32_t entry) {
  rlx_entry_info info = RLX_INIT(rlx_entry_info);
  if (!ok(rlx_plan_get_entry(plan_, entry, &info), "rlx_plan_get_entry")) return false;
  for (uint32_t i = 0; i < info.input_count; ++i) {
    rlx_tensor_info input = RLX_INIT(rlx_tensor_info);
    if (!ok(rlx_session_get_input(session_, entry, i, &input), "rlx_session_get_input"))
      return false;
    std::vector<std::byte> data(input.size_bytes);
    for (size_t b = 0; b < data.size(); b += 16) data[b] = std::byte(number_ + b);
    rlx_tensor tensor = RLX_INIT(rlx_tensor);
    tensor.data = data.data();
    tensor.size_bytes = input.size_bytes;
    tensor.dtype = input.dtype;
    tensor.rank = input.rank;
    std::copy_n(input.dims, RLX_MAX_RANK, tensor.dims);
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
    if (!ok(rlx_session_set_symbol(session_, entry, symbol.name,
                                   symbol.minimum + steps * symbol.multiple_of),
            "rlx_session_set_symbol"))
      return false;
  }
  return any;
}

void SessionCalls::run_entry(uint32_t entry) {
  run_at_present_sizes(entry);
  for (const bool at_minimum : {true, false}) {
    if (bad_.empty() && set_symbols(entry, at_minimum)) run_at_present_sizes(entry);
  }
}

void SessionCalls::run_at_present_sizes(uint32_t entry) {
  ok(rlx_session_poison_arena(session_, 0xA5), "rlx_session_poison_arena");
  if (!set_inputs(entry) || !ok(rlx_session_prepare(session_, entry), "rlx_session_prepare"))
    return;
  if (!ok(rlx_session_run(session_, entry), "rlx_session_run")) return;
  ran_ = true;
  read_outputs(entry);
  ask_program(entry);
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
