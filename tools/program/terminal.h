// SPDX-License-Identifier: Apache-2.0
// What programs say on standard error: in colour where a person sees it on a terminal, as plain
// text everywhere else.
#pragma once

#include <string>
#include <string_view>

namespace rlx::tool {

// Whether standard error is a terminal, on which a line may be overwritten.
bool is_on_terminal();

// What is_on_terminal() and the environment leave: no colour where NO_COLOR is set to anything
// (no-color.org), nor where TERM is "dumb".
bool wants_colour();

// A word that says how bad a message is, "error", "warning" or "note", in its colour where it first
// stands before a colon; other texts, and all without `colour`, as they are.
std::string with_severity(std::string text, std::string_view severity, bool colour);

// "rlxc: error: <message>" on standard error.
void say_error(std::string_view program, const std::string& message);

}  // namespace rlx::tool
