// SPDX-License-Identifier: Apache-2.0
// A plan written anew with another index.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace rlx::tune {

// Writes the plan at `from` to `to` with this index in the place of its own; all other sections
// keep their bytes. The new plan is verified before it appears at `to`, which is written as
// runtime/base/output_file.h says. `to` may be `from`.
Status write_with_index(const std::string& from, std::span<const std::byte> index,
                        const std::string& to);

}  // namespace rlx::tune
