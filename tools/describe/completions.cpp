// SPDX-License-Identifier: Apache-2.0
// The same tables for three shells.
#include <CLI/CLI.hpp>

#include "tools/describe/describe.h"
#include "tools/describe/tables.h"

namespace rlx::tool {
namespace {

// Between single quotes, as bash and zsh read them.
std::string quoted_text(const std::string& words) {
  std::string text = "'";
  for (const char c : words) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string all_names(const CommandRow& command) {
  std::string words;
  for (const OptionRow& option : command.options) {
    for (const std::string& name : option.long_names) words += " --" + name;
    for (const std::string& name : option.short_names) words += " -" + name;
  }
  return words;
}

// "convert|inspect": the commands as a pattern of a case.
std::string command_pattern(const std::vector<CommandRow>& commands, const char* between) {
  std::string pattern;
  for (size_t i = 1; i < commands.size(); ++i)
    pattern += (i == 1 ? "" : between) + commands[i].name;
  return pattern;
}

std::string bash_completions(const std::string& program, const std::vector<CommandRow>& commands) {
  std::string text = "# Completions of " + program + " for bash.\n_" + program +
                     "() {\n  local current=${COMP_WORDS[COMP_CWORD]} command= word options\n";
  if (commands.size() > 1) {
    text += "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case $word in\n      " +
            command_pattern(commands, "|") + ") command=$word; break ;;\n    esac\n  done\n";
  }
  text += "  case $command in\n";
  for (size_t i = 1; i < commands.size(); ++i)
    text +=
        "    " + commands[i].name + ") options=" + quoted_text(all_names(commands[i])) + " ;;\n";
  text += "    *) options=" + quoted_text(all_names(commands[0])) + " ;;\n  esac\n";
  text +=
      "  if [[ $current == -* ]]; then\n    COMPREPLY=($(compgen -W \"$options\" -- "
      "\"$current\"))\n    return\n  fi\n  COMPREPLY=($(compgen -f -- \"$current\"))\n";
  if (commands.size() > 1) {
    text += "  [[ -n $command ]] || COMPREPLY+=($(compgen -W " +
            quoted_text(command_pattern(commands, " ")) + " -- \"$current\"))\n";
  }
  return text + "}\ncomplete -o filenames -F _" + program + " " + program + "\n";
}

// A specification of zsh's _arguments: '--name=[text]:FILE:_files'.
std::string zsh_rows(const CommandRow& command, const std::string& indent) {
  std::string text;
  for (const OptionRow& option : command.options) {
    std::string words;
    for (const char c : option.text) {
      if (c == '[' || c == ']' || c == ':' || c == '\\') words += '\\';
      words += c;
    }
    const std::string tail = "[" + words + "]" + (option.argument.empty() ? "" : ":value:_files");
    for (const std::string& name : option.long_names)
      text += indent + quoted_text("*--" + name + (option.argument.empty() ? "" : "=") + tail) +
              " \\\n";
    for (const std::string& name : option.short_names)
      text += indent + quoted_text("*-" + name + tail) + " \\\n";
  }
  return text;
}

std::string zsh_completions(const std::string& program, const std::vector<CommandRow>& commands) {
  std::string text = "#compdef " + program + "\n_" + program + "() {\n  local command= word\n";
  if (commands.size() > 1) {
    text += "  for word in ${words[2,CURRENT-1]}; do\n    case $word in\n      (" +
            command_pattern(commands, "|") + ") command=$word; break ;;\n    esac\n  done\n";
  }
  text += "  case $command in\n";
  for (size_t i = 1; i < commands.size(); ++i) {
    text += "    (" + commands[i].name + ")\n      _arguments \\\n" +
            zsh_rows(commands[i], "        ") + "        '*:file:_files' ;;\n";
  }
  text += "    (*)\n";
  if (commands.size() > 1) text += "      compadd -- " + command_pattern(commands, " ") + "\n";
  text += "      _arguments \\\n" + zsh_rows(commands[0], "        ") +
          "        '*:file:_files' ;;\n  esac\n}\n";
  return text + "_" + program + " \"$@\"\n";
}

std::string fish_text(const std::string& words) {
  std::string text = "'";
  for (const char c : words) {
    if (c == '\'' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text + "'";
}

std::string fish_completions(const std::string& program, const std::vector<CommandRow>& commands) {
  std::string text = "# Completions of " + program + " for fish.\n";
  for (size_t i = 1; i < commands.size(); ++i) {
    text += "complete -c " + program + " -n __fish_use_subcommand -a " + commands[i].name + " -d " +
            fish_text(commands[i].text) + "\n";
  }
  for (const CommandRow& command : commands) {
    std::string head = "complete -c " + program;
    if (!command.name.empty()) {
      head += " -n '__fish_seen_subcommand_from " + command.name + "'";
    } else if (commands.size() > 1) {
      head += " -n __fish_use_subcommand";
    }
    for (const OptionRow& option : command.options) {
      text += head;
      for (const std::string& name : option.long_names) text += " -l " + name;
      for (const std::string& name : option.short_names)
        text += (name.size() == 1 ? " -s " : " -o ") + name;
      text += (option.argument.empty() ? "" : " -r") + std::string(" -d ") +
              fish_text(option.text) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string completions(const CLI::App& app, Shell shell) {
  const std::vector<CommandRow> commands = command_rows(app);
  switch (shell) {
    case Shell::Bash:
      return bash_completions(app.get_name(), commands);
    case Shell::Zsh:
      return zsh_completions(app.get_name(), commands);
    case Shell::Fish:
      return fish_completions(app.get_name(), commands);
  }
  return {};
}

}  // namespace rlx::tool
