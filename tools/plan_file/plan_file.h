// SPDX-License-Identifier: Apache-2.0
// A plan written anew with another section.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

// The same with any section, which is added where the plan has none of that kind. A signature is
// left out: it was of the old plan.
Status write_with_section(const std::string& from, uint32_t kind,
                          std::span<const std::byte> section, const std::string& to);

// Makes a section of a known size for a plan whose header page is otherwise as it will be: its own
// checksum and that of the section are not in it.
using MakeSection =
    std::function<Status(std::span<const std::byte> page, std::vector<std::byte>& section)>;
// The same with a section that depends on the header.
Status write_with_made_section(const std::string& from, uint32_t kind, uint64_t size_bytes,
                               const MakeSection& make, const std::string& to);

// The bytes of the plan's section of that kind, its checksum checked; none where it has none, or
// where it has more than `most_bytes`, which is an error.
Status read_section(const std::string& path, uint32_t kind, uint64_t most_bytes,
                    std::vector<std::byte>& section);

}  // namespace rlx
