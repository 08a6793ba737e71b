// SPDX-License-Identifier: Apache-2.0
// The flags, and the man page.
#include "tools/describe/describe.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "tools/describe/tables.h"

namespace rlx::tool {
namespace {

// Words as troff takes them for themselves.
std::string troff_text(const std::string& words) {
  std::string text;
  for (const char c : words) {
    if (c == '\\') {
      text += "\\e";
    } else if (c == '-') {
      text += "\\-";
    } else if (c == '\n') {
      text += "\n.br\n";
    } else {
      // A line that begins with one of these would be a command.
      const bool begins_line = text.empty() || text.back() == '\n';
      text += begins_line && (c == '.' || c == '\'') ? std::string("\\&") + c : std::string(1, c);
    }
  }
  return text;
}

std::string option_names(const OptionRow& option) {
  std::string names;
  for (const std::string& name : option.short_names)
    names += (names.empty() ? "" : ", ") + std::string("-") + name;
  for (const std::string& name : option.long_names)
    names += (names.empty() ? "" : ", ") + std::string("--") + name;
  return names;
}

std::string options_page(const CommandRow& command) {
  std::string page;
  for (const OptionRow& option : command.options) {
    page += ".TP\n\\fB" + troff_text(option_names(option)) + "\\fR";
    if (!option.argument.empty()) page += " \\fI" + troff_text(option.argument) + "\\fR";
    page += "\n" + troff_text(option.text) + "\n";
  }
  return page;
}

std::string synopsis(const std::string& program, const CommandRow& command) {
  std::string line = ".B " + program;
  if (!command.name.empty()) line += " " + troff_text(command.name);
  line += "\n";
  for (const std::string& positional : command.positionals)
    line += ".I " + troff_text(positional) + "\n";
  return line + "[options]\n.br\n";
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

}  // namespace

std::string man_page(const CLI::App& app) {
  const std::string& program = app.get_name();
  const std::vector<CommandRow> commands = command_rows(app);
  std::string page = ".TH " + upper_case(program) + " 1\n.SH NAME\n" + troff_text(program) +
                     " \\- " + troff_text(commands[0].text) + "\n.SH SYNOPSIS\n";
  for (const CommandRow& command : commands) page += synopsis(program, command);
  page += ".SH OPTIONS\n" + options_page(commands[0]);
  if (commands.size() > 1) page += ".SH COMMANDS\n";
  for (size_t i = 1; i < commands.size(); ++i) {
    page += ".SS " + troff_text(program + " " + commands[i].name) + "\n" +
            troff_text(commands[i].text) + "\n" + options_page(commands[i]);
    if (!commands[i].footer.empty()) page += ".PP\n" + troff_text(commands[i].footer) + "\n";
  }
  if (!commands[0].footer.empty())
    page += ".SH EXIT CODES AND EXAMPLES\n" + troff_text(commands[0].footer) + "\n";
  return page;
}

void add_describe_flags(CLI::App& app) {
  static constexpr const char* kShells[] = {"bash", "zsh", "fish"};
  app.add_option_function<std::string>(
         "--completion",
         [&app](const std::string& name) {
           for (size_t i = 0; i < std::size(kShells); ++i) {
             if (name != kShells[i]) continue;
             std::fputs(completions(app, static_cast<Shell>(i)).c_str(), stdout);
             throw CLI::Success();
           }
           throw CLI::ValidationError("--completion: \"" + name + "\" is not bash, zsh or fish");
         },
         "Print what makes a shell complete this program's commands and options: bash, zsh or "
         "fish")
      ->type_name("SHELL")
      ->trigger_on_parse();
  app.add_flag_callback(
         "--man",
         [&app] {
           std::fputs(man_page(app).c_str(), stdout);
           throw CLI::Success();
         },
         "Print this program's man page")
      ->trigger_on_parse();
}

void refuse_empty_values(CLI::App& app, std::span<const std::string_view> texts) {
  for (CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (std::ranges::find(texts, name) != texts.end()) continue;
    const bool is_real = option->get_type_name().starts_with("FLOAT");
    const auto fault = [is_real](const std::string& value) {
      if (value.empty()) return std::string("the value is empty");
      const bool is_nan = is_real && std::isnan(std::strtod(value.c_str(), nullptr));
      return is_nan ? "\"" + value + "\" is no number" : std::string();
    };
    option->check(CLI::Validator(fault, ""));
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command, texts);
}

}  // namespace rlx::tool
