// SPDX-License-Identifier: Apache-2.0
// The parser's tables in the form that all descriptions are made from. Internal to describe.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rlx::tool {

struct OptionRow {
  std::vector<std::string> short_names;  // "o"
  std::vector<std::string> long_names;   // "outputs"
  std::string text;
  std::string argument;  // "FILE"; empty for a flag
};

struct CommandRow {
  std::string name;  // empty: the program itself
  std::string text;
  std::string footer;
  std::vector<std::string> positionals;  // "PLAN"
  std::vector<OptionRow> options;
};

// The program, then its commands.
std::vector<CommandRow> command_rows(const CLI::App& app);

}  // namespace rlx::tool
