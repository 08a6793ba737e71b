// SPDX-License-Identifier: Apache-2.0
// Every call of the C API on one plan and device, in the order in which a program makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/include/rlx.h"

namespace rlx::test {

class SessionCalls {
 public:
  // `number` varies options and data.
  SessionCalls(std::span<const std::byte> plan, rlx_device* device, uint64_t number);
  ~SessionCalls();
  SessionCalls(const SessionCalls&) = delete;
  SessionCalls& operator=(const SessionCalls&) = delete;

  // What went wrong other than by a status that says so; empty: nothing.
  std::string run();
  // Some entry ran to its end.
  [[nodiscard]] bool ran() const { return ran_; }

 private:
  // False where the call failed; a status that no caller can cause, or one without a sentence, is
  // bad.
  bool ok(rlx_status status, const char* call);
  // A call that must be refused, and say why.
  void refused(rlx_status status, rlx_status wanted, const char* call);
  bool open();
  rlx_session* create_session();
  void ask_plan();
  void run_entry(uint32_t entry);
  void run_at_present_sizes(uint32_t entry);
  bool set_symbols(uint32_t entry, bool at_minimum);
  void set_wrong_symbol(uint32_t entry, const rlx_symbol_info& symbol);
  bool has_nothing(rlx_status status);
  bool set_inputs(uint32_t entry);
  void refuse_symbols(uint32_t entry);
  void queue_runs(uint32_t entry);
  void ask_states();
  void keep_state(const rlx_tensor_info& state);
  void keep_range(const rlx_tensor_info& state);
  void copy_state(const rlx_tensor_info& state, const std::vector<std::byte>& held);
  void bind_state(const rlx_tensor_info& state);
  void read_outputs(uint32_t entry);
  void ask_program(uint32_t entry);

  const std::span<const std::byte> bytes_;
  rlx_device* const device_;
  const uint64_t number_;
  rlx_plan* plan_ = nullptr;
  rlx_session* session_ = nullptr;
  rlx_session* other_ = nullptr;  // of the same plan, where it has states
  uint32_t queue_depth_ = 1;
  uint32_t entry_count_ = 0;
  bool ran_ = false;
  std::string bad_;
};

}  // namespace rlx::test
