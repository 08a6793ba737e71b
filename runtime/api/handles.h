// SPDX-License-Identifier: Apache-2.0
// What is behind the opaque handles of rlx.h, and the frame of every C function: no exception
// leaves, errors become texts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/api/session.h"
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

// Copies `status` to this thread's last error and returns its code.
rlx_status remember(const Status& status) noexcept;
// The same without a Status, for when memory is short.
rlx_status remember(rlx_status code, const char* message) noexcept;

// Runs the body of a C function.
template <class Body>
rlx_status guarded(const Body& body) noexcept {
  try {
    return remember(body());
  } catch (const std::bad_alloc&) {
    return remember(RLX_OUT_OF_HOST_MEMORY, "out of host memory");
  } catch (const std::exception& error) {
    return remember(RLX_INTERNAL_ERROR, error.what());
  } catch (...) {
    return remember(RLX_INTERNAL_ERROR, "an unknown exception");
  }
}

inline Status null_argument(std::string_view name) {
  return {RLX_INVALID_ARGUMENT, text_of("argument ", name, " is NULL")};
}

// A struct this large was not made by any version of the header.
inline constexpr size_t kMaxStructBytes = 4096;

// A struct that the caller filled, as this version knows it. Null means all defaults where
// `optional`.
//
// `first_size`: of the struct in the first header that had it; fields that a caller's header does
// not have yet are 0.
template <class Struct>
Status take_struct(const Struct* given, std::string_view name, Struct& taken,
                   size_t first_size = sizeof(Struct)) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (given == nullptr) return null_argument(name);
  if (given->struct_size < first_size || given->struct_size > kMaxStructBytes) {
    return {RLX_INVALID_ARGUMENT,
            text_of("argument ", name, " has struct_size ", given->struct_size, ", wanted ",
                    sizeof(Struct), "; set it with RLX_INIT")};
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const size_t known = std::min(sizeof(Struct), given->struct_size);
  const bool unknown_set = std::any_of(bytes + known, bytes + given->struct_size,
                                       [](unsigned char byte) { return byte != 0; });
  if (unknown_set) {
    return {
        RLX_INVALID_ARGUMENT,
        text_of("argument ", name, " sets a field that this version of the library does not know")};
  }
  std::memcpy(&taken, given, known);
  return {};
}

// Checks a struct that the library is to fill.
template <class Struct>
Status check_room(const Struct* out, std::string_view name) {
  if (out == nullptr) return null_argument(name);
  if (out->struct_size >= sizeof(Struct) && out->struct_size <= kMaxStructBytes) return {};
  return {RLX_INVALID_ARGUMENT, text_of("argument ", name, " has struct_size ", out->struct_size,
                                        ", wanted ", sizeof(Struct), "; set it with RLX_INIT")};
}

template <class Struct>
void give_struct(Struct filled, Struct* out) {
  filled.struct_size = out->struct_size;
  std::memcpy(out, &filled, sizeof(Struct));
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
// "there is no value 7, the entry has 4"
Status missing_index(std::string_view what, uint32_t index, size_t count);

}  // namespace rlx

// Device plans live as long as a session uses them; a later session with the same device finds them
// here.
struct rlx_plan {
  struct Loaded {
    std::weak_ptr<rlx::DevicePlan> plan;
    std::weak_ptr<rlx::SharedDevice> device;
    bool profile = false;
  };
  std::shared_ptr<const rlx::PlanView> view;
  std::mutex mutex;  // guards `loaded`, and makes two threads load a plan once
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
