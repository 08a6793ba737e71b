// SPDX-License-Identifier: Apache-2.0
// Unicode's normalisation form C.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rlx {

// UTF-8 in form C; nullopt where it is known without work to be so already.
std::optional<std::string> in_form_c(std::string_view text);

}  // namespace rlx
