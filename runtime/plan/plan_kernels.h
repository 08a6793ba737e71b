// SPDX-License-Identifier: Apache-2.0
// Which kernels of a plan a target runs, and what messages call them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/plan_view.h"

namespace rlx {

// Kernels that some step of the target's entries dispatches, init's too, ascending.
std::vector<uint32_t> used_kernels(const PlanView& plan, fb::TargetKind target);

// kernel "softmax" (block 256)
std::string kernel_text(const fb::Kernel& kernel);

}  // namespace rlx
