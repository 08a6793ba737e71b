// SPDX-License-Identifier: Apache-2.0
// From flags to a plan, a device and a session, and what there is to tell of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/rlxrun/handles.h"
#include "tools/rlxrun/options.h"

namespace rlx::tool {

class Stopwatch {
 public:
  [[nodiscard]] double microseconds() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_)
        .count();
  }
  [[nodiscard]] double milliseconds() const { return microseconds() / 1000; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct DeviceFacts {
  std::string id;
  std::string name;
  std::string driver;
  uint32_t api_version = 0;   // as the driver packs it
  uint32_t architecture = 0;  // CUDA: 90 for compute capability 9.0
  uint64_t memory_bytes = 0;
  uint64_t available_bytes = 0;
  bool unified_memory = false;
};

struct PlanFacts {
  std::string name;
  std::string producer;
  uint64_t file_bytes = 0;
  uint64_t weights_bytes = 0;
  uint64_t state_bytes = 0;
  uint64_t arena_bytes = 0;
  uint64_t io_bytes = 0;
};

PlanFacts facts_of(const rlx_plan* plan);

PlanHandle open_plan(const Options& options);
// The device that the options name; for "auto" the first of CUDA, else of Vulkan, for which the
// plan has code.
DeviceHandle open_wanted_device(const Options& options, rlx_plan* plan, DeviceFacts& facts);
// Whether the options ask for what needs times of the device.
bool wants_device_times(const Options& options);
SessionHandle create_session(rlx_plan* plan, rlx_device* device, const Options& options,
                             uint32_t queue_depth = 1);

// Of several programs of the plan for the device's target the name of the one that the session
// runs; empty where there is one.
std::string program_of(const rlx_plan* plan, const rlx_session* session, uint32_t entry);

std::vector<DeviceFacts> list_devices(std::string& note);

}  // namespace rlx::tool
