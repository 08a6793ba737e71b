// SPDX-License-Identifier: Apache-2.0
// Whether a size grows with its symbols.
#pragma once

#include "compiler/support/dim.h"

namespace rlx {

// Whether a symbol that grows never makes the size smaller, as far as the expression shows.
bool grows_only(const Dim& size);

}  // namespace rlx
