// SPDX-License-Identifier: Apache-2.0
// The devices that are present, and a session on one of them with the statuses checked.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/plan/plan_view.h"
#include "tests/support/catch.h"

#define REQUIRE_OK(expression)                \
  do {                                        \
    const ::rlx::Status status_ = expression; \
    INFO(status_.message());                  \
    REQUIRE(status_.ok());                    \
  } while (false)

namespace rlx::test {

// Vulkan's first device, with validation where the layer is installed, and CUDA's first one. Opened
// once. Without any, says once that everything was skipped, and why.
const std::vector<std::shared_ptr<Device>>& test_devices();
// The same devices without validation.
std::vector<std::shared_ptr<Device>> plain_test_devices();

class DeviceRun {
 public:
  DeviceRun(const std::shared_ptr<Device>& device, std::shared_ptr<const PlanView> plan,
            const LoadOptions& options = {}, const SessionOptions& session = {});
  DeviceRun(std::shared_ptr<DevicePlan> loaded, std::shared_ptr<const PlanView> plan);
  // The validation layer must have been silent.
  ~DeviceRun();
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;

  [[nodiscard]] DeviceSession& session() const { return *session_; }
  [[nodiscard]] DevicePlan& loaded() const { return *loaded_; }

  void write(uint32_t value, const std::vector<float>& data);
  void execute();
  [[nodiscard]] std::vector<float> read(uint32_t value) const;

 private:
  std::shared_ptr<Device> device_;
  std::shared_ptr<const PlanView> plan_;
  std::shared_ptr<DevicePlan> loaded_;
  std::unique_ptr<DeviceSession> session_;
};

}  // namespace rlx::test
