// SPDX-License-Identifier: Apache-2.0
// A kernel instance to CUDA code: NVRTC compiles, and the facts are read back from the cubin and
// checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "compiler/emit/cuda_architecture.h"
#include "compiler/emit/kernel_code.h"
#include "compiler/emit/kernel_sources.h"
#include "compiler/emit/nvrtc.h"

namespace rlx {

// One kernel for one architecture: machine code, and the portable text that it was assembled from.
struct CudaCode {
  KernelCode cubin;
  KernelCode ptx;
};

// Compiles a kernel under the specialization. Thread-safe. The same arguments give the same machine
// code; NVRTC now and then numbers the registers of a PTX text otherwise.
std::variant<CudaCode, KernelFault> compile_cuda(const Nvrtc& nvrtc,
                                                 const Specialization& specialization,
                                                 const KernelSources& sources,
                                                 const CudaArchitecture& architecture);

// Everything that the result of compile_cuda depends on, as one text: sources with all their
// includes, macros, options, and NVRTC's version. nullopt where the kernel has no source.
std::optional<std::string> cuda_code_inputs(const Nvrtc& nvrtc,
                                            const Specialization& specialization,
                                            const KernelSources& sources,
                                            const CudaArchitecture& architecture);

// Bytes of local memory of each thread of a cubin: spilled registers, and arrays that are indexed
// at run time. 0 where the kernel's source says why it has some, in a comment line that begins
//   // ptxas: spills because
uint32_t unexplained_local_bytes(const KernelCode& cubin, const Specialization& specialization,
                                 const KernelSources& sources);

}  // namespace rlx
