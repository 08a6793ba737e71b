// SPDX-License-Identifier: Apache-2.0
// What a language model's text section will not do, told while its plan is made.
#pragma once

#include <cstddef>
#include <span>

#include "compiler/support/diagnostics.h"

namespace rlx {

// An error where tokens do not hold together; a warning for every construct of a chat template that
// rlx_text does not know: the plan runs, its conversations may be refused. Nothing for no bytes.
void check_text(std::span<const std::byte> section, const SourcePlace& place,
                Diagnostics& diagnostics);

}  // namespace rlx
