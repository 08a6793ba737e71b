// SPDX-License-Identifier: Apache-2.0
// rlx.h: what a session's device runs. Reads immutable data only, so no turn on the session is
// taken.
#include "runtime/api/handles.h"

namespace rlx {

rlx_tensor_info describe_value(const fb::Value& value) {
  rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
  info.name = value.name()->c_str();
  info.dtype = value.dtype();
  info.rank = value.dims()->size();
  std::copy(value.dims()->begin(), value.dims()->end(), info.dims);
  info.size_bytes = value.size_bytes();
  info.segment = static_cast<uint32_t>(value.segment());
  info.first_step = value.first_step();
  info.last_step = value.last_step();
  return info;
}

Status missing_index(std::string_view what, uint32_t index, size_t count) {
  return {RLX_INVALID_ARGUMENT,
          text_of("there is no ", what, " ", index, ", the entry has ", count)};
}

}  // namespace rlx

using rlx::guarded;
using rlx::null_argument;
using rlx::PlanView;
using rlx::Status;

rlx_status rlx_session_get_program(const rlx_session* session, uint32_t entry,
                                   rlx_program_info* info) {
  return guarded([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    RLX_RETURN_IF_ERROR(session->session->check_entry(entry));
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    const rlx::fb::Entry& record = session->session->record(entry);
    rlx_program_info filled = RLX_INIT(rlx_program_info);
    filled.target = static_cast<uint32_t>(session->session->target());
    filled.value_count = record.values()->size();
    filled.step_count = record.steps()->size();
    filled.wave_count = record.wave_count();
    filled.arena_bytes = record.arena_bytes();
    filled.arena_lower_bound = record.arena_lower_bound();
    rlx::give_struct(filled, info);
    return {};
  });
}

rlx_status rlx_session_get_value(const rlx_session* session, uint32_t entry, uint32_t value,
                                 rlx_tensor_info* info) {
  return guarded([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    RLX_RETURN_IF_ERROR(session->session->check_entry(entry));
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    const rlx::fb::Entry& record = session->session->record(entry);
    if (value >= record.values()->size())
      return rlx::missing_index("value", value, record.values()->size());
    rlx::give_struct(rlx::describe_value(PlanView::value(record, value)), info);
    return {};
  });
}

rlx_status rlx_session_get_step(const rlx_session* session, uint32_t entry, uint32_t step,
                                rlx_step_info* info) {
  return guarded([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    RLX_RETURN_IF_ERROR(session->session->check_entry(entry));
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    const PlanView& plan = session->session->plan();
    const rlx::fb::Entry& program = session->session->record(entry);
    const std::span<const rlx::fb::Step> steps = PlanView::steps(program);
    if (step >= steps.size()) return rlx::missing_index("step", step, steps.size());
    const rlx::fb::Step& record = steps[step];
    rlx_step_info filled = RLX_INIT(rlx_step_info);
    filled.kernel = plan.step_kernel_name(record);
    const rlx::StepNames names = plan.step_names(program, step);
    // Texts of a FlatBuffer end with a zero.
    filled.node = names.node.empty() ? "" : names.node.data();
    filled.op = names.op.empty() ? "" : names.op.data();
    filled.kind = static_cast<uint32_t>(record.kind());
    filled.wave = record.wave();
    filled.grid[0] = record.grid_x();
    filled.grid[1] = record.grid_y();
    filled.grid[2] = record.grid_z();
    filled.bytes_moved = record.bytes_moved();
    filled.code = session->session->loaded().code_text(record);
    filled.flops = record.flops();
    rlx::give_struct(filled, info);
    return {};
  });
}
