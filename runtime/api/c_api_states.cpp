// SPDX-License-Identifier: Apache-2.0
// rlx.h: the states of a session.
#include <optional>

#include "runtime/api/handles.h"

namespace rlx {
namespace {

Status take_range(const rlx_state_range* given, std::optional<StateRange>& range) {
  if (given == nullptr) return {};
  rlx_state_range taken{};
  RLX_RETURN_IF_ERROR(take_struct(given, "range", taken));
  if (taken.reserved != 0) return {RLX_INVALID_ARGUMENT, "range.reserved is not 0"};
  range = StateRange{.axis = taken.axis, .begin = taken.begin, .count = taken.count};
  return {};
}

}  // namespace
}  // namespace rlx

using rlx::in_session;
using rlx::null_argument;
using rlx::Session;
using rlx::Status;

rlx_status rlx_session_reset_states(rlx_session* session) {
  return in_session(session, [](Session& s) { return s.reset_states(); });
}

rlx_status rlx_session_read_state(rlx_session* session, const char* name,
                                  const rlx_state_range* range, void* data, uint64_t size_bytes) {
  return in_session(session, [&](Session& s) -> Status {
    if (name == nullptr) return null_argument("name");
    if (data == nullptr && size_bytes > 0) return null_argument("data");
    std::optional<rlx::StateRange> taken;
    RLX_RETURN_IF_ERROR(rlx::take_range(range, taken));
    return s.read_state(name, taken, {static_cast<std::byte*>(data), size_bytes});
  });
}

rlx_status rlx_session_write_state(rlx_session* session, const char* name,
                                   const rlx_state_range* range, const rlx_tensor* tensor) {
  return in_session(session, [&](Session& s) -> Status {
    if (name == nullptr) return null_argument("name");
    std::optional<rlx::StateRange> taken_range;
    RLX_RETURN_IF_ERROR(rlx::take_range(range, taken_range));
    rlx_tensor taken{};
    rlx::HostTensor host;
    RLX_RETURN_IF_ERROR(rlx::take_tensor(tensor, taken, host));
    return s.write_state(name, taken_range, host);
  });
}

rlx_status rlx_session_set_seed(rlx_session* session, uint64_t seed, uint32_t step) {
  return in_session(session, [&](Session& s) { return s.set_seed(seed, step); });
}

rlx_status rlx_session_copy_state(rlx_session* session, const char* name, rlx_session* from) {
  return in_session(session, [&](Session& s) -> Status {
    if (name == nullptr) return null_argument("name");
    if (from == nullptr) return null_argument("from");
    if (from == session)
      return {RLX_INVALID_ARGUMENT, "argument from is the session itself, wanted another one"};
    const rlx::Turn turn(from->busy);
    if (!turn.is_ours())
      return {RLX_INVALID_STATE, "another thread is in a call of the session to copy from"};
    if (from->device != session->device) {
      return {RLX_INVALID_ARGUMENT,
              rlx::text_of("the session to copy from is on another device handle, of ",
                           from->device->device->info().id,
                           "; states are copied between sessions of one")};
    }
    return s.copy_state(name, *from->session);
  });
}

rlx_status rlx_session_bind_state(rlx_session* session, const char* name, uint64_t device_address,
                                  uint64_t size_bytes) {
  return in_session(session, [&](Session& s) -> Status {
    if (name == nullptr) return null_argument("name");
    return s.bind_state(name, {.device_address = device_address, .size_bytes = size_bytes});
  });
}
