// SPDX-License-Identifier: Apache-2.0
// The CUDA architectures that rlxc compiles for.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace rlx {

struct CudaArchitecture {
  uint32_t number;            // compute capability: 90 for 9.0
  std::string_view name;      // as in --arch and as NVRTC takes it: "sm_90a"
  uint32_t max_shared_bytes;  // of a workgroup, static and dynamic
  bool by_default;
  // Named with an "a": code uses instructions of this architecture alone, so its PTX runs nowhere
  // else.
  [[nodiscard]] bool specific() const { return name.ends_with('a'); }
};

// All of them, ascending. Their code runs on every GPU of compute capability 8.0 and later: a cubin
// runs on its own capability and on later minor ones, PTX on all later ones.
std::span<const CudaArchitecture> all_cuda_architectures();
// nullptr where there is none of that name or number.
const CudaArchitecture* find_cuda_architecture(std::string_view name);
const CudaArchitecture* find_cuda_architecture(uint32_t number);

}  // namespace rlx
