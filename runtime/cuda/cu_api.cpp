// SPDX-License-Identifier: Apache-2.0
// Opens libcuda.so.1 and fills the function table.
#include "runtime/cuda/cu_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"

namespace rlx::cuda {
namespace {

constexpr CUresult kLost[] = {CUDA_ERROR_DEINITIALIZED,        CUDA_ERROR_ECC_UNCORRECTABLE,
                              CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_CONTAINED,
                              CUDA_ERROR_ILLEGAL_ADDRESS,      CUDA_ERROR_LAUNCH_TIMEOUT,
                              CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT,
                              CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
                              CUDA_ERROR_MISALIGNED_ADDRESS,   CUDA_ERROR_INVALID_ADDRESS_SPACE,
                              CUDA_ERROR_INVALID_PC,           CUDA_ERROR_LAUNCH_FAILED,
                              CUDA_ERROR_TENSOR_MEMORY_LEAK,   CUDA_ERROR_MPS_CLIENT_TERMINATED,
                              CUDA_ERROR_EXTERNAL_DEVICE};

constexpr CUresult kNoDevice[] = {CUDA_ERROR_STUB_LIBRARY,     CUDA_ERROR_DEVICE_UNAVAILABLE,
                                  CUDA_ERROR_NO_DEVICE,        CUDA_ERROR_INVALID_DEVICE,
                                  CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH};

constexpr CUresult kUnsuitable[] = {CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER,
                                    CUDA_ERROR_INVALID_IMAGE,
                                    CUDA_ERROR_NO_BINARY_FOR_GPU,
                                    CUDA_ERROR_INVALID_PTX,
                                    CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
                                    CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                                    CUDA_ERROR_JIT_COMPILATION_DISABLED,
                                    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                                    CUDA_ERROR_NOT_SUPPORTED,
                                    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
                                    CUDA_ERROR_INVALID_CLUSTER_SIZE};

template <size_t kCount>
bool contains(const CUresult (&list)[kCount], CUresult result) {
  return std::find(std::begin(list), std::end(list), result) != std::end(list);
}

Status load_functions(void* library, const std::string& name, Api& api) {
#define RLX_CU(symbol, parameters)                                                     \
  api.symbol = reinterpret_cast<CUresult(*) parameters>(dlsym(library, #symbol));      \
  if (api.symbol == nullptr) {                                                         \
    return unsuitable(                                                                 \
        "the CUDA driver library " + name +                                            \
        " has no " #symbol                                                             \
        "; CUDA 12.3 or newer is needed, so update the NVIDIA driver (545 or newer)"); \
  }
#include "runtime/cuda/cu_functions.def"
#undef RLX_CU
  return {};
}

}  // namespace

Status Driver::open(const std::string& library, std::shared_ptr<const Driver>& driver) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return no_device(text_of("the CUDA driver library ", library, " cannot be opened (",
                             reason != nullptr ? reason : "no reason given",
                             "); install NVIDIA's driver, or its package libcuda1 "
                             "(libnvidia-compute on Ubuntu)"));
  }
  auto made = std::make_shared<Driver>();
  RLX_RETURN_IF_ERROR(load_functions(handle, library, made->api));
  RLX_RETURN_IF_ERROR(to_status(made->api, made->api.cuInit(0), "cuInit"));
  RLX_RETURN_IF_ERROR(
      to_status(made->api, made->api.cuDriverGetVersion(&made->version), "cuDriverGetVersion"));
  driver = std::move(made);
  return {};
}

std::string version_text(int version) {
  return text_of("CUDA ", version / 1000, ".", version % 1000 / 10);
}

bool means_lost(CUresult result) {
  return contains(kLost, result);
}

Status to_status(const Api& api, CUresult result, std::string_view what) {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  if (api.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr)
    name = "an unnamed CUresult";
  std::string message = text_of(what, ": ", name, " (", result, ")");
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return out_of_device_memory(std::move(message));
  if (means_lost(result)) return device_lost(std::move(message));
  if (contains(kNoDevice, result)) return no_device(std::move(message));
  if (contains(kUnsuitable, result)) return unsuitable(std::move(message));
  return driver_error(std::move(message));
}

}  // namespace rlx::cuda
