// SPDX-License-Identifier: Apache-2.0
// The fake driver: devices, memory, modules, streams and events. fake_graphs.cpp has the rest.
#include "tests/faults/stand_in/fake_cuda.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "schema/rounding.h"
#include "tests/faults/stand_in/fake_objects.h"

namespace rlx::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// How long after its recording an event is found to have happened, if nobody waits for it.
constexpr std::chrono::microseconds kWork(250);
constexpr uint64_t kMemoryBytes = uint64_t{8} << 30;
constexpr size_t kGuardBytes = 64;
constexpr unsigned char kFresh = 0xA5;
constexpr unsigned char kGuard = 0x5C;

thread_local int current_contexts = 0;
int retained = 0;

FakeContext the_context;

CUcontext context_handle() {
  return reinterpret_cast<CUcontext>(&the_context);
}

bool needs_context() {
  if (current_contexts > 0) return false;
  misuse("a call needs a current context");
  return true;
}

// Host memory in the device's place, between nothing and a guard.
void* allocate(uint64_t size_bytes, FakeKind kind) {
  const uint64_t whole = rlx::round_up(size_bytes + kGuardBytes, size_t{256});
  auto* memory = static_cast<unsigned char*>(std::aligned_alloc(256, whole));
  if (memory == nullptr) return nullptr;
  std::memset(memory, kFresh, size_bytes);
  std::memset(memory + size_bytes, kGuard, whole - size_bytes);
  fake_objects().add(memory, kind, size_bytes);
  return memory;
}

CUresult release(void* memory, FakeKind kind) {
  finish_fake_work();
  const std::optional<uint64_t> size_bytes = fake_objects().remove(memory, kind);
  if (!size_bytes.has_value()) return kInvalidHandle;
  const auto* guard = static_cast<unsigned char*>(memory) + *size_bytes;
  if (!std::all_of(guard, guard + kGuardBytes, [](unsigned char byte) { return byte == kGuard; }))
    misuse("something was written behind an allocation");
  std::free(memory);
  return CUDA_SUCCESS;
}

int attribute_value(int attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return 0;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 232448;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return 132;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 233472;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 1 << 20;
    default:
      return 0;
  }
}

CUresult copy_later(void* target, const void* source, size_t size_bytes, CUstream stream) {
  return put_work(stream, [=] { checked_copy(target, source, size_bytes); });
}

}  // namespace

CUresult FakeCuda::cuInit(unsigned) {
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuGetErrorName(CUresult result, const char** name) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      break;
    case CUDA_ERROR_LAUNCH_FAILED:
      *name = "CUDA_ERROR_LAUNCH_FAILED";
      break;
    default:
      *name = "an error of the fake driver";
  }
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult FakeCuda::cuDeviceGetName(char* name, int size_bytes, CUdevice) {
  std::strncpy(name, "no GPU at all", static_cast<size_t>(size_bytes));
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuDeviceGetAttribute(int* value, int attribute, CUdevice) {
  *value = attribute_value(attribute);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuDeviceTotalMem_v2(size_t* size_bytes, CUdevice) {
  *size_bytes = kMemoryBytes;
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  ++retained;
  ++test::fault_control().live;
  *context = context_handle();
  return CUDA_SUCCESS;
}
// The last one ends the context, and with it what was lost.
CUresult FakeCuda::cuDevicePrimaryCtxRelease_v2(CUdevice) {
  --test::fault_control().live;
  if (--retained > 0) return CUDA_SUCCESS;
  test::fault_control().lost = false;
  if (current_contexts != 0) misuse("the context ends while it is current");
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuCtxPushCurrent_v2(CUcontext context) {
  if (context != context_handle()) return kInvalidHandle;
  ++current_contexts;
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuCtxPopCurrent_v2(CUcontext* context) {
  if (needs_context()) return kInvalidContext;
  --current_contexts;
  *context = context_handle();
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuCtxGetDevice(CUdevice* device) {
  if (needs_context()) return kInvalidContext;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult FakeCuda::cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  if (needs_context()) return kInvalidContext;
  *free_bytes = *total_bytes = kMemoryBytes;
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuMemAlloc_v2(CUdeviceptr* address, size_t size_bytes) {
  if (needs_context()) return kInvalidContext;
  void* memory = allocate(size_bytes, FakeKind::Memory);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult FakeCuda::cuMemFree_v2(CUdeviceptr address) {
  return release(reinterpret_cast<void*>(address), FakeKind::Memory);
}
CUresult FakeCuda::cuMemHostAlloc(void** address, size_t size_bytes, unsigned) {
  if (needs_context()) return kInvalidContext;
  *address = allocate(size_bytes, FakeKind::HostMemory);
  return *address == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult FakeCuda::cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* host_address,
                                                unsigned) {
  if (!fake_objects().is(host_address, FakeKind::HostMemory)) return kInvalidHandle;
  *address = reinterpret_cast<CUdeviceptr>(host_address);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuMemFreeHost(void* address) {
  return release(address, FakeKind::HostMemory);
}
CUresult FakeCuda::cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, size_t size_bytes,
                                        CUstream stream) {
  return copy_later(reinterpret_cast<void*>(target), source, size_bytes, stream);
}
CUresult FakeCuda::cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, size_t size_bytes,
                                        CUstream stream) {
  return copy_later(target, reinterpret_cast<const void*>(source), size_bytes, stream);
}
CUresult FakeCuda::cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t size_bytes,
                                        CUstream stream) {
  return copy_later(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source),
                    size_bytes, stream);
}
CUresult FakeCuda::cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count,
                                   CUstream stream) {
  return put_work(stream, [=] {
    if (fake_objects().holds(reinterpret_cast<void*>(target), count))
      std::memset(reinterpret_cast<void*>(target), value, count);
  });
}
CUresult FakeCuda::cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count,
                                    CUstream stream) {
  return put_work(stream, [=] {
    if (fake_objects().holds(reinterpret_cast<void*>(target), count * sizeof value))
      std::fill_n(reinterpret_cast<unsigned*>(target), count, value);
  });
}

// A module is its text: PTX that names the function, or a cubin, whose names are its own affair.
CUresult FakeCuda::cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, int*, void**) {
  if (needs_context()) return kInvalidContext;
  const auto* bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes,
                  "\x7f"
                  "ELF",
                  4) != 0 &&
      std::string_view(bytes).find(".version") == std::string_view::npos)
    return CUDA_ERROR_INVALID_IMAGE;
  auto* made = new FakeModule{.image = bytes};
  fake_objects().add(made, FakeKind::Module, 0);
  *module = reinterpret_cast<CUmodule>(made);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuModuleUnload(CUmodule module) {
  finish_fake_work();
  return end_object<FakeModule>(module, FakeKind::Module);
}
CUresult FakeCuda::cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (!fake_objects().is(module, FakeKind::Module)) return kInvalidHandle;
  auto* loaded = reinterpret_cast<FakeModule*>(module);
  const bool is_text = loaded->image[0] != '\x7f';
  if (is_text && std::string_view(loaded->image).find(name) == std::string_view::npos)
    return kNotFound;
  *function = reinterpret_cast<CUfunction>(loaded);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuFuncSetAttribute(CUfunction function, int, int) {
  return fake_objects().is(function, FakeKind::Module) ? CUDA_SUCCESS : kInvalidHandle;
}
CUresult FakeCuda::cuOccupancyMaxActiveBlocksPerMultiprocessor(int* count, CUfunction function, int,
                                                               size_t) {
  *count = 1;
  return fake_objects().is(function, FakeKind::Module) ? CUDA_SUCCESS : kInvalidHandle;
}
CUresult FakeCuda::cuTensorMapEncodeTiled(CUtensorMap* map, int, uint32_t rank, void* address,
                                          const uint64_t*, const uint64_t*, const uint32_t*,
                                          const uint32_t*, int, int, int, int) {
  *map = {};
  map->opaque[0] = rank;
  return fake_objects().holds(address, 1) ? CUDA_SUCCESS : kInvalidHandle;
}

CUresult FakeCuda::cuTensorMapEncodeIm2col(CUtensorMap* map, int, uint32_t rank, void* address,
                                           const uint64_t*, const uint64_t*, const int*, const int*,
                                           uint32_t, uint32_t, const uint32_t*, int, int, int,
                                           int) {
  *map = {};
  map->opaque[0] = rank;
  return fake_objects().holds(address, 1) ? CUDA_SUCCESS : kInvalidHandle;
}

CUresult FakeCuda::cuStreamCreate(CUstream* stream, unsigned) {
  if (needs_context()) return kInvalidContext;
  auto* made = new FakeStream;
  fake_objects().add(made, FakeKind::Stream, 0);
  *stream = reinterpret_cast<CUstream>(made);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuStreamDestroy_v2(CUstream stream) {
  if (fake_objects().is(stream, FakeKind::Stream)) finish_stream(stream);
  return end_object<FakeStream>(stream, FakeKind::Stream);
}
CUresult FakeCuda::cuStreamSynchronize(CUstream stream) {
  if (!fake_objects().is(stream, FakeKind::Stream)) return kInvalidHandle;
  finish_stream(stream);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuStreamGetCtx(CUstream stream, CUcontext* context) {
  if (!fake_objects().is(stream, FakeKind::Stream)) return kInvalidHandle;
  *context = context_handle();
  return CUDA_SUCCESS;
}

CUresult FakeCuda::cuEventCreate(CUevent* event, unsigned) {
  if (needs_context()) return kInvalidContext;
  auto* made = new FakeEvent;
  fake_objects().add(made, FakeKind::Event, 0);
  *event = reinterpret_cast<CUevent>(made);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuEventDestroy_v2(CUevent event) {
  finish_fake_work();
  return end_object<FakeEvent>(event, FakeKind::Event);
}
CUresult FakeCuda::cuEventRecord(CUevent event, CUstream stream) {
  if (!fake_objects().is(event, FakeKind::Event)) return kInvalidHandle;
  auto* recorded = reinterpret_cast<FakeEvent*>(event);
  recorded->happened = false;
  recorded->recorded = Clock::now();
  recorded->stream = stream;
  return put_work(stream, [recorded] { recorded->happened = true; });
}
CUresult FakeCuda::cuEventQuery(CUevent event) {
  if (!fake_objects().is(event, FakeKind::Event)) return kInvalidHandle;
  auto* asked = reinterpret_cast<FakeEvent*>(event);
  if (asked->happened) return CUDA_SUCCESS;
  if (Clock::now() - asked->recorded < kWork) return CUDA_ERROR_NOT_READY;
  finish_stream(asked->stream);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuEventSynchronize(CUevent event) {
  if (!fake_objects().is(event, FakeKind::Event)) return kInvalidHandle;
  auto* awaited = reinterpret_cast<FakeEvent*>(event);
  if (!awaited->happened) finish_stream(awaited->stream);
  return CUDA_SUCCESS;
}
CUresult FakeCuda::cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  for (const CUevent event : {start, end}) {
    if (!fake_objects().is(event, FakeKind::Event)) return kInvalidHandle;
    if (!reinterpret_cast<FakeEvent*>(event)->happened) return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = 0.001f;
  return CUDA_SUCCESS;
}

}  // namespace rlx::cuda
