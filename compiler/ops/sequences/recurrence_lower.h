// SPDX-License-Identifier: Apache-2.0
// Kernels of recurrence.
#pragma once

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

bool lower_recurrence(LowerContext& ctx);

}  // namespace rlx
