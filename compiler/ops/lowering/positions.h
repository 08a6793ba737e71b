// SPDX-License-Identifier: Apache-2.0
// Elementwise ops whose element depends on where in the result it stands. Such a step of a region
// has the region's own shape, and only the region kernel computes it.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>

#include "compiler/ir/attributes.h"

namespace rlx {

bool is_positional(std::string_view op);
// A positional op that takes an element's operand for an index, and counts those that lie outside
// in the local kOutsideName.
bool reads_index(std::string_view op);
inline constexpr std::string_view kOutsideName = "outside";
// A positional op that calls lib/philox.
bool draws_random(std::string_view op);
// The axes of the result, counted from its end (1 is the last), whose coordinates an element of the
// op reads, as coordinate_name() of region_codegen.h says; none where the op is not positional.
std::set<uint32_t> positions_read(std::string_view op, const Attributes& attributes);

}  // namespace rlx
