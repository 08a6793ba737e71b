// SPDX-License-Identifier: Apache-2.0
// The gradient of one layer of lstm, gru or rnn.
#pragma once

#include "compiler/ops/gradient.h"

namespace rlx {

// Gates are computed anew for all steps at once, from the results; then the steps are taken
// backwards one after the other, and what they give for the weights is one product. Takes fixed
// numbers of steps.
bool recurrence_gradient(GradientContext& ctx);

}  // namespace rlx
