// SPDX-License-Identifier: Apache-2.0
// How far a value of a whole model may lie from the exact one.
#pragma once

#include <cstdint>
#include <string_view>

#include "tools/npy/npy.h"
#include "tools/rlxrun/compare.h"

namespace rlx::tool {

// A share of each element, and the same share of the root mean square of all: wide for narrow
// types, and for those that products are computed in, as the plan's precision ("f32", "tf32", ..)
// says. 0 and 0 of what is no float.
Tolerances usual_bound(uint32_t dtype, std::string_view precision, const npy::Array& expected);

}  // namespace rlx::tool
