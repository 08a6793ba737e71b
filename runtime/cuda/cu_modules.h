// SPDX-License-Identifier: Apache-2.0
// Which code of a plan runs on a device, and that code loaded.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/cuda/cu_context.h"
#include "runtime/plan/plan_view.h"

namespace rlx::cuda {

// The variant of a kernel that runs best on an architecture (90 for compute capability 9.0): the
// cubin for the nearest minor version of the same major one that is not newer, else the newest PTX
// that is not newer. Null where there is neither.
const fb::Variant* choose_variant(const fb::Kernel& kernel, uint32_t architecture);

// "sm_90 cubin", "PTX for sm_80, compiled by the driver"
std::string variant_text(const fb::Variant& variant);

// The dynamic shared memory with which a workgroup that asks for `shared_bytes`, `dynamic_bytes` of
// them dynamic, leaves no room for another one on a multiprocessor, which has
// `multiprocessor_bytes`, of which a workgroup can have `most_bytes`; 0 where it needs no more, or
// cannot have it.
uint32_t alone_shared_bytes(uint32_t shared_bytes, uint32_t dynamic_bytes,
                            uint32_t multiprocessor_bytes, uint32_t most_bytes);

// A kernel and how it is launched.
struct LoadedKernel {
  CUfunction function = nullptr;  // null where no step uses the kernel
  const fb::Variant* variant = nullptr;
  std::string text;  // variant_text
  // Of a variant that runs together: the most workgroups of a grid that the device has room for.
  uint64_t most_together = 0;
  // As above; 0 where the kernel takes little, or never starts while others run.
  uint32_t alone_shared_bytes = 0;
};

// One module for each distinct piece of code, and each kernel that a step of the plan dispatches.
class ModuleSet {
 public:
  // Loads with `jobs` threads, 0: one per core. The context need not be current.
  static Status create(Context& context, const PlanView& plan, uint32_t jobs, ModuleSet& set);
  [[nodiscard]] const LoadedKernel& at(uint32_t kernel) const { return kernels_[kernel]; }

 private:
  Status load(Context& context, const PlanView& plan, uint32_t kernel, OwnedModule& module);

  std::vector<OwnedModule> modules_;
  std::vector<LoadedKernel> kernels_;  // by kernel index
};

}  // namespace rlx::cuda
