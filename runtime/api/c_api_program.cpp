// SPDX-License-Identifier: Apache-2.0
// rlx.h: what a session's device runs. Of an entry without free sizes that never changes, so no
// turn on the session is taken.
#include <algorithm>
#include <optional>

#include "runtime/api/handles.h"
#include "runtime/base/dtype.h"

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

namespace {

// Runs `body` with the entry as its next run runs it.
template <class Body>
rlx_status with_entry(const rlx_session* session, uint32_t entry, const Body& body) {
  return guarded([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    const Session& immutable = *session->session;
    RLX_RETURN_IF_ERROR(immutable.check_entry(entry));
    if (!immutable.has_free_sizes(entry)) return body(immutable.plan(), immutable.record(entry));
    const Turn turn(const_cast<rlx_session*>(session)->busy);
    if (!turn.is_ours()) return {RLX_INVALID_STATE, "another thread is in a call of this session"};
    Session::BoundEntry bound;
    RLX_RETURN_IF_ERROR(session->session->bound_entry(entry, bound));
    return body(*bound.plan, *bound.record);
  });
}

// The plan tells the life of what shares memory; an output's begins with the step that writes it.
std::optional<uint32_t> first_writer(const fb::Entry& record, uint32_t value) {
  const std::span<const fb::Step> steps = PlanView::steps(record);
  for (uint32_t s = 0; s < steps.size(); ++s) {
    const std::span<const fb::Relocation> ranges = PlanView::relocations(record, steps[s]);
    const bool writes = std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
      const bool is_write =
          range.mode() == fb::AccessMode::Write || range.mode() == fb::AccessMode::ReadWrite;
      return range.value() == value && is_write;
    });
    if (writes) return s;
  }
  return std::nullopt;
}

Status give_port(Session& session, uint32_t entry, std::string_view what, EntrySizes::Ports ports,
                 uint32_t index, rlx_tensor_info* info) {
  RLX_RETURN_IF_ERROR(session.check_entry(entry));
  RLX_RETURN_IF_ERROR(check_room(info, "info"));
  const auto& values = *(session.record(entry).*ports)();
  if (index >= values.size()) return missing_index(what, index, values.size());
  const fb::Value& value = PlanView::value(session.record(entry), values.Get(index));
  TensorDims shape;
  RLX_RETURN_IF_ERROR(session.shape_of(entry, ports, index, shape));
  rlx_tensor_info filled = describe_value(value);
  std::copy(shape.dims.begin(), shape.dims.end(), filled.dims);
  filled.size_bytes = *tensor_bytes(value.dtype(), shape.span());
  give_struct(filled, info);
  return {};
}

}  // namespace
}  // namespace rlx

using rlx::PlanView;
using rlx::Status;

rlx_status rlx_session_get_input(const rlx_session* session, uint32_t entry, uint32_t input,
                                 rlx_tensor_info* info) {
  return rlx::in_session(const_cast<rlx_session*>(session), [&](rlx::Session& s) {
    return rlx::give_port(s, entry, "input", &rlx::fb::Entry::inputs, input, info);
  });
}

rlx_status rlx_session_get_output(const rlx_session* session, uint32_t entry, uint32_t output,
                                  rlx_tensor_info* info) {
  return rlx::in_session(const_cast<rlx_session*>(session), [&](rlx::Session& s) {
    return rlx::give_port(s, entry, "output", &rlx::fb::Entry::outputs, output, info);
  });
}

rlx_status rlx_session_get_program(const rlx_session* session, uint32_t entry,
                                   rlx_program_info* info) {
  return rlx::with_entry(session, entry,
                         [&](const PlanView&, const rlx::fb::Entry& record) -> Status {
                           RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
                           rlx_program_info filled = RLX_INIT(rlx_program_info);
                           filled.target = static_cast<uint32_t>(session->session->target());
                           filled.value_count = record.values()->size();
                           filled.step_count = record.steps()->size();
                           filled.wave_count = record.wave_count();
                           filled.arena_bytes = record.arena_bytes();
                           filled.arena_lower_bound = record.arena_lower_bound();
                           filled.name = session->session->program_name().data();
                           rlx::give_struct(filled, info);
                           return {};
                         });
}

rlx_status rlx_session_get_value(const rlx_session* session, uint32_t entry, uint32_t value,
                                 rlx_tensor_info* info) {
  return rlx::with_entry(
      session, entry, [&](const PlanView&, const rlx::fb::Entry& record) -> Status {
        RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
        if (value >= record.values()->size())
          return rlx::missing_index("value", value, record.values()->size());
        rlx_tensor_info filled = rlx::describe_value(PlanView::value(record, value));
        if (filled.segment == RLX_IO)
          filled.first_step = rlx::first_writer(record, value).value_or(filled.first_step);
        // Of the plan, since a binding is gone one day.
        filled.name = PlanView::value(session->session->bound_from(entry), value).name()->c_str();
        rlx::give_struct(filled, info);
        return {};
      });
}

rlx_status rlx_session_get_step(const rlx_session* session, uint32_t entry, uint32_t step,
                                rlx_step_info* info) {
  return rlx::with_entry(session, entry,
                         [&](const PlanView& plan, const rlx::fb::Entry& program) -> Status {
                           RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
                           const std::span<const rlx::fb::Step> steps = PlanView::steps(program);
                           if (step >= steps.size())
                             return rlx::missing_index("step", step, steps.size());
                           const rlx::fb::Step& record = steps[step];
                           // What is told of a library's product is told of the plan's.
                           const rlx::fb::Step& coded =
                               record.kind() == rlx::fb::StepKind::LibraryGemm
                                   ? PlanView::steps(session->session->bound_from(entry))[step]
                                   : record;
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
                           filled.code = session->session->loaded().code_text(coded);
                           filled.flops = record.flops();
                           rlx::give_struct(filled, info);
                           return {};
                         });
}
