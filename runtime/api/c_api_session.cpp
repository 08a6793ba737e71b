// SPDX-License-Identifier: Apache-2.0
// rlx.h: sessions.
#include "runtime/api/handles.h"
#include "runtime/device/choose_profile.h"
#include "runtime/device/device_names.h"
#include "runtime/device/preflight.h"

namespace rlx {

Status note_loss(SharedDevice& device, Status status) {
  if (status.code() == RLX_DEVICE_LOST) device.lost = true;
  return status;
}

Status take_tensor(const rlx_tensor* given, rlx_tensor& taken, HostTensor& tensor) {
  RLX_RETURN_IF_ERROR(take_struct(given, "tensor", taken));
  if (taken.rank > RLX_MAX_RANK) {
    return {RLX_INVALID_ARGUMENT,
            text_of("tensor.rank is ", taken.rank, ", at most ", RLX_MAX_RANK, " is possible")};
  }
  if (taken.data == nullptr && taken.size_bytes > 0) return null_argument("tensor.data");
  tensor = {.bytes = {static_cast<const std::byte*>(taken.data), taken.size_bytes},
            .dtype = taken.dtype,
            .dims = {taken.dims, taken.rank}};
  return {};
}

namespace {

// For a plan that another session loaded without asking.
Status check_tuned(const DevicePlan& loaded) {
  for (const GemmReport& gemm : loaded.gemm_reports()) {
    if (gemm.tuned) continue;
    return {RLX_UNSUITABLE_DEVICE,
            text_of("entry ", quoted(gemm.entry), ", step ", gemm.step,
                    " has no algorithm chosen for this device", gemm.note.empty() ? "" : ": ",
                    gemm.note, "; run rlxc tune on this device")};
  }
  return {};
}

// Entries whose kernels were chosen on another device or driver.
Status check_tuned_entries(const PlanView& view, const DeviceInfo& device) {
  for (const fb::Entry* record : device.target ? view.records(*device.target) : view.records()) {
    const std::string_view name = PlanView::text(record->tuned_device());
    const std::string_view driver = PlanView::text(record->tuned_driver());
    if (name.empty() || (name == device.name && driver == device.driver)) continue;
    return {RLX_UNSUITABLE_DEVICE,
            text_of("entry ", quoted(PlanView::text(record->name())), " was tuned on ", name,
                    ", driver ", driver, ", and device ", device.id, " is ", device.name,
                    ", driver ", device.driver, "; run rlxc --tune on this device")};
  }
  return {};
}

// The plan on the device: what another session already loaded, or loaded now. The plan's mutex is
// held.
Status load_once(rlx_plan& plan, const PlanView& view, const std::shared_ptr<SharedDevice>& device,
                 const LoadOptions& options, std::shared_ptr<DevicePlan>& loaded) {
  if (options.require_tuned) RLX_RETURN_IF_ERROR(check_tuned_entries(view, device->device->info()));
  std::erase_if(plan.loaded, [](const rlx_plan::Loaded& entry) {
    return entry.plan.expired() || entry.device.expired();
  });
  for (const rlx_plan::Loaded& entry : plan.loaded) {
    const bool fits =
        entry.device.lock() == device && entry.view == &view && (entry.profile || !options.profile);
    if (fits) loaded = entry.plan.lock();
    if (loaded != nullptr) return options.require_tuned ? check_tuned(*loaded) : Status{};
  }
  RLX_RETURN_IF_ERROR(device->device->load(view, options, loaded));
  plan.loaded.push_back(
      {.plan = loaded, .device = device, .view = &view, .profile = options.profile});
  return {};
}

// The plan as the device runs it: by the program of that name, or the best one. The plan's mutex is
// held.
Status view_on(rlx_plan& plan, const Device& device, std::string_view name,
               std::shared_ptr<const PlanView>& view) {
  std::optional<uint32_t> profile;
  RLX_RETURN_IF_ERROR(choose_profile(plan.view->header(), device, name, profile));
  if (!profile.has_value()) {
    view = plan.view;
    return {};
  }
  std::shared_ptr<const PlanView>& known = plan.profile_views[*profile];
  if (known == nullptr) known = PlanView::of_profile(plan.view, *profile);
  view = known;
  return {};
}

// rlx_session_options up to check_indices, as the first header had it.
constexpr size_t kFirstOptionsBytes = offsetof(rlx_session_options, max_bindings);

// Each run has a fence or an event of its own.
constexpr uint32_t kMaxQueueDepth = 1024;

// `program` receives the name of the plan's program that is wanted, empty for the best.
Status take_session_options(const rlx_session_options* given, LoadOptions& options,
                            SessionOptions& session, std::string& program) {
  if (given == nullptr) return {};
  rlx_session_options taken{};
  RLX_RETURN_IF_ERROR(take_struct(given, "options", taken, kFirstOptionsBytes));
  if (taken.profile > 1)
    return {RLX_INVALID_ARGUMENT,
            text_of("options.profile is ", taken.profile, ", must be 0 or 1")};
  if (taken.require_tuned > 1)
    return {RLX_INVALID_ARGUMENT,
            text_of("options.require_tuned is ", taken.require_tuned, ", must be 0 or 1")};
  if (taken.check_indices > 1)
    return {RLX_INVALID_ARGUMENT,
            text_of("options.check_indices is ", taken.check_indices, ", must be 0 or 1")};
  options.jobs = taken.jobs;
  options.require_tuned = taken.require_tuned == 1;
  session.stream = taken.cuda_stream;
  session.check_indices = taken.check_indices == 1;
  if (taken.queue_depth > kMaxQueueDepth)
    return {RLX_INVALID_ARGUMENT, text_of("options.queue_depth is ", taken.queue_depth,
                                          ", at most ", kMaxQueueDepth, " is possible")};
  if (taken.queue_depth > 1 && taken.check_indices == 1)
    return {RLX_INVALID_ARGUMENT,
            text_of("options.queue_depth is ", taken.queue_depth, " with check_indices, which ",
                    "needs 1: the host looks at the counts between two runs")};
  if (taken.queue_depth > 0) session.queue_depth = taken.queue_depth;
  if (taken.max_bindings > 0) session.max_bindings = taken.max_bindings;
  options.profile = taken.profile == 1;
  options.memory_budget_bytes = taken.memory_budget_bytes;
  if (taken.target != nullptr) program = taken.target;
  if (taken.pipeline_cache_path != nullptr && taken.pipeline_cache_folder != nullptr)
    return {RLX_INVALID_ARGUMENT,
            text_of("options.pipeline_cache_path and ",
                    "options.pipeline_cache_folder are both set, one of them ", "can be")};
  if (taken.pipeline_cache_path != nullptr) options.pipeline_cache_path = taken.pipeline_cache_path;
  if (taken.pipeline_cache_folder != nullptr)
    options.pipeline_cache_folder = taken.pipeline_cache_folder;
  return {};
}

}  // namespace
}  // namespace rlx

using rlx::guarded;
using rlx::in_session;
using rlx::null_argument;
using rlx::Session;
using rlx::Status;

rlx_status rlx_session_create(rlx_plan* plan, rlx_device* device,
                              const rlx_session_options* options, rlx_session** session) {
  return guarded([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    *session = nullptr;
    if (plan == nullptr) return null_argument("plan");
    if (device == nullptr) return null_argument("device");
    rlx::LoadOptions load;
    rlx::SessionOptions own;
    std::string program;
    RLX_RETURN_IF_ERROR(rlx::take_session_options(options, load, own, program));
    const std::shared_ptr<rlx::SharedDevice> shared = device->shared;
    std::shared_ptr<const rlx::PlanView> view;
    std::shared_ptr<rlx::DevicePlan> loaded;
    {
      const std::lock_guard lock(plan->mutex);
      RLX_RETURN_IF_ERROR(rlx::view_on(*plan, *shared->device, program, view));
      RLX_RETURN_IF_ERROR(rlx::check_budget(view->header(), load.memory_budget_bytes));
      if (shared->lost) return rlx::lost_earlier(shared->device->info());
      RLX_RETURN_IF_ERROR(
          rlx::note_loss(*shared, rlx::load_once(*plan, *view, shared, load, loaded)));
    }
    auto made = std::make_unique<rlx_session>();
    made->device = shared;
    RLX_RETURN_IF_ERROR(
        rlx::note_loss(*shared, Session::create(view, loaded, load.profile, own, made->session)));
    *session = made.release();
    return {};
  });
}

void rlx_session_close(rlx_session* session) {
  delete session;
}

rlx_status rlx_session_prepare(rlx_session* session, uint32_t entry) {
  return in_session(session, [&](Session& s) { return s.prepare(entry); });
}

rlx_status rlx_session_set_symbol(rlx_session* session, uint32_t entry, const char* name,
                                  uint64_t value) {
  return in_session(session, [&](Session& s) -> Status {
    if (name == nullptr) return null_argument("name");
    return s.set_symbol(entry, name, value);
  });
}

rlx_status rlx_session_get_symbol(const rlx_session* session, uint32_t entry, const char* name,
                                  uint64_t* value) {
  return in_session(const_cast<rlx_session*>(session), [&](Session& s) -> Status {
    if (name == nullptr) return null_argument("name");
    if (value == nullptr) return null_argument("value");
    return s.get_symbol(entry, name, *value);
  });
}

rlx_status rlx_session_set_input(rlx_session* session, uint32_t entry, const char* name,
                                 const rlx_tensor* tensor) {
  return in_session(session, [&](Session& s) -> Status {
    if (name == nullptr) return null_argument("name");
    rlx_tensor taken{};
    rlx::HostTensor host;
    RLX_RETURN_IF_ERROR(rlx::take_tensor(tensor, taken, host));
    return s.set_input(entry, name, host);
  });
}

rlx_status rlx_session_bind_input(rlx_session* session, uint32_t entry, const char* name,
                                  uint64_t device_address, uint64_t size_bytes) {
  return in_session(session, [&](Session& s) -> Status {
    if (name == nullptr) return null_argument("name");
    return s.bind_input(entry, name, {.device_address = device_address, .size_bytes = size_bytes});
  });
}

rlx_status rlx_session_bind_output(rlx_session* session, uint32_t entry, const char* name,
                                   uint64_t device_address, uint64_t size_bytes) {
  return in_session(session, [&](Session& s) -> Status {
    if (name == nullptr) return null_argument("name");
    return s.bind_output(entry, name, {.device_address = device_address, .size_bytes = size_bytes});
  });
}

rlx_status rlx_session_run(rlx_session* session, uint32_t entry) {
  return in_session(session, [&](Session& s) { return s.run(entry); });
}

rlx_status rlx_session_submit(rlx_session* session, uint32_t entry) {
  return in_session(session, [&](Session& s) { return s.submit(entry); });
}

rlx_status rlx_session_enqueue(rlx_session* session, uint32_t entry, uint64_t* run) {
  return in_session(session, [&](Session& s) -> Status {
    if (run == nullptr) return null_argument("run");
    RLX_RETURN_IF_ERROR(s.submit(entry));
    *run = s.submit_count();
    return {};
  });
}

rlx_status rlx_session_wait_for(rlx_session* session, uint64_t run, uint64_t timeout_nanoseconds) {
  return in_session(session, [&](Session& s) { return s.wait_for(run, timeout_nanoseconds); });
}

rlx_status rlx_session_wait(rlx_session* session, uint64_t timeout_nanoseconds) {
  return in_session(session, [&](Session& s) { return s.wait(timeout_nanoseconds); });
}

rlx_status rlx_session_read_output(rlx_session* session, uint32_t entry, const char* name,
                                   void* data, uint64_t size_bytes) {
  return in_session(session, [&](Session& s) -> Status {
    if (name == nullptr) return null_argument("name");
    if (data == nullptr && size_bytes > 0) return null_argument("data");
    return s.read_output(entry, name, {static_cast<std::byte*>(data), size_bytes});
  });
}

rlx_status rlx_session_profile(rlx_session* session, uint32_t entry, rlx_step_time* times,
                               uint32_t capacity, uint32_t* count) {
  return in_session(session, [&](Session& s) -> Status {
    if (count == nullptr) return null_argument("count");
    if (times == nullptr && capacity > 0) return null_argument("times");
    RLX_RETURN_IF_ERROR(s.check_room_for_steps(entry, capacity));
    std::vector<rlx::StepTime> measured;
    RLX_RETURN_IF_ERROR(s.profile(entry, measured));
    for (size_t i = 0; i < measured.size(); ++i) {
      times[i] = {
          .step = measured[i].step, .reserved = 0, .microseconds = measured[i].microseconds};
    }
    *count = static_cast<uint32_t>(measured.size());
    return {};
  });
}

rlx_status rlx_session_last_run_microseconds(const rlx_session* session, double* microseconds) {
  return in_session(const_cast<rlx_session*>(session), [&](Session& s) -> Status {
    if (microseconds == nullptr) return null_argument("microseconds");
    return s.last_run_microseconds(*microseconds);
  });
}

rlx_status rlx_session_read_value(rlx_session* session, uint32_t entry, uint32_t step,
                                  uint32_t value, void* data, uint64_t size_bytes) {
  return in_session(session, [&](Session& s) -> Status {
    if (data == nullptr && size_bytes > 0) return null_argument("data");
    return s.read_value(entry, step, value, {static_cast<std::byte*>(data), size_bytes});
  });
}

rlx_status rlx_session_poison_arena(rlx_session* session, uint8_t pattern) {
  return in_session(session, [&](Session& s) { return s.poison_arena(std::byte{pattern}); });
}
