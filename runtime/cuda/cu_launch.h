// SPDX-License-Identifier: Apache-2.0
// A step as the driver takes it: what a node of a graph and a launch on a stream have in common.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cuda/cu_context.h"
#include "runtime/cuda/cu_gemm.h"
#include "runtime/cuda/cu_maps.h"
#include "runtime/cuda/cu_modules.h"
#include "runtime/cuda/cu_region.h"
#include "runtime/plan/plan_view.h"

namespace rlx::cuda {

// An entry whose values have addresses, by value index.
struct LinkedEntry {
  const fb::Entry* entry = nullptr;
  std::vector<CUdeviceptr> addresses;

  // Where the bytes of a relocation begin.
  [[nodiscard]] CUdeviceptr address(const fb::Relocation& relocation) const {
    return addresses[relocation.value()] + relocation.offset_bytes();
  }
};

// What steps are made of.
struct StepCode {
  Context& context;
  const PlanView& plan;
  const ModuleSet& modules;
  const GemmSet& gemms;
  const RegionKernel& region_kernel;
};

// There are clusters, and grids that begin before their predecessors' ends; code for older
// architectures is right without.
bool has_clusters(uint32_t architecture);

// A dispatch with its kernel's parameters: the step's blob with its pointers patched, and their
// tensor maps.
class KernelLaunch {
 public:
  explicit KernelLaunch(const LoadedKernel& kernel) : kernel_(kernel) {}
  KernelLaunch(const KernelLaunch&) = delete;
  KernelLaunch& operator=(const KernelLaunch&) = delete;

  Status link(const StepCode& code, const LinkedEntry& linked, const fb::Step& step);

  // What it points to lives as long as this.
  [[nodiscard]] const CUDA_KERNEL_NODE_PARAMS& node() const { return node_; }
  [[nodiscard]] const fb::Variant& variant() const { return *kernel_.variant; }
  // All workgroups must run at once. A grid of such code that the device has no room for has one
  // workgroup along x, which does the work of the others (cuda_kernels/lib/prelude.inc).
  [[nodiscard]] bool runs_together() const { return runs_together_; }
  // How many workgroups along x make a cluster; 1 where the device has no such.
  [[nodiscard]] uint32_t cluster(const Context& context) const;

  // For a kernel that starts while the one before it runs: gives each workgroup a multiprocessor
  // of its own where there are as many. Otherwise they share those few that are free by then.
  void spread(const Context& context);

 private:
  const LoadedKernel& kernel_;
  bool runs_together_ = false;
  alignas(16) std::array<std::byte, kMaxParamsBytes> params_;
  TensorMaps maps_{};
  std::array<void*, 2> arguments_ = {params_.data(), maps_.data()};
  CUDA_KERNEL_NODE_PARAMS node_{};
};

// Whether so many workgroups find a multiprocessor each. Clusters lie within groups of some 16
// multiprocessors, and leave the rest of these empty.
bool fit_one_each(uint64_t workgroups, uint32_t cluster, uint32_t multiprocessors);

// A kernel that waits by itself may start while the only kernel before it still runs; not one whose
// workgroups all need their place at once.
bool may_start_early(const Context& context, const KernelLaunch& launch);

CUDA_MEMCPY3D copy_of(const LinkedEntry& linked, const fb::Step& step);
CUDA_MEMSET_NODE_PARAMS fill_of(const LinkedEntry& linked, const fb::Step& step);
// Whether a copy or fill has nothing to do: a graph cannot hold it.
bool is_empty(const LinkedEntry& linked, const fb::Step& step);

// Whether launch_steps() can run the entry: it has no loops or branches, which graphs alone have.
bool can_launch_steps(const fb::Entry& entry);
// Puts the steps on the stream, one behind the other. The context is current. Allocates nothing.
Status launch_steps(const StepCode& code, const LinkedEntry& linked, CUstream stream);

}  // namespace rlx::cuda
