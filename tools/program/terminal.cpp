// SPDX-License-Identifier: Apache-2.0
#include "tools/program/terminal.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rlx::tool {
namespace {

struct SeverityColour {
  std::string_view severity;
  const char* begin;
};

// Bold red, bold magenta, bold cyan: as compilers have them.
constexpr SeverityColour kColours[] = {
    {"error", "\033[1;31m"}, {"warning", "\033[1;35m"}, {"note", "\033[1;36m"}};
constexpr const char* kPlain = "\033[0m";

}  // namespace

bool is_on_terminal() {
  return ::isatty(STDERR_FILENO) != 0;
}

bool wants_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return is_on_terminal() && (no_colour == nullptr || *no_colour == '\0') &&
         (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
}

std::string with_severity(std::string text, std::string_view severity, bool colour) {
  if (!colour) return text;
  for (const SeverityColour& row : kColours) {
    if (row.severity != severity) continue;
    const size_t begin = text.find(std::string(severity) + ": ");
    if (begin == std::string::npos) return text;
    text.insert(begin + severity.size(), kPlain);
    text.insert(begin, row.begin);
  }
  return text;
}

void say_error(std::string_view program, const std::string& message) {
  const std::string text =
      with_severity(std::string(program) + ": error: ", "error", wants_colour()) + message + "\n";
  std::fputs(text.c_str(), stderr);
}

}  // namespace rlx::tool
