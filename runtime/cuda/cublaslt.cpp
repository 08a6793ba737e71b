// SPDX-License-Identifier: Apache-2.0
// Opens cuBLASLt.
#include "runtime/cuda/cublaslt.h"

#include <dlfcn.h>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"

namespace rlx::cuda {
namespace {

constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

Status load_functions(void* library, const char* name, BlasApi& api) {
#define RLX_BLAS(symbol, result, parameters)                                    \
  api.symbol = reinterpret_cast<result(*) parameters>(dlsym(library, #symbol)); \
  if (api.symbol == nullptr)                                                    \
    return unsuitable(text_of("the library ", name, " has no " #symbol "; reinstall cuBLAS"));
#include "runtime/cuda/cublaslt_functions.def"
#undef RLX_BLAS
  return {};
}

}  // namespace

Status BlasLibrary::open(ObjectCounts& objects, std::shared_ptr<const BlasLibrary>& library) {
  for (const char* name : kNames) {
    void* file = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (file == nullptr) continue;
    std::shared_ptr<BlasLibrary> made(new BlasLibrary(objects));
    RLX_RETURN_IF_ERROR(load_functions(file, name, made->api));
    RLX_RETURN_IF_ERROR(made->check(made->api.cublasLtCreate(&made->handle), "cublasLtCreate"));
    made->counted_ = CountedObject(objects, ObjectKind::Library);
    library = std::move(made);
    return {};
  }
  return unsuitable(text_of("the plan has products for cuBLASLt, and neither ", kNames[0], " nor ",
                            kNames[1],
                            " can be opened; install the package libcublas-13-0 of CUDA 13 (or "
                            "libcublas-12-9), or compile the plan without library products"));
}

BlasLibrary::~BlasLibrary() {
  if (handle != nullptr) static_cast<void>(api.cublasLtDestroy(handle));
}

Status BlasLibrary::check(cublasStatus_t status, std::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  std::string message = text_of(what, ": ", api.cublasLtGetStatusName(status), " (", status, ")");
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return out_of_device_memory(std::move(message));
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return unsuitable(std::move(message));
  return driver_error(std::move(message));
}

std::string BlasLibrary::text() const {
  const size_t version = api.cublasLtGetVersion();
  return text_of("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace rlx::cuda
