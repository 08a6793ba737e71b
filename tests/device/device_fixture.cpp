// SPDX-License-Identifier: Apache-2.0
// Opening what is present.
#include "tests/device/device_fixture.h"

#include <cstdio>

#include "runtime/cuda/cuda_device.h"
#include "runtime/vulkan/vulkan_device.h"

namespace rlx::test {
namespace {

std::vector<std::shared_ptr<Device>> open_devices(bool validation) {
  std::vector<std::shared_ptr<Device>> devices;
  std::string no_vulkan;
  std::string no_cuda;
  if (!list_vulkan_devices(no_vulkan).empty()) {
    std::shared_ptr<Device> device;
    Status status = open_vulkan_device("vulkan", device, {.validation = validation});
    if (!status.ok()) status = open_vulkan_device("vulkan", device);
    REQUIRE_OK(status);
    devices.push_back(std::move(device));
  }
  if (!list_cuda_devices(no_cuda).empty()) {
    std::shared_ptr<Device> device;
    REQUIRE_OK(open_cuda_device("cuda", device));
    devices.push_back(std::move(device));
  }
  if (devices.empty()) std::printf("SKIPPED: %s; %s\n", no_vulkan.c_str(), no_cuda.c_str());
  return devices;
}

}  // namespace

const std::vector<std::shared_ptr<Device>>& test_devices() {
  static const std::vector<std::shared_ptr<Device>> devices = open_devices(true);
  return devices;
}

std::vector<std::shared_ptr<Device>> plain_test_devices() {
  return open_devices(false);
}

DeviceRun::DeviceRun(const std::shared_ptr<Device>& device, std::shared_ptr<const PlanView> plan,
                     const LoadOptions& options, const SessionOptions& session)
    : device_(device), plan_(std::move(plan)) {
  REQUIRE_OK(device->load(*plan_, options, loaded_));
  REQUIRE_OK(loaded_->create_session(session, session_));
}

DeviceRun::DeviceRun(std::shared_ptr<DevicePlan> loaded, std::shared_ptr<const PlanView> plan)
    : plan_(std::move(plan)), loaded_(std::move(loaded)) {
  REQUIRE_OK(loaded_->create_session({}, session_));
}

DeviceRun::~DeviceRun() {
  if (device_ == nullptr) return;
  for (const std::string& message : vulkan_validation_messages(*device_)) FAIL_CHECK(message);
}

void DeviceRun::write(uint32_t value, const std::vector<float>& data) {
  REQUIRE_OK(session_->write(0, value, std::as_bytes(std::span(data))));
}

void DeviceRun::execute() {
  REQUIRE_OK(session_->submit(0));
  REQUIRE_OK(session_->wait(UINT64_MAX));
}

std::vector<float> DeviceRun::read(uint32_t value) const {
  std::vector<float> data(PlanView::value(plan_->entry(0), value).size_bytes() / 4);
  REQUIRE_OK(session_->read(0, value, std::as_writable_bytes(std::span(data))));
  return data;
}

}  // namespace rlx::test
