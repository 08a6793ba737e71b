// SPDX-License-Identifier: Apache-2.0
// A program's options told to shells and to man: from the parser's own tables, so that nothing is
// forgotten.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace rlx::tool {

enum class Shell : uint8_t { Bash, Zsh, Fish };

// What the shell sources to complete the program's commands, options and files.
std::string completions(const CLI::App& app, Shell shell);
// The program's page of section 1, as troff.
std::string man_page(const CLI::App& app);

// Adds --completion bash|zsh|fish and --man. Either prints its text while the command line is
// parsed and ends the parsing as --help does, with a CLI::ParseError of exit code 0.
void add_describe_flags(CLI::App& app);

// Refuses values that say nothing, once all options are there: NaN, which is in no range and out of
// none, and empty ones, which CLI11 takes for 0, of all options but `texts`.
void refuse_empty_values(CLI::App& app, std::span<const std::string_view> texts);

}  // namespace rlx::tool
