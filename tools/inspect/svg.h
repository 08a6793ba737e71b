// SPDX-License-Identifier: Apache-2.0
// What drawings are written with. Internal to inspect.
#pragma once

#include <string>
#include <string_view>

namespace rlx::inspect {

// Text as XML holds it; what XML lacks is shown as "?".
std::string escaped(std::string_view text);
// " width=\"12.000\""
std::string attribute(std::string_view name, double value);
// A line of text and a newline; `anchor` is "start" or "end".
std::string text_at(double x, double y, std::string_view anchor, const std::string& text);

}  // namespace rlx::inspect
