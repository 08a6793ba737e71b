// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, opened at run time when a plan has a product for it: the part of cublasLt.h that the
// runtime uses, declared here so that building needs no CUDA. tests/cuda compares it with that
// header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/objects.h"
#include "runtime/base/status.h"
#include "runtime/cuda/cu_types.h"

namespace rlx::cuda {

using cublasStatus_t = int;
using cublasLtHandle_t = struct cublasLtContext*;
// The library's descriptors are opaque here.
using cublasLtMatmulDesc_t = struct MatmulDesc*;
using cublasLtMatrixLayout_t = struct MatrixLayout*;
using cublasLtMatmulPreference_t = struct MatmulPreference*;

// An algorithm, as the library serialises it for the same version of itself.
struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};

struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

inline constexpr cublasStatus_t CUBLAS_STATUS_SUCCESS = 0;
inline constexpr cublasStatus_t CUBLAS_STATUS_ALLOC_FAILED = 3;
inline constexpr cublasStatus_t CUBLAS_STATUS_NOT_SUPPORTED = 15;

// cudaDataType and cublasComputeType_t.
inline constexpr int CUDA_R_32F = 0;
inline constexpr int CUDA_R_64F = 1;
inline constexpr int CUDA_R_16F = 2;
inline constexpr int CUDA_R_16BF = 14;
inline constexpr int CUBLAS_COMPUTE_32F = 68;
inline constexpr int CUBLAS_COMPUTE_64F = 70;
inline constexpr int CUBLAS_COMPUTE_32F_FAST_TF32 = 77;

// Attributes of products, matrices and preferences.
inline constexpr int CUBLASLT_MATMUL_DESC_TRANSA = 3;
inline constexpr int CUBLASLT_MATMUL_DESC_TRANSB = 4;
inline constexpr int CUBLASLT_MATMUL_DESC_EPILOGUE = 7;
inline constexpr int CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8;
inline constexpr int32_t CUBLAS_OP_N = 0;
inline constexpr int32_t CUBLAS_OP_T = 1;
inline constexpr uint32_t CUBLASLT_EPILOGUE_DEFAULT = 1;
inline constexpr uint32_t CUBLASLT_EPILOGUE_RELU = 2;
inline constexpr uint32_t CUBLASLT_EPILOGUE_BIAS = 4;
inline constexpr uint32_t CUBLASLT_EPILOGUE_GELU = 32;
inline constexpr int CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5;
inline constexpr int CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6;
inline constexpr int CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1;
inline constexpr int CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3;
inline constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5;
inline constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6;
inline constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7;
inline constexpr int CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8;
inline constexpr uint32_t CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2;

struct BlasApi {
#define RLX_BLAS(symbol, result, parameters) result(*symbol) parameters = nullptr;
#include "runtime/cuda/cublaslt_functions.def"
#undef RLX_BLAS
};

// The library with a handle in the current context. Never unloaded.
class BlasLibrary {
 public:
  // Opens the first of `names` that is there, newest first. RLX_UNSUITABLE_DEVICE with the package
  // that has it where none is. What is made with the library is counted in `objects`, which outlive
  // it.
  static Status open(ObjectCounts& objects, std::shared_ptr<const BlasLibrary>& library);
  ~BlasLibrary();
  BlasLibrary(const BlasLibrary&) = delete;
  BlasLibrary& operator=(const BlasLibrary&) = delete;

  // Ok for CUBLAS_STATUS_SUCCESS; otherwise "<what>: <CUBLAS_STATUS_...> (<number>)".
  Status check(cublasStatus_t status, std::string_view what) const;
  // "cuBLASLt 13.0.2"
  [[nodiscard]] std::string text() const;

  [[nodiscard]] ObjectCounts& objects() const { return objects_; }
  template <auto kDestroy, typename Handle>
  void end(Handle handle) const {
    static_cast<void>((api.*kDestroy)(handle));
  }

  BlasApi api;
  cublasLtHandle_t handle = nullptr;

 private:
  explicit BlasLibrary(ObjectCounts& objects) : objects_(objects) {}

  ObjectCounts& objects_;
  CountedObject counted_;
};

// kDestroy is the BlasApi member that ends the descriptor.
template <typename Handle, auto kDestroy>
using OwnedDescriptor = OwnedHandle<const BlasLibrary, Handle, kDestroy, ObjectKind::Descriptor>;

using OwnedProduct = OwnedDescriptor<cublasLtMatmulDesc_t, &BlasApi::cublasLtMatmulDescDestroy>;
using OwnedLayout = OwnedDescriptor<cublasLtMatrixLayout_t, &BlasApi::cublasLtMatrixLayoutDestroy>;
using OwnedPreference =
    OwnedDescriptor<cublasLtMatmulPreference_t, &BlasApi::cublasLtMatmulPreferenceDestroy>;

}  // namespace rlx::cuda
