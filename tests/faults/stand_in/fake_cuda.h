// SPDX-License-Identifier: Apache-2.0
// A CUDA driver without a GPU: memory is the host's, copies and fills are done when somebody waits
// for their stream, graphs are recorded and replayed, and kernels are launched but compute nothing.
// Handles and ranges are checked as a careful driver would.
#pragma once

#include "runtime/cuda/cu_types.h"
#include "runtime/cuda/cublaslt.h"
#include "tests/faults/stand_in/faults.h"

namespace rlx::cuda {

// One function for each that the runtime calls.
struct FakeCuda {
#define RLX_CU(symbol, parameters) static CUresult symbol parameters;
#include "runtime/cuda/cu_functions.def"
#undef RLX_CU
#define RLX_BLAS(symbol, result, parameters) static result symbol parameters;
#include "runtime/cuda/cublaslt_functions.def"
#undef RLX_BLAS
};

// Does all work that was put on a stream.
void finish_fake_work();

}  // namespace rlx::cuda
