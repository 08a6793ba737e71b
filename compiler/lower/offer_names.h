// SPDX-License-Identifier: Apache-2.0
// The kernels among which lowerings choose, by name.
#pragma once

#include <string>
#include <vector>

namespace rlx {

// The rows of every family's table (ops/lowering/offers.h) as the user may leave them out: kernels
// with all their forms, and what else computes. Sorted, each once.
std::vector<std::string> all_offer_names();

}  // namespace rlx
