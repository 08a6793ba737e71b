// SPDX-License-Identifier: Apache-2.0
// Whether a free size is largest where its symbols are.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/support/dim.h"

namespace rlx {

// A number that the size is at some values of its symbols and that exceeds its bound; nullopt where
// it never does, or at none of about a thousand values that were tried.
std::optional<int64_t> value_above_bound(const Dim& size);

}  // namespace rlx
