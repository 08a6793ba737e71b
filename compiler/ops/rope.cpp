// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/op_def.h"

namespace rlx {

std::span<const OpDef> rope_ops() { return {}; }

}  // namespace rlx
