// SPDX-License-Identifier: Apache-2.0
// The debug section of a plan.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/emit/plan_content.h"

namespace rlx {

// A note per step, the choices of kernels and the pass log.
std::vector<std::byte> build_debug_section(const PlanContent& content);

}  // namespace rlx
