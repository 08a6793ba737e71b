// SPDX-License-Identifier: Apache-2.0
// A device with validation, or a counted skip; and a session with the statuses checked.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan_view.h"
#include "runtime/vulkan/vk_plan.h"
#include "runtime/vulkan/vulkan_device.h"
#include "tests/support/catch.h"
#include "tests/support/drivers.h"

#define REQUIRE_OK(expression)                \
  do {                                        \
    const ::rlx::Status status_ = expression; \
    INFO(status_.message());                  \
    REQUIRE(status_.ok());                    \
  } while (false)

// Declares `device`, or ends the test case where there is none. At the end of the scope the
// validation layer must be silent.
#define RLX_NEED_VULKAN(device) RLX_NEED_VULKAN_WITH(device, {})
#define RLX_NEED_VULKAN_WITH(device, ...)                 \
  const ::rlx::test::WatchedDevice watched_(__VA_ARGS__); \
  if (watched_.device == nullptr) return;                 \
  const std::shared_ptr<::rlx::Device>& device = watched_.device

namespace rlx::test {

struct WatchedDevice {
  explicit WatchedDevice(VulkanOptions options) {
    std::string why;
    if (present_devices(why).empty()) {
      std::printf("SKIPPED: %s\n", why.c_str());
      return;
    }
    options.validation = true;
    Status status = open_vulkan_device("vulkan:0", device, options);
    if (!status.ok()) {
      std::printf("SKIPPED: validation (%s)\n", status.message().c_str());
      options.validation = false;
      status = open_vulkan_device("vulkan:0", device, options);
    }
    INFO(status.message());
    REQUIRE(status.ok());
  }
  ~WatchedDevice() {
    if (device == nullptr) return;
    for (const std::string& message : vulkan_validation_messages(*device)) {
      FAIL_CHECK(message);
    }
  }
  WatchedDevice(const WatchedDevice&) = delete;
  WatchedDevice& operator=(const WatchedDevice&) = delete;

  std::shared_ptr<Device> device;
};

class VulkanRun {
 public:
  VulkanRun(const std::shared_ptr<Device>& device, std::shared_ptr<const PlanView> plan,
            const LoadOptions& options = {})
      : plan_(std::move(plan)) {
    REQUIRE_OK(device->load(*plan_, options, loaded_));
    REQUIRE_OK(loaded_->create_session({}, session_));
  }
  VulkanRun(std::shared_ptr<DevicePlan> loaded, std::shared_ptr<const PlanView> plan)
      : plan_(std::move(plan)), loaded_(std::move(loaded)) {
    REQUIRE_OK(loaded_->create_session({}, session_));
  }

  [[nodiscard]] DeviceSession& session() const { return *session_; }
  [[nodiscard]] DevicePlan& loaded() const { return *loaded_; }

  void write(uint32_t value, const std::vector<float>& data) {
    REQUIRE_OK(session_->write(0, value, std::as_bytes(std::span(data))));
  }
  void execute() {
    REQUIRE_OK(session_->submit(0));
    REQUIRE_OK(session_->wait(UINT64_MAX));
  }
  [[nodiscard]] std::vector<float> read(uint32_t value) const {
    std::vector<float> data(PlanView::value(plan_->entry(0), value).size_bytes() / 4);
    REQUIRE_OK(session_->read(0, value, std::as_writable_bytes(std::span(data))));
    return data;
  }

 private:
  std::shared_ptr<const PlanView> plan_;
  std::shared_ptr<DevicePlan> loaded_;
  std::unique_ptr<DeviceSession> session_;
};

inline vulkan::Context& context_of(const VulkanRun& run) {
  return dynamic_cast<vulkan::VulkanPlan&>(run.loaded()).context();
}

inline vulkan::PhysicalDevice physical_of(Device& device,
                                          const std::shared_ptr<const PlanView>& plan) {
  std::shared_ptr<DevicePlan> loaded;
  REQUIRE_OK(device.load(*plan, {}, loaded));
  return dynamic_cast<vulkan::VulkanPlan&>(*loaded).context().physical;
}

inline std::string temporary_path(const std::string& name) {
  return "/tmp/rlx_test_" + std::to_string(::getpid()) + "_" + name;
}

inline std::string file_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline void write_text(const std::string& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << text;
}

}  // namespace rlx::test
