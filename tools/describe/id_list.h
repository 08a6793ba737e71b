// SPDX-License-Identifier: Apache-2.0
// Options that take ids of tokens.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace rlx::tool {

// An option that sets `ids` to a list as 1,2,3. Refuses, with the place in the list, what is no id:
// nothing between two commas, words, numbers that an int32 does not hold.
CLI::Option* add_id_list(CLI::App& app, const std::string& flag, std::vector<int32_t>& ids,
                         const std::string& text);

}  // namespace rlx::tool
