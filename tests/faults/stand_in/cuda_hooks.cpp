// SPDX-License-Identifier: Apache-2.0
// Stands in for libcuda.so.1 and for cuBLASLt: every call goes to the fake driver of fake_cuda.cpp,
// or to the real libraries, but for the one that is to fail and what a lost device no longer does.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string_view>

#include "tests/faults/stand_in/fake_cuda.h"

using namespace rlx::cuda;

namespace rlx::test {

namespace {

enum class Call : uint32_t {
#define RLX_CU(symbol, parameters) symbol,
#include "runtime/cuda/cu_functions.def"
#undef RLX_CU
#define RLX_BLAS(symbol, result, parameters) symbol,
#include "runtime/cuda/cublaslt_functions.def"
#undef RLX_BLAS
};

constexpr CUresult kUnknown = 999;
constexpr CUresult kLost = CUDA_ERROR_LAUNCH_FAILED;
constexpr cublasStatus_t kBlasExecutionFailed = 13;
// What CUDA's functions may return is not told one by one: any may return what an earlier launch
// has met.
constexpr std::array<int, 3> kBeforeContext = {CUDA_ERROR_NO_DEVICE, CUDA_ERROR_SYSTEM_NOT_READY,
                                               kUnknown};
constexpr std::array<int, 4> kInContext = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED,
                                           kUnknown, kLost};
constexpr std::array<int, 3> kBlas = {CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_NOT_SUPPORTED,
                                      kBlasExecutionFailed};

constexpr Call kBefore[] = {Call::cuInit,
                            Call::cuDriverGetVersion,
                            Call::cuDeviceGetCount,
                            Call::cuDeviceGet,
                            Call::cuDeviceGetName,
                            Call::cuDeviceGetAttribute,
                            Call::cuDeviceTotalMem_v2,
                            Call::cuDevicePrimaryCtxRetain};
// What is to end ends, whatever these return.
constexpr Call kEnding[] = {Call::cuDevicePrimaryCtxRelease_v2,
                            Call::cuCtxPopCurrent_v2,
                            Call::cuMemFree_v2,
                            Call::cuMemFreeHost,
                            Call::cuModuleUnload,
                            Call::cuStreamDestroy_v2,
                            Call::cuStreamEndCapture,
                            Call::cuEventDestroy_v2,
                            Call::cuGraphDestroy,
                            Call::cuGraphExecDestroy,
                            Call::cublasLtDestroy,
                            Call::cublasLtMatmulDescDestroy,
                            Call::cublasLtMatrixLayoutDestroy,
                            Call::cublasLtMatmulPreferenceDestroy};

template <size_t kCount>
constexpr bool contains(const Call (&list)[kCount], Call call) {
  return std::find(std::begin(list), std::end(list), call) != std::end(list);
}

// Libraries in whose place this one stands; null: the fake driver.
void* open_real(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr) return nullptr;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library == nullptr) std::fprintf(stderr, "%s: %s\n", variable, dlerror());
  return library;
}
void* real_cuda() {
  static void* const library = open_real("RLX_FAULT_REAL_CUDA");
  return library;
}
void* real_blas() {
  static void* const library = open_real("RLX_FAULT_REAL_CUBLASLT");
  return library;
}

// A lost device does nothing any more: what was under way ends first.
void lose() {
  if (real_cuda() != nullptr) {
    const auto synchronise =
        reinterpret_cast<CUresult (*)()>(dlsym(real_cuda(), "cuCtxSynchronize"));
    if (synchronise != nullptr) synchronise();
  } else {
    finish_fake_work();
  }
  fault_control().lost = true;
}

template <Call kCall, typename Function>
struct Hook;

template <Call kCall, typename Result, typename... Arguments>
struct Hook<kCall, Result(Arguments...)> {
  static Result call_with(const char* name, void* library, Result (*fake)(Arguments...),
                          std::span<const int> results, Arguments... arguments) {
    const DriverScope scope;
    Result (*target)(Arguments...) = fake;
    if (library != nullptr)
      target = reinterpret_cast<Result (*)(Arguments...)>(dlsym(library, name));
    if constexpr (std::is_same_v<Result, int> && kCall != Call::cuGetErrorName) {
      const std::optional<int> fault = take_fault(
          {.name = name, .results = results, .lost = kLost, .is_poll = kCall == Call::cuEventQuery},
          lose);
      if (fault.has_value() && contains(kEnding, kCall)) static_cast<void>(target(arguments...));
      if (fault.has_value()) return *fault;
    }
    return target(arguments...);
  }
};

template <Call kCall>
std::span<const int> results_of() {
  if (contains(kBefore, kCall)) return kBeforeContext;
  return kInContext;
}

#define RLX_CU(symbol, parameters)                                                          \
  template <typename... Arguments>                                                          \
  CUresult hooked_##symbol(Arguments... arguments) {                                        \
    return Hook<Call::symbol, CUresult(Arguments...)>::call_with(                           \
        #symbol, real_cuda(), &FakeCuda::symbol, results_of<Call::symbol>(), arguments...); \
  }
#include "runtime/cuda/cu_functions.def"
#undef RLX_CU
#define RLX_BLAS(symbol, result, parameters)                           \
  template <typename... Arguments>                                     \
  result hooked_##symbol(Arguments... arguments) {                     \
    return Hook<Call::symbol, result(Arguments...)>::call_with(        \
        #symbol, real_blas(), &FakeCuda::symbol, kBlas, arguments...); \
  }
#include "runtime/cuda/cublaslt_functions.def"
#undef RLX_BLAS

}  // namespace
}  // namespace rlx::test

// The lists have no names to call the parameters by in a body, so each exported function is an
// indirect one: its resolver gives the instance of the hook with the same parameters.
#define RLX_EXPORT(symbol, result, parameters)                                                \
  extern "C" {                                                                                \
  __attribute__((used)) static result(*resolve_##symbol()) parameters {                       \
    result(*hook) parameters = &rlx::test::hooked_##symbol;                                   \
    return hook;                                                                              \
  }                                                                                           \
  __attribute__((visibility("default"), ifunc("resolve_" #symbol))) result symbol parameters; \
  }
#define RLX_CU(symbol, parameters) RLX_EXPORT(symbol, CUresult, parameters)
#include "runtime/cuda/cu_functions.def"
#undef RLX_CU
#define RLX_BLAS(symbol, result, parameters) RLX_EXPORT(symbol, result, parameters)
#include "runtime/cuda/cublaslt_functions.def"
#undef RLX_BLAS

__attribute__((constructor)) static void begin() {
  rlx::test::take_environment();
}
