// SPDX-License-Identifier: Apache-2.0
// The table of targets.
#include "compiler/dispatch/target.h"

#include <array>

namespace rlx {
namespace {

// Measured on an H200 (driver 580); see tests/bench/results. Shared memory: the 32 KiB that every
// Vulkan 1.3 desktop device has, NVIDIA's 48, and what a workgroup may ask for on the smallest
// listed CUDA architecture (sm_86: 99 KiB).
constexpr std::array kTargets = {
    Target{.kind = TargetKind::Vulkan,
           .name = "vulkan",
           .device = {.multiprocessors = 132,
                      .shared_bytes = 32 * 1024,
                      .memory_gigabytes_per_second = 4270,
                      .step_microseconds = 1.84},
           .library_gemm = false,
           .cooperative_matrices = false,
           .native_halves = false},
    Target{.kind = TargetKind::Vulkan,
           .name = "vulkan-nvidia",
           .device = {.multiprocessors = 132,
                      .shared_bytes = 48 * 1024,
                      .memory_gigabytes_per_second = 4270,
                      .step_microseconds = 1.84},
           .library_gemm = false,
           .cooperative_matrices = true,
           .native_halves = true},
    Target{.kind = TargetKind::Cuda,
           .name = "cuda",
           .device = {.multiprocessors = 132,
                      .shared_bytes = 99 * 1024,
                      .memory_gigabytes_per_second = 4270,
                      .step_microseconds = 0.83},
           .library_gemm = true,
           .cooperative_matrices = false,
           .native_halves = false},
};

}  // namespace

bool Target::has(TargetFeature feature) const {
  switch (feature) {
    case TargetFeature::Nothing:
      return true;
    case TargetFeature::CooperativeMatrices:
      return cooperative_matrices;
  }
  return false;
}

bool Target::offers(KernelId kernel) const {
  const KernelRow& row = kernel_row(kernel);
  return contains(row.targets, kind) && has(row.needs);
}

std::span<const Target> all_targets() {
  return kTargets;
}

const Target* find_target(std::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

}  // namespace rlx
