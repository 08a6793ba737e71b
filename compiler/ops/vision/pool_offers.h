// SPDX-License-Identifier: Apache-2.0
// The table of the forms of pooling.
#pragma once

#include <string>
#include <vector>

namespace rlx {

// What may be left out of it (ops/lowering/offers.h).
std::vector<std::string> pool_offer_names();

}  // namespace rlx
