// SPDX-License-Identifier: Apache-2.0
// The CUDA context that everything else here is made in, and owners for what is made.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/objects.h"
#include "runtime/cuda/cu_api.h"
#include "runtime/device/device.h"

namespace rlx::cuda {

// A device's context: its primary one, which it shares with every other user of CUDA in the
// process, or one of the caller's. Used by plans and sessions, from any thread.
class Context {
 public:
  // Null counts are made.
  static Status open(std::shared_ptr<const Driver> driver, CUdevice device, std::string id,
                     std::shared_ptr<ObjectCounts> objects, std::shared_ptr<Context>& context);
  // The caller keeps the context and destroys it after everything made here.
  static Status adopt(std::shared_ptr<const Driver> driver, CUcontext handle,
                      std::shared_ptr<ObjectCounts> objects, std::shared_ptr<Context>& context);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // The one way of every driver call's result: to_status that also remembers a lost device.
  Status check(CUresult result, std::string_view what);
  // For a call whose failure means nothing else: only remembers a lost device.
  void note(CUresult result) {
    if (means_lost(result)) lost_.store(true, std::memory_order_release);
  }
  // Why nothing can run any more: a lost device. Ok while healthy; allocates nothing then.
  [[nodiscard]] Status health() const;
  // Device memory that is free now, of all processes. 0 where the driver does not say.
  [[nodiscard]] uint64_t available_bytes();

  // Of everything made in this context.
  [[nodiscard]] ObjectCounts& objects() const { return *objects_; }
  // Ends a handle; kDestroy is the Api member that does. A refusal means that the context is gone,
  // and the handle with it.
  template <auto kDestroy, typename Handle>
  void end(Handle handle);

  const std::shared_ptr<const Driver> driver;
  const Api& api;
  CUcontext handle = nullptr;
  DeviceInfo info;
  uint32_t multiprocessors = 0;
  uint32_t multiprocessor_shared_bytes = 0;  // of all workgroups that are on one

 private:
  Context(std::shared_ptr<const Driver> from, std::shared_ptr<ObjectCounts> counts)
      : driver(std::move(from)),
        api(driver->api),
        objects_(counts != nullptr ? std::move(counts) : std::make_shared<ObjectCounts>()) {}

  // What the driver says of the device. Precondition: device_.
  Status describe(std::string id);

  const std::shared_ptr<ObjectCounts> objects_;
  CUdevice device_ = 0;
  CountedObject counted_;  // the primary context's retention
  bool retained_ = false;
  std::atomic<bool> lost_ = false;
};

// What the driver says of a device without a context; info.available_bytes is 0.
Status describe_device(const Driver& driver, CUdevice device, std::string id, DeviceInfo& info);

// Makes the context this thread's current one for a scope.
class Current {
 public:
  explicit Current(Context& context)
      : context_(context),
        status_(
            context.check(context.api.cuCtxPushCurrent_v2(context.handle), "cuCtxPushCurrent")) {}
  ~Current() {
    CUcontext popped = nullptr;
    if (status_.ok()) context_.note(context_.api.cuCtxPopCurrent_v2(&popped));
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  Context& context_;
  Status status_;
};

template <auto kDestroy, typename Handle>
void Context::end(Handle handle) {
  const Current current(*this);
  note((api.*kDestroy)(handle));
}

template <typename Handle, auto kDestroy, ObjectKind kKind>
using Owned = OwnedHandle<Context, Handle, kDestroy, kKind>;

using OwnedDeviceMemory = Owned<CUdeviceptr, &Api::cuMemFree_v2, ObjectKind::Memory>;
using OwnedHostMemory = Owned<void*, &Api::cuMemFreeHost, ObjectKind::HostMemory>;
using OwnedModule = Owned<CUmodule, &Api::cuModuleUnload, ObjectKind::Module>;
using OwnedStream = Owned<CUstream, &Api::cuStreamDestroy_v2, ObjectKind::Stream>;
using OwnedEvent = Owned<CUevent, &Api::cuEventDestroy_v2, ObjectKind::Event>;
using OwnedGraph = Owned<CUgraph, &Api::cuGraphDestroy, ObjectKind::Graph>;
using OwnedGraphExec = Owned<CUgraphExec, &Api::cuGraphExecDestroy, ObjectKind::GraphExec>;

// The context is current in all of these.
Status create_stream(Context& context, OwnedStream& stream);
Status create_event(Context& context, unsigned flags, OwnedEvent& event);
// Between two recorded events that are over.
Status microseconds_between(Context& context, CUevent begin, CUevent end, double& microseconds);

}  // namespace rlx::cuda
