// SPDX-License-Identifier: Apache-2.0
// A program's whole use of a device through rlx.h, on a driver that fails where it is told to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/include/rlx.h"
#include "runtime/vulkan/vulkan_device.h"
#include "tests/faults/stand_in/control.h"
#include "tests/support/plan_sketch.h"

namespace rlx::test {

// Opens the device under test, counting what is made for it.
using DeviceOpener =
    std::function<Status(std::shared_ptr<ObjectCounts> objects, std::shared_ptr<Device>& device)>;

// Everything that a plan can have: weights of the file and generated ones, states of every kind,
// words of index errors, two entries, copies and fills.
PlanSketch full_sketch();

// A plan opened once, and how a program uses it.
struct Scenario {
  FaultControl* control = nullptr;
  std::vector<std::byte> plan;
  DeviceOpener open;
  std::string pipeline_cache_path;  // empty: none; removed before each use
};

// full_sketch() on the stand-ins; the CUDA one stands for the library of products too.
Scenario vulkan_scenario(VulkanOptions options);
Scenario cuda_scenario();
Scenario cuda_scenario(std::vector<std::byte> plan);

struct Outcome {
  rlx_status status = RLX_OK;
  std::string message;               // of the call that failed
  bool in_close = false;             // the call that failed was made while the session was closed
  uint64_t calls = 0;                // until then
  bool opened = false;               // there was a device
  bool told_lost = false;            // before its health was asked
  rlx_status health = RLX_OK;        // of the device at the end; RLX_OK where none was opened
  rlx_status next_session = RLX_OK;  // on the same device after the failure; where one was opened
  std::string remains;               // objects after everything was closed; "none" is right
  std::vector<std::byte> outputs;    // of every run, in order
};

// Opens the device, loads the plan, runs each entry twice, profiles one, closes the session:
// till then calls fail. Then another session is tried, and everything closed.
Outcome use(const Scenario& scenario);

// What a program must see of a call that failed.
struct Wanted {
  rlx_status status = RLX_OK;
  bool or_none = false;  // some such calls are made where their failure changes nothing
};
using ResultStatus = std::function<Wanted(const std::string& function, int result)>;

struct FaultCounts {
  uint64_t calls = 0;  // that a use without faults makes
  uint64_t faults = 0;
};

// Fails each call of the scenario in every way in which it may fail, each in a use of its own;
// after each the driver must hold nothing, and the next use must give the same bytes.
FaultCounts fail_every_call(const Scenario& scenario, const ResultStatus& status_of);
// Loses the device at each call.
FaultCounts lose_at_every_call(const Scenario& scenario);

// The stand-in's control; its library stays loaded.
FaultControl& open_stand_in(const char* path);

}  // namespace rlx::test
