// SPDX-License-Identifier: Apache-2.0
// Unicode's normalisation forms C and D.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rlx {

// UTF-8 in form C; nullopt where it is known without work to be so already.
std::optional<std::string> in_form_c(std::string_view text);

// UTF-8 in form D.
std::string in_form_d(std::string_view text);

}  // namespace rlx
