// SPDX-License-Identifier: Apache-2.0
// JSON that a caller gives to a template.
#pragma once

#include <string_view>
#include <variant>

#include "runtime/text/jinja_value.h"

namespace rlx::jinja {

// Its value; a sentence with the byte where it is no JSON. Texts are of the caller.
std::variant<Value, std::string> read_json(std::string_view json);

}  // namespace rlx::jinja
