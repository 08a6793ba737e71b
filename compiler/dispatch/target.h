// SPDX-License-Identifier: Apache-2.0
// What the compiler compiles for. Passes and lowerings see what a target offers, never which it is:
// the name is for messages, the kind for emit and the plan.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/dispatch/device_model.h"
#include "compiler/dispatch/program.h"

namespace rlx {

// Targets of one kind are profiles of its devices; a plan holds one or several.
struct Target {
  TargetKind kind;
  std::string_view name;  // as in --target
  DeviceModel device;
  bool library_gemm;          // replays LibraryGemm steps
  bool cooperative_matrices;  // Feature::CooperativeMatrix and CooperativeBf16 of features.def
  bool known_fragments;       // a thread's elements of a matrix lie as shaders/README.md says
  bool native_halves;         // Feature::NativeHalves

  [[nodiscard]] bool has(TargetFeature feature) const;
  // True where the target has a source for the kernel, and what the kernel needs.
  [[nodiscard]] bool offers(KernelId kernel) const;
};

// Every target, in the order of TargetKind; of one kind the one with the fewest needs first.
std::span<const Target> all_targets();
// nullptr where there is none of that name.
const Target* find_target(std::string_view name);

}  // namespace rlx
