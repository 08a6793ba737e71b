// SPDX-License-Identifier: Apache-2.0
// The table of targets.
#include "compiler/dispatch/target.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "compiler/dispatch/device_models.h"
#include "compiler/dispatch/target_devices.h"

namespace rlx {
namespace {

constexpr std::array kTargets = {
    Target{.kind = TargetKind::Vulkan,
           .name = "vulkan",
           .device = kH200Vulkan,
           .library_gemm = false,
           .cooperative_matrices = false,
           .known_fragments = false,
           .native_halves = false},
    Target{.kind = TargetKind::Vulkan,
           .name = "vulkan-khr-coop",
           .device = kH200VulkanCoop,
           .library_gemm = false,
           .cooperative_matrices = true,
           .known_fragments = false,
           .native_halves = false},
    Target{.kind = TargetKind::Vulkan,
           .name = "vulkan-nvidia",
           .device = kH200VulkanCoop,
           .library_gemm = false,
           .cooperative_matrices = true,
           .known_fragments = true,
           .native_halves = true},
    Target{.kind = TargetKind::Vulkan,
           .name = "vulkan-cpu",
           .device = kLavapipe,
           .library_gemm = false,
           .cooperative_matrices = false,
           .known_fragments = false,
           .native_halves = false},
    Target{.kind = TargetKind::Cuda,
           .name = "cuda",
           .device = kH200Cuda,
           .library_gemm = true,
           .cooperative_matrices = false,
           .known_fragments = false,
           .native_halves = false},
};

// The others are for any device.
constexpr std::string_view kForProcessors[] = {"vulkan-cpu"};

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

DeviceType made_for(const Target& target) {
  const bool is_for_processors =
      std::ranges::find(kForProcessors, target.name) != std::end(kForProcessors);
  return is_for_processors ? DeviceType::Processor : DeviceType::Any;
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
