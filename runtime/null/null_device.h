// SPDX-License-Identifier: Apache-2.0
// The null device: host memory for every segment, copies and fills done for real, dispatches
// counted and nothing more. It takes any verified plan, whatever its target. A test double for
// everything above Device, and a way to try plans without a GPU.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "runtime/base/objects.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace rlx {

// What a test asks of a null device and learns from it.
struct NullControl {
  // Every call that a driver could refuse counts; the call of this number (from 1) fails. 0: none.
  // After RLX_DEVICE_LOST all later calls fail likewise.
  std::atomic<uint64_t> fail_at_call{0};
  std::atomic<rlx_status> fail_with{RLX_OUT_OF_DEVICE_MEMORY};
  std::atomic<uint64_t> timeouts{0};  // so many waits with a timeout find the run unfinished

  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> loads{0};  // plans whose weights were uploaded
  ObjectCounts objects;            // that exist now
  std::atomic<uint64_t> dispatches{0};
  std::atomic<uint64_t> runs{0};

  // Indices outside that a step's kernel finds, by the step's number; only where the step counts
  // them.
  std::map<uint32_t, uint32_t> index_errors;

  // What sessions say that steps take when they are profiled; 0: what they took.
  double dispatch_microseconds = 0;
  double gemm_microseconds = 0;

  // Steps in the order in which they ran, kept where `record` was set before the session ran.
  bool record = false;
  std::vector<uint32_t> steps_run;
};

// Addresses of this device are host pointers: a caller can bind its own memory.
std::shared_ptr<Device> open_null_device(
    std::shared_ptr<NullControl> control = std::make_shared<NullControl>());

}  // namespace rlx
