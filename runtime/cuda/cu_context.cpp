// SPDX-License-Identifier: Apache-2.0
// Contexts: the primary one or an adopted one, what they are, and whether they are lost.
#include "runtime/cuda/cu_context.h"

#include <array>
#include <initializer_list>

#include "runtime/base/errors.h"
#include "runtime/device/device_names.h"
#include "schema/plan_generated.h"
#include "schema/plan_header.h"

namespace rlx::cuda {
namespace {

struct AttributeRow {
  int attribute;
  uint32_t* value;
};

Status read_attributes(const Api& api, CUdevice device, const std::string& id,
                       std::initializer_list<AttributeRow> rows) {
  for (const AttributeRow& row : rows) {
    int value = 0;
    RLX_RETURN_IF_ERROR(to_status(api, api.cuDeviceGetAttribute(&value, row.attribute, device),
                                  "cuDeviceGetAttribute of " + id));
    *row.value = static_cast<uint32_t>(value);
  }
  return {};
}

}  // namespace

Status describe_device(const Driver& driver, CUdevice device, std::string id, DeviceInfo& info) {
  const Api& api = driver.api;
  DeviceInfo made;
  std::array<char, 256> name = {};
  RLX_RETURN_IF_ERROR(
      to_status(api, api.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device),
                "cuDeviceGetName of " + id));
  size_t memory_bytes = 0;
  RLX_RETURN_IF_ERROR(
      to_status(api, api.cuDeviceTotalMem_v2(&memory_bytes, device), "cuDeviceTotalMem of " + id));
  uint32_t major = 0;
  uint32_t minor = 0;
  uint32_t integrated = 0;
  RLX_RETURN_IF_ERROR(read_attributes(
      api, device, id,
      {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
       {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
       {CU_DEVICE_ATTRIBUTE_INTEGRATED, &integrated},
       {CU_DEVICE_ATTRIBUTE_WARP_SIZE, &made.subgroup_size},
       {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &made.max_workgroup_invocations},
       {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &made.max_shared_bytes},
       {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &made.max_grid[0]},
       {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &made.max_grid[1]},
       {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &made.max_grid[2]}}));
  made.target = fb::TargetKind::Cuda;
  made.id = std::move(id);
  made.name = name.data();
  made.driver = version_text(driver.version);
  made.api_version = static_cast<uint32_t>(driver.version);
  made.memory_bytes = memory_bytes;
  made.max_params_bytes = kMaxParamsBytes;
  made.unified_memory = integrated != 0;
  made.architecture = major * 10 + minor;
  info = std::move(made);
  return {};
}

Status Context::describe(std::string id) {
  RLX_RETURN_IF_ERROR(read_attributes(
      api, device_, id,
      {{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &multiprocessors},
       {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &multiprocessor_shared_bytes}}));
  return describe_device(*driver, device_, std::move(id), info);
}

Status Context::open(std::shared_ptr<const Driver> driver, CUdevice device, std::string id,
                     std::shared_ptr<ObjectCounts> objects, std::shared_ptr<Context>& context) {
  std::shared_ptr<Context> made(new Context(std::move(driver), std::move(objects)));
  made->device_ = device;
  RLX_RETURN_IF_ERROR(made->describe(std::move(id)));
  RLX_RETURN_IF_ERROR(made->check(made->api.cuDevicePrimaryCtxRetain(&made->handle, device),
                                  "the primary context of " + device_text(made->info)));
  made->counted_ = CountedObject(made->objects(), ObjectKind::Context);
  made->retained_ = true;
  made->info.available_bytes = made->available_bytes();
  context = std::move(made);
  return {};
}

Status Context::adopt(std::shared_ptr<const Driver> driver, CUcontext handle,
                      std::shared_ptr<ObjectCounts> objects, std::shared_ptr<Context>& context) {
  std::shared_ptr<Context> made(new Context(std::move(driver), std::move(objects)));
  made->handle = handle;
  {
    const Current current(*made);
    RLX_RETURN_IF_ERROR(current.status());
    RLX_RETURN_IF_ERROR(made->check(made->api.cuCtxGetDevice(&made->device_), "cuCtxGetDevice"));
  }
  RLX_RETURN_IF_ERROR(made->describe("cuda:adopted"));
  made->info.available_bytes = made->available_bytes();
  context = std::move(made);
  return {};
}

Context::~Context() {
  if (retained_) static_cast<void>(api.cuDevicePrimaryCtxRelease_v2(device_));
}

Status Context::check(CUresult result, std::string_view what) {
  if (result == CUDA_SUCCESS) return {};
  note(result);
  return to_status(api, result, what);
}

Status Context::health() const {
  if (!lost_.load(std::memory_order_acquire)) return {};
  return lost_earlier(info);
}

uint64_t Context::available_bytes() {
  const Current current(*this);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (!current.status().ok()) return 0;
  const CUresult result = api.cuMemGetInfo_v2(&free_bytes, &total_bytes);
  note(result);
  return result == CUDA_SUCCESS ? free_bytes : 0;
}

Status create_stream(Context& context, OwnedStream& stream) {
  CUstream handle = nullptr;
  RLX_RETURN_IF_ERROR(
      context.check(context.api.cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  stream = OwnedStream(context, handle);
  return {};
}

Status create_event(Context& context, unsigned flags, OwnedEvent& event) {
  CUevent handle = nullptr;
  RLX_RETURN_IF_ERROR(context.check(context.api.cuEventCreate(&handle, flags), "cuEventCreate"));
  event = OwnedEvent(context, handle);
  return {};
}

Status microseconds_between(Context& context, CUevent begin, CUevent end, double& microseconds) {
  float milliseconds = 0;
  RLX_RETURN_IF_ERROR(context.check(context.api.cuEventElapsedTime(&milliseconds, begin, end),
                                    "cuEventElapsedTime"));
  microseconds = milliseconds * 1e3;
  return {};
}

}  // namespace rlx::cuda
