// SPDX-License-Identifier: Apache-2.0
// The table of the forms of pooling, and the gradient of its maximum.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// What may be left out of it (ops/lowering/offers.h).
std::vector<std::string> pool_offer_names();

// Emits max_pool_backward(x, dy) without indices: each pixel asks the windows that read it whether
// it is their first maximum. Takes any layout.
bool lower_max_pool_gradient(LowerContext& ctx, const Window& window);

}  // namespace rlx
