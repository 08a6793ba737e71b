// SPDX-License-Identifier: Apache-2.0
// Sizes that a run may have only where another number is large enough.
#pragma once

#include "compiler/support/dim.h"

namespace rlx {

// `size`, equal to it and as fixed as it, but a run at which `needs` is less than `least` is
// refused: the expression has no value there. For what a shape alone does not show, as a window
// that must lie in its image although there is one result for all sizes. `needs` may reach `least`
// at some value of its symbols.
Dim required_at_least(const Dim& size, const Dim& needs, const Dim& least);
// Whether required_at_least() made it, or a size in it.
bool has_requirement(const Dim& size);

}  // namespace rlx
