// SPDX-License-Identifier: Apache-2.0
// What becomes of loops and branches that only the run decides.
#pragma once

#include <cstdint>

namespace rlx {

enum class ControlFlow : uint8_t {
  Auto,      // regions of the plan where they are large enough to be worth it
  Unrolled,  // data flow: loops up to their bounds, branches both
  Regions,   // regions wherever one can be
};

}  // namespace rlx
