// SPDX-License-Identifier: Apache-2.0
// rlx.h: devices.
#include "runtime/api/handles.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/device/device_names.h"
#include "runtime/null/null_device.h"
#include "runtime/plan/target_row.h"
#include "runtime/vulkan/vulkan_device.h"

namespace rlx {
namespace {

// What opens the devices of a target's driver; those of one id begin with the target's flag.
struct DriverRow {
  std::string_view flag;
  std::vector<DeviceInfo> (*list)(std::string& why_none);
  Status (*open)(const std::string& id, std::shared_ptr<Device>& device);
};

DriverRow driver_of(fb::TargetKind target) {
  const std::string_view flag = target_row(target).flag;
  switch (target) {
    case fb::TargetKind::Vulkan:
      return {.flag = flag,
              .list = list_vulkan_devices,
              .open = [](const std::string& id, std::shared_ptr<Device>& device) {
                return open_vulkan_device(id, device);
              }};
    case fb::TargetKind::Cuda:
      return {.flag = flag,
              .list = [](std::string& why_none) { return list_cuda_devices(why_none); },
              .open = [](const std::string& id,
                         std::shared_ptr<Device>& device) { return open_cuda_device(id, device); }};
  }
  return {};
}

Status open_device(const std::string& id, std::shared_ptr<Device>& device) {
  if (id == "null") {
    device = open_null_device();
    return {};
  }
  std::string names;
  for (const TargetRow& row : target_rows()) {
    if (id == row.flag || id.starts_with(text_of(row.flag, ":")))
      return driver_of(row.kind).open(id, device);
    names += text_of(names.empty() ? "" : ", ", row.flag, ":0, ", row.flag,
                     names.empty() ? " (the first)" : "");
  }
  return no_device(
      text_of("there is no device ", quoted(id), "; devices are named ", names, " or null"));
}

// Of every driver; `note` says of each that has none why.
std::vector<DeviceInfo> list_devices(std::string& note) {
  std::vector<DeviceInfo> all;
  for (const TargetRow& row : target_rows()) {
    std::string why_none;
    std::vector<DeviceInfo> found = driver_of(row.kind).list(why_none);
    std::move(found.begin(), found.end(), std::back_inserter(all));
    if (!why_none.empty()) note += text_of(note.empty() ? "" : "\n", why_none);
  }
  return all;
}

}  // namespace

rlx_device* make_device_handle(std::shared_ptr<Device> device) {
  auto handle = std::make_unique<rlx_device>();
  handle->shared = std::make_shared<SharedDevice>();
  handle->shared->device = std::move(device);
  return handle.release();
}

rlx_device_info describe_device(const DeviceInfo& device) {
  rlx_device_info info = RLX_INIT(rlx_device_info);
  info.id = device.id.c_str();
  info.name = device.name.c_str();
  info.driver = device.driver.c_str();
  info.api_version = device.api_version;
  info.subgroup_size = device.subgroup_size;
  info.features = device.features;
  info.memory_bytes = device.memory_bytes;
  info.available_bytes = device.available_bytes;
  info.unified_memory = device.unified_memory ? 1 : 0;
  info.max_workgroup_invocations = device.max_workgroup_invocations;
  info.max_shared_bytes = device.max_shared_bytes;
  info.max_params_bytes = device.max_params_bytes;
  info.architecture = device.architecture;
  std::copy(std::begin(device.max_grid), std::end(device.max_grid), info.max_grid);
  return info;
}

}  // namespace rlx

using rlx::guarded;
using rlx::null_argument;
using rlx::Status;

rlx_status rlx_device_list_create(rlx_device_list** list) {
  return guarded([&]() -> Status {
    if (list == nullptr) return null_argument("list");
    *list = nullptr;
    auto made = std::make_unique<rlx_device_list>();
    made->devices = rlx::list_devices(made->note);
    *list = made.release();
    return {};
  });
}

uint32_t rlx_device_list_count(const rlx_device_list* list) {
  return list == nullptr ? 0 : static_cast<uint32_t>(list->devices.size());
}

rlx_status rlx_device_list_get(const rlx_device_list* list, uint32_t index, rlx_device_info* info) {
  return guarded([&]() -> Status {
    if (list == nullptr) return null_argument("list");
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    if (index >= list->devices.size()) {
      return {RLX_INVALID_ARGUMENT,
              rlx::text_of("there is no device ", index, ", the list has ", list->devices.size())};
    }
    rlx::give_struct(rlx::describe_device(list->devices[index]), info);
    return {};
  });
}

const char* rlx_device_list_note(const rlx_device_list* list) {
  return list == nullptr ? "" : list->note.c_str();
}

void rlx_device_list_close(rlx_device_list* list) {
  delete list;
}

rlx_status rlx_device_open(const char* id, rlx_device** device) {
  return guarded([&]() -> Status {
    if (device == nullptr) return null_argument("device");
    *device = nullptr;
    if (id == nullptr) return null_argument("id");
    std::shared_ptr<rlx::Device> opened;
    RLX_RETURN_IF_ERROR(rlx::open_device(id, opened));
    *device = rlx::make_device_handle(std::move(opened));
    return {};
  });
}

rlx_status rlx_device_adopt_vulkan(const rlx_vulkan_handles* handles, rlx_device** device) {
  return guarded([&]() -> Status {
    if (device == nullptr) return null_argument("device");
    *device = nullptr;
    rlx_vulkan_handles taken{};
    RLX_RETURN_IF_ERROR(rlx::take_struct(handles, "handles", taken));
    if (taken.instance == nullptr) return null_argument("handles->instance");
    if (taken.physical_device == nullptr) return null_argument("handles->physical_device");
    if (taken.device == nullptr) return null_argument("handles->device");
    if (taken.queue == nullptr) return null_argument("handles->queue");
    std::shared_ptr<rlx::Device> adopted;
    RLX_RETURN_IF_ERROR(
        rlx::adopt_vulkan_device({.instance = taken.instance,
                                  .physical_device = taken.physical_device,
                                  .device = taken.device,
                                  .queue_family = taken.queue_family,
                                  .queue = taken.queue,
                                  .get_instance_proc_addr = taken.get_instance_proc_addr,
                                  .features = taken.enabled_features},
                                 adopted));
    *device = rlx::make_device_handle(std::move(adopted));
    return {};
  });
}

rlx_status rlx_device_adopt_cuda(const rlx_cuda_handles* handles, rlx_device** device) {
  return guarded([&]() -> Status {
    if (device == nullptr) return null_argument("device");
    *device = nullptr;
    rlx_cuda_handles taken{};
    RLX_RETURN_IF_ERROR(rlx::take_struct(handles, "handles", taken));
    if (taken.context == nullptr) return null_argument("handles->context");
    std::shared_ptr<rlx::Device> adopted;
    RLX_RETURN_IF_ERROR(rlx::adopt_cuda_device(taken.context, adopted));
    *device = rlx::make_device_handle(std::move(adopted));
    return {};
  });
}

rlx_status rlx_device_get_info(const rlx_device* device, rlx_device_info* info) {
  return guarded([&]() -> Status {
    if (device == nullptr) return null_argument("device");
    RLX_RETURN_IF_ERROR(rlx::check_room(info, "info"));
    rlx::give_struct(rlx::describe_device(device->shared->device->info()), info);
    return {};
  });
}

rlx_status rlx_device_health(const rlx_device* device) {
  return guarded([&]() -> Status {
    if (device == nullptr) return null_argument("device");
    if (!device->shared->lost && device->shared->device->health().code() != RLX_DEVICE_LOST)
      return {};
    return rlx::lost_earlier(device->shared->device->info());
  });
}

void rlx_device_close(rlx_device* device) {
  delete device;
}
