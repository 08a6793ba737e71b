// SPDX-License-Identifier: Apache-2.0
// Compiled code of one kernel instance, with what the plan records about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compiler/dispatch/program.h"
#include "schema/plan_generated.h"

namespace rlx {

using CodeFormat = fb::CodeFormat;

struct KernelCode {
  CodeFormat format = CodeFormat::SpirV;
  uint32_t architecture = 0;     // CUDA: 90 for sm_90; Vulkan: 0
  std::vector<std::byte> bytes;  // SPIR-V words, an ELF, or text
  std::string entry_point;
  Extent3 workgroup;
  uint32_t shared_bytes = 0;            // static and dynamic
  uint32_t dynamic_shared_bytes = 0;    // CUDA: the part that the launch asks for
  uint32_t cluster_x = 1;               // CUDA: workgroups of a cluster along x
  bool waits_for_predecessors = false;  // CUDA: the code itself waits for the grids before it
  bool runs_together = false;           // CUDA: all workgroups of a grid run at once
  uint64_t features = 0;                // Vulkan: mask of features.def
  uint32_t subgroup_size = 0;           // Vulkan: that the code needs; 0: any
  bool operator==(const KernelCode&) const = default;
};

// Why a kernel did not compile, with the compiler's own lines.
struct KernelFault {
  std::string message;
};

using KernelResult = std::variant<KernelCode, KernelFault>;

struct KernelCodeOptions {
  bool float_controls = true;  // Vulkan: keep NaN, infinities and signed zeros (ops.md 0.9)
  bool optimize = true;
  // Vulkan: floats become halves by the device's conversion (Feature::NativeHalves), not by integer
  // arithmetic.
  bool native_halves = false;
};

}  // namespace rlx
