// SPDX-License-Identifier: Apache-2.0
// Options that take one of a few names.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace rlx::tool {

template <class Enum>
using Choices = std::vector<std::pair<std::string, Enum>>;

// An option that sets `value` (an enum, or an optional one) to the choice whose name it is given.
// Help shows the names, as do the message for any other one, man page and completions. What stands
// without the option, the text says.
template <class Enum, class Value>
CLI::Option* add_choice(CLI::App& app, const std::string& flag, Value& value,
                        const Choices<Enum>& choices, const std::string& text) {
  std::string names;
  for (const auto& choice : choices) names += (names.empty() ? "" : "|") + choice.first;
  return app
      .add_option_function<std::string>(
          flag,
          [&value, choices, flag, names](const std::string& given) {
            for (const auto& choice : choices) {
              if (choice.first != given) continue;
              value = choice.second;
              return;
            }
            throw CLI::ValidationError(flag + ": \"" + given + "\" is none of " + names);
          },
          text)
      ->type_name(names);
}

}  // namespace rlx::tool
