// SPDX-License-Identifier: Apache-2.0
// All kernels of a plan: gathered from its programs, compiled in parallel, kept in a cache.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/emit/kernel_code.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// The distinct specializations of several programs, in the order of their first use.
struct KernelSet {
  struct Kernel {
    Specialization specialization;
    std::vector<std::string> nodes;  // that need it, as `op "node"`, in order
  };
  std::vector<Kernel> kernels;
  // Per program, per kernel instance: index into `kernels`; nullopt where no step uses the
  // instance.
  std::vector<std::vector<std::optional<uint32_t>>> index_of_instance;
};
KernelSet gather_kernels(std::span<const Program* const> programs);

struct CompileKernelsOptions {
  uint32_t jobs = 0;                          // threads; 0: one per core
  std::optional<std::string> cache_folder;    // none: no cache
  std::optional<std::string> kernels_folder;  // sources over the embedded ones
  KernelCodeOptions code;
};

struct CompiledKernels {
  std::vector<KernelCode> codes;  // of the kernels of the set, in their order
  uint32_t cache_hits = 0;
};

// Compiles every kernel; each that fails is one diagnostic naming kernel, nodes and the compiler's
// message. nullopt where any did. The result does not depend on jobs or on what the cache holds.
std::optional<CompiledKernels> compile_kernels(const KernelSet& set,
                                               const CompileKernelsOptions& options,
                                               Diagnostics& diagnostics);

}  // namespace rlx
