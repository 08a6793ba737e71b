// SPDX-License-Identifier: Apache-2.0
// All kernels of a plan: gathered from its programs, compiled in parallel for every target, kept in
// a cache.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/dispatch/target.h"
#include "compiler/emit/code_cache.h"
#include "compiler/emit/kernel_code.h"
#include "compiler/support/diagnostics.h"
#include "schema/plan_header.h"

namespace rlx {

// A program and the target that it was lowered for.
struct TargetProgram {
  const Program* program = nullptr;
  const Target* target = nullptr;
};

// The distinct specializations of several programs, in the order of their first use. One whose code
// differs between profiles of a target is there once for each code.
struct KernelSet {
  struct Kernel {
    Specialization specialization;
    std::vector<std::string> nodes;       // that need it, as `op "node"`, in order
    TargetSet targets = TargetSet::None;  // that need it
    bool native_halves = false;           // Vulkan: KernelCodeOptions::native_halves
  };
  std::vector<Kernel> kernels;
  // Per program, per kernel instance: index into `kernels`; nullopt where no step uses the
  // instance.
  std::vector<std::vector<std::optional<uint32_t>>> index_of_instance;
  TargetSet targets = TargetSet::None;  // of the programs, also where they need no kernel
};
KernelSet gather_kernels(std::span<const TargetProgram> programs);

struct CompileKernelsOptions {
  uint32_t jobs = 0;                        // threads; 0: one per core
  std::optional<std::string> cache_folder;  // none: no cache
  CacheTrust cache_trust = CacheTrust::OnlyOwn;
  std::optional<std::string> kernels_folder;  // sources over the embedded ones
  // CUDA: 90 for sm_90a; empty: the default ones (cuda_architecture.h)
  std::vector<uint32_t> architectures;
  std::optional<std::string> nvrtc;  // library file; none: found as nvrtc.h says
};

struct CompiledKernels {
  // Per kernel of the set its code for each target that needs it: SPIR-V, then cubins in ascending
  // order of architectures, then PTX.
  std::vector<std::vector<KernelCode>> variants;
  PlanCudaTarget cuda{};    // for the plan's header; not present where no program is for CUDA
  uint32_t cache_hits = 0;  // variants
};

// Compiles every kernel; each that fails is one diagnostic naming kernel, nodes and the compiler's
// message, and nullopt where any did. A CUDA kernel whose threads keep registers or arrays in
// memory, without a word in its source why, is a warning (cuda_code.h). The result does not depend
// on jobs or on what the cache holds.
std::optional<CompiledKernels> compile_kernels(const KernelSet& set,
                                               const CompileKernelsOptions& options,
                                               Diagnostics& diagnostics);

}  // namespace rlx
