// SPDX-License-Identifier: Apache-2.0
// Names in graph files: what a legal one is, and the nearest one to a misspelt one.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

// Why a text is not legal (too long, not UTF-8, a control character), as the end of a sentence
// about it; nullopt if it is.
std::optional<std::string> text_fault(std::string_view text, size_t max_bytes);
// The same for a name: not empty, at most kMaxNameBytes.
std::optional<std::string> name_fault(std::string_view name);

// A name or path in a message: in quotes, shortened, made printable.
std::string in_quotes(std::string_view text);

// The candidate with the fewest edits to `name`; nullopt where none is near.
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string_view> candidates);
// `did you mean "x"?`, or empty.
std::string nearest_hint(std::string_view name, std::span<const std::string_view> candidates);

// `"a", "b", "c"`, at most 20 of them.
std::string list_names(std::span<const std::string_view> names);

}  // namespace rlx
