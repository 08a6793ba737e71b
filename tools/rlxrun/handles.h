// SPDX-License-Identifier: Apache-2.0
// Owners for the handles of rlx.h, and its records as C++ values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/include/rlx.h"

namespace rlx::tool {

template <typename Handle, void (*kClose)(Handle*)>
struct Closer {
  void operator()(Handle* handle) const { kClose(handle); }
};

using PlanHandle = std::unique_ptr<rlx_plan, Closer<rlx_plan, rlx_plan_close>>;
using DeviceHandle = std::unique_ptr<rlx_device, Closer<rlx_device, rlx_device_close>>;
using DeviceListHandle =
    std::unique_ptr<rlx_device_list, Closer<rlx_device_list, rlx_device_list_close>>;
using SessionHandle = std::unique_ptr<rlx_session, Closer<rlx_session, rlx_session_close>>;

struct Tensor {
  std::string name;
  uint32_t dtype = 0;
  std::vector<uint64_t> dims;
  uint64_t size_bytes = 0;
  uint32_t first_step = 0;
  uint32_t last_step = 0;
  uint32_t segment = 0;
  // By axis the symbol that a free dim is, "?" for one that is computed, "" for a fixed one; empty
  // where all are fixed. Free dims are at their maximum until the session says what they are.
  std::vector<std::string> free_dims;

  [[nodiscard]] bool is_free() const { return !free_dims.empty(); }
};

// What one entry takes, gives and does.
struct EntryView {
  uint32_t index = 0;
  std::string name;
  uint32_t wave_count = 0;
  uint64_t arena_bytes = 0;
  uint64_t arena_lower_bound = 0;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<rlx_step_info> steps;  // their strings live as long as the plan
};

// The entry of that name; without a name the only one. What its device runs is still empty.
EntryView describe_entry(const rlx_plan* plan, const std::string& name);

// Adds what the session's device runs at the present sizes: waves, arena, steps, and the dims of
// outputs.
void describe_program(const rlx_session* session, EntryView& entry);

// "step 8 matmul", and the node where the plan names it.
std::string step_title(const EntryView& entry, uint32_t step);
// An input at the present sizes.
Tensor describe_input(const rlx_session* session, uint32_t entry, uint32_t input);

// The states of a plan, in its order.
std::vector<Tensor> describe_states(const rlx_plan* plan);

// The free symbols of a plan.
std::vector<std::string> free_symbols(const rlx_plan* plan);

// Any value of an entry, in the plan's order.
std::vector<Tensor> describe_values(const rlx_session* session, uint32_t entry);

// "[1,3,224,224]"
std::string shape_text(const std::vector<uint64_t>& dims);
// "f32[1,3,224,224]"
std::string type_text(uint32_t dtype, const std::vector<uint64_t>& dims);
// "f32[batch,3,224,224]": what a tensor can be.
std::string type_text(const Tensor& tensor);
// Whether a tensor can have these dims, as far as that is known without the session.
bool can_have_dims(const Tensor& tensor, const std::vector<uint64_t>& dims);

}  // namespace rlx::tool
