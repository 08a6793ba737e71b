// SPDX-License-Identifier: Apache-2.0
#include "tools/describe/tables.h"

#include <CLI/CLI.hpp>

namespace rlx::tool {
namespace {

// "FILE"; without the checks that the parser writes behind it, as in "INT:INT in [0 - 2]".
std::string argument_of(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  const std::string word = name.substr(0, name.find(':'));
  return word.empty() ? "TEXT" : word == "ENUM" ? "NAME" : word;
}

// Options of the command and of the groups in it.
void add_options(const CLI::App& app, CommandRow& row) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() && option->get_snames().empty()) {
      row.positionals.push_back(option->get_name(true));
      continue;
    }
    const bool takes_value = option->get_items_expected_max() > 0;
    row.options.push_back({.short_names = option->get_snames(),
                           .long_names = option->get_lnames(),
                           .text = option->get_description(),
                           .argument = takes_value ? argument_of(*option) : ""});
  }
  for (const CLI::App* group :
       app.get_subcommands([](const CLI::App* inner) { return inner->get_name().empty(); }))
    add_options(*group, row);
}

CommandRow command_row(const CLI::App& app, const std::string& name) {
  CommandRow row{.name = name,
                 .text = app.get_description(),
                 .footer = app.get_footer(),
                 .positionals = {},
                 .options = {}};
  add_options(app, row);
  return row;
}

}  // namespace

std::vector<CommandRow> command_rows(const CLI::App& app) {
  std::vector<CommandRow> rows{command_row(app, "")};
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* inner) { return !inner->get_name().empty(); }))
    rows.push_back(command_row(*command, command->get_name()));
  return rows;
}

}  // namespace rlx::tool
