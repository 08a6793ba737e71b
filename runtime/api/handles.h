// SPDX-License-Identifier: Apache-2.0
// What is behind the opaque handles of rlx.h.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/api/session.h"
#include "runtime/base/c_frame.h"
#include "runtime/base/status.h"
#include "runtime/base/text.h"
#include "runtime/device/device.h"
#include "runtime/device/device_names.h"
#include "runtime/plan/plan_view.h"

namespace rlx {

// A device and whether it was lost, shared by its handle and its sessions.
struct SharedDevice {
  std::shared_ptr<Device> device;
  std::atomic<bool> lost{false};
};

// Wraps a device as the C API's handle; the caller closes it.
rlx_device* make_device_handle(std::shared_ptr<Device> device);

// What rlx_last_error tells this thread.
LastError& last_error() noexcept;

// Runs the body of a C function.
template <class Body>
rlx_status guarded(const Body& body) noexcept {
  return guarded(last_error(), body);
}

rlx_device_info describe_device(const DeviceInfo& info);
rlx_tensor_info describe_value(const fb::Value& value);
// A thread's call on a session; it is not ours while another thread is in one.
class Turn {
 public:
  explicit Turn(std::atomic_flag& busy)
      : busy_(busy), is_ours_(!busy.test_and_set(std::memory_order_acquire)) {}
  ~Turn() {
    if (is_ours_) busy_.clear(std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  [[nodiscard]] bool is_ours() const { return is_ours_; }

 private:
  std::atomic_flag& busy_;
  const bool is_ours_;
};
// Remembers the loss of a device for all who share it.
Status note_loss(SharedDevice& device, Status status);
// A caller's tensor; its dims are those of `taken`.
Status take_tensor(const rlx_tensor* given, rlx_tensor& taken, HostTensor& tensor);
// "there is no value 7, the entry has 4"
Status missing_index(std::string_view what, uint32_t index, size_t count);

}  // namespace rlx

// Device plans live as long as a session uses them; a later session with the same device finds them
// here.
struct rlx_plan {
  struct Loaded {
    std::weak_ptr<rlx::DevicePlan> plan;
    std::weak_ptr<rlx::SharedDevice> device;
    const rlx::PlanView* view = nullptr;  // that the device plan is of
    bool profile = false;                 // steps can be timed
  };
  std::shared_ptr<const rlx::PlanView> view;
  std::mutex mutex;  // guards what follows, and makes two threads load a plan once
  // By number of a profile in the header; null until a device runs it.
  std::array<std::shared_ptr<const rlx::PlanView>, rlx::kPlanMaxProfiles> profile_views;
  std::vector<Loaded> loaded;
};

struct rlx_device {
  std::shared_ptr<rlx::SharedDevice> shared;
};

struct rlx_device_list {
  std::vector<rlx::DeviceInfo> devices;
  std::string note;
};

struct rlx_session {
  std::shared_ptr<rlx::SharedDevice> device;  // outlives the session
  std::unique_ptr<rlx::Session> session;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;  // a call is in progress
};

namespace rlx {

// Runs the body of a call on a session, unless another thread is in one or the device was lost.
template <class Body>
rlx_status in_session(rlx_session* session, const Body& body) noexcept {
  return guarded([&]() -> Status {
    if (session == nullptr) return null_argument("session");
    const Turn turn(session->busy);
    if (!turn.is_ours()) return {RLX_INVALID_STATE, "another thread is in a call of this session"};
    if (session->device->lost) return lost_earlier(session->device->device->info());
    return note_loss(*session->device, body(*session->session));
  });
}

}  // namespace rlx
