// SPDX-License-Identifier: Apache-2.0
// A region's loads, calls and stores as text of the kernel.
#pragma once

#include <string>

#include "compiler/ops/lowering/region_plan.h"

namespace rlx {

// Of RLX_INDEX, and a number of that type.
std::string index_type(const RegionPlan& plan);
std::string index_number(const RegionPlan& plan, const Dim& size);
// Statements for one item: the coordinates, the loads, the element's value, the stores.
std::string item_text(const RegionPlan& plan);
// The function of one element that they call.
std::string element_function(const Region& region);

}  // namespace rlx
