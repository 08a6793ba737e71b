// SPDX-License-Identifier: Apache-2.0
// Structural verification of .rlxg bytes before anything is read from them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace rlx {

// Checks every offset, vector and string of a graph flatbuffer whose identifier was seen. Returns
// where the fault is
// ("entries/0/nodes/3", empty for the root), or nullopt where the generated accessors may be used.
// Takes time linear in the size of the file, also where a hostile file refers to one vector many
// times.
std::optional<std::string> find_rlxg_fault(std::span<const std::byte> bytes);

}  // namespace rlx
