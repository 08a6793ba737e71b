// SPDX-License-Identifier: Apache-2.0
// CUDA's driver library, opened at run time, its entry points as a table, and what its results
// mean.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/cuda/cu_types.h"

namespace rlx::cuda {

struct Api {
#define RLX_CU(symbol, parameters) CUresult(*symbol) parameters = nullptr;
#include "runtime/cuda/cu_functions.def"
#undef RLX_CU
};

// The initialised driver. Never unloaded: the library does not bear it.
struct Driver {
  Api api;
  int version = 0;  // 13000 for CUDA 13.0

  // `library` is a file name or path. RLX_NO_DEVICE where it is missing, with the package that has
  // it, or where the driver finds no GPU; RLX_UNSUITABLE_DEVICE where it is too old.
  static Status open(const std::string& library, std::shared_ptr<const Driver>& driver);
};

// "CUDA 13.0" for 13000.
std::string version_text(int version);

// Ok for CUDA_SUCCESS; otherwise "<what>: <CUDA_ERROR_...> (<number>)" with a code by kind: memory,
// device lost, no device, unsuitable or other.
Status to_status(const Api& api, CUresult result, std::string_view what);

// Results after which a context does nothing any more.
bool means_lost(CUresult result);

}  // namespace rlx::cuda
