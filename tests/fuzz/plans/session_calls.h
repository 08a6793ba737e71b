// SPDX-License-Identifier: Apache-2.0
// Every call of the C API on one plan and device, in the order in which a program makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

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
  bool open();
  void ask_plan();
  void run_entry(uint32_t entry);
  void run_at_present_sizes(uint32_t entry);
  bool set_symbols(uint32_t entry, bool at_minimum);
  bool set_inputs(uint32_t entry);
  void read_outputs(uint32_t entry);
  void ask_program(uint32_t entry);

  const std::span<const std::byte> bytes_;
  rlx_device* const device_;
  const uint64_t number_;
  rlx_plan* plan_ = nullptr;
  rlx_session* session_ = nullptr;
  uint32_t entry_count_ = 0;
  bool ran_ = false;
  std::string bad_;
};

}  // namespace rlx::test
