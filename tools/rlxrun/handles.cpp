// SPDX-License-Identifier: Apache-2.0
// Reads the plan's records through the C API.
#include "tools/rlxrun/handles.h"

#include "tools/rlxrun/errors.h"

namespace rlx::tool {
namespace {

Tensor to_tensor(const rlx_tensor_info& info) {
  return {.name = info.name,
          .dtype = info.dtype,
          .dims = std::vector<uint64_t>(info.dims, info.dims + info.rank),
          .size_bytes = info.size_bytes,
          .first_step = info.first_step,
          .last_step = info.last_step,
          .segment = info.segment};
}

template <class Owner>
using TensorGetter = rlx_status (*)(const Owner*, uint32_t, uint32_t, rlx_tensor_info*);

template <class Owner>
std::vector<Tensor> tensors(const Owner* owner, uint32_t entry, uint32_t count,
                            TensorGetter<Owner> get) {
  std::vector<Tensor> all;
  for (uint32_t i = 0; i < count; ++i) {
    rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
    check(get(owner, entry, i, &info));
    all.push_back(to_tensor(info));
  }
  return all;
}

rlx_entry_info entry_info(const rlx_plan* plan, uint32_t entry) {
  rlx_entry_info info = RLX_INIT(rlx_entry_info);
  check(rlx_plan_get_entry(plan, entry, &info));
  return info;
}

rlx_program_info program_info(const rlx_session* session, uint32_t entry) {
  rlx_program_info info = RLX_INIT(rlx_program_info);
  check(rlx_session_get_program(session, entry, &info));
  return info;
}

uint32_t only_entry(const rlx_plan* plan) {
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  check(rlx_plan_get_info(plan, &info));
  if (info.entry_count == 1) return 0;
  std::string names;
  for (uint32_t i = 0; i < info.entry_count; ++i)
    names += (i == 0 ? "" : ", ") + std::string(entry_info(plan, i).name);
  throw Failure(ExitCode::Usage, "the plan has several entries, choose one with --entry: " + names);
}

}  // namespace

namespace {

using DimGetter = rlx_status (*)(const rlx_plan*, uint32_t, uint32_t, uint32_t, rlx_dim_info*);

void describe_dims(const rlx_plan* plan, uint32_t entry, DimGetter get,
                   std::vector<Tensor>& tensors) {
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::string> names;
    bool is_free = false;
    for (uint32_t axis = 0; axis < tensors[i].dims.size(); ++axis) {
      rlx_dim_info dim = RLX_INIT(rlx_dim_info);
      check(get(plan, entry, i, axis, &dim));
      rlx_symbol_info symbol = RLX_INIT(rlx_symbol_info);
      if (dim.symbol != RLX_NO_SYMBOL) check(rlx_plan_get_symbol(plan, dim.symbol, &symbol));
      names.emplace_back(dim.is_free == 0 ? "" : symbol.name != nullptr ? symbol.name : "?");
      is_free = is_free || dim.is_free != 0;
    }
    if (is_free) tensors[i].free_dims = std::move(names);
  }
}

}  // namespace

EntryView describe_entry(const rlx_plan* plan, const std::string& name) {
  EntryView entry;
  if (name.empty()) {
    entry.index = only_entry(plan);
  } else {
    check(rlx_plan_find_entry(plan, name.c_str(), &entry.index));
  }
  const rlx_entry_info info = entry_info(plan, entry.index);
  entry.name = info.name;
  entry.inputs = tensors(plan, entry.index, info.input_count, rlx_plan_get_input);
  entry.outputs = tensors(plan, entry.index, info.output_count, rlx_plan_get_output);
  describe_dims(plan, entry.index, rlx_plan_get_input_dim, entry.inputs);
  describe_dims(plan, entry.index, rlx_plan_get_output_dim, entry.outputs);
  return entry;
}

void describe_program(const rlx_session* session, EntryView& entry) {
  const rlx_program_info info = program_info(session, entry.index);
  entry.wave_count = info.wave_count;
  entry.arena_bytes = info.arena_bytes;
  entry.arena_lower_bound = info.arena_lower_bound;
  for (uint32_t i = 0; i < info.step_count; ++i) {
    rlx_step_info step = RLX_INIT(rlx_step_info);
    check(rlx_session_get_step(session, entry.index, i, &step));
    entry.steps.push_back(step);
  }
  for (uint32_t i = 0; i < entry.outputs.size(); ++i) {
    rlx_tensor_info output = RLX_INIT(rlx_tensor_info);
    check(rlx_session_get_output(session, entry.index, i, &output));
    entry.outputs[i] = to_tensor(output);
  }
}

std::string step_title(const EntryView& entry, uint32_t step) {
  const rlx_step_info& info = entry.steps.at(step);
  const std::string title = "step " + std::to_string(step) + " " + info.kernel;
  return *info.node == '\0' ? title : title + " for " + info.node;
}

Tensor describe_input(const rlx_session* session, uint32_t entry, uint32_t input) {
  rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
  check(rlx_session_get_input(session, entry, input, &info));
  return to_tensor(info);
}

std::vector<Tensor> describe_states(const rlx_plan* plan) {
  std::vector<Tensor> states;
  for (uint32_t i = 0; i < rlx_plan_state_count(plan); ++i) {
    rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
    check(rlx_plan_get_state(plan, i, &info));
    states.push_back(to_tensor(info));
  }
  return states;
}

std::vector<std::string> free_symbols(const rlx_plan* plan) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < rlx_plan_symbol_count(plan); ++i) {
    rlx_symbol_info info = RLX_INIT(rlx_symbol_info);
    check(rlx_plan_get_symbol(plan, i, &info));
    if (info.is_free != 0) names.emplace_back(info.name);
  }
  return names;
}

std::vector<Tensor> describe_values(const rlx_session* session, uint32_t entry) {
  return tensors(session, entry, program_info(session, entry).value_count, rlx_session_get_value);
}

std::string shape_text(const std::vector<uint64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(dims[i]);
  return text + ']';
}

std::string type_text(const Tensor& tensor) {
  if (!tensor.is_free()) return type_text(tensor.dtype, tensor.dims);
  std::string text = type_text(tensor.dtype, {});
  text.pop_back();
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    text += i == 0 ? "" : ",";
    text += tensor.free_dims[i].empty() ? std::to_string(tensor.dims[i]) : tensor.free_dims[i];
  }
  return text + ']';
}

bool can_have_dims(const Tensor& tensor, const std::vector<uint64_t>& dims) {
  if (!tensor.is_free()) return dims == tensor.dims;
  if (dims.size() != tensor.dims.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    // How large a free one may be, the session tells.
    if (tensor.free_dims[i].empty() && dims[i] != tensor.dims[i]) return false;
  }
  return true;
}

std::string type_text(uint32_t dtype, const std::vector<uint64_t>& dims) {
  const char* name = rlx_dtype_name(dtype);
  return (name != nullptr ? name : "dtype " + std::to_string(dtype)) + shape_text(dims);
}

}  // namespace rlx::tool
