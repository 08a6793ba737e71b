// SPDX-License-Identifier: Apache-2.0
// Operators by the words that the reference IR has for them.
#pragma once

#include <string>
#include <string_view>

namespace rlx::reference_ir {

// Of a binary operator's or a comparison's kind; empty: there is none of that name.
std::string_view binary_op(std::string_view kind);
std::string_view compare_op(std::string_view kind);

}  // namespace rlx::reference_ir
