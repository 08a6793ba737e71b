// SPDX-License-Identifier: Apache-2.0
// A plan written anew with another section.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace rlx {

// Writes the plan at `from` to `to` with this index in the place of its own; all other sections
// keep their bytes. The new plan is verified before it appears at `to`, which is written as
// runtime/base/output_file.h says. `to` may be `from`.
Status write_with_index(const std::string& from, std::span<const std::byte> index,
                        const std::string& to);

// The same with any section, which is added where the plan has none of that kind.
Status write_with_section(const std::string& from, uint32_t kind,
                          std::span<const std::byte> section, const std::string& to);

// The bytes of the plan's section of that kind, its checksum checked; none where it has none, or
// where it has more than `most_bytes`, which is an error.
Status read_section(const std::string& path, uint32_t kind, uint64_t most_bytes,
                    std::vector<std::byte>& section);

}  // namespace rlx
