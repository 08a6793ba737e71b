// SPDX-License-Identifier: Apache-2.0
// Functions of kernel libraries by name, and which of them are needed.
#include "compiler/emit/needed_functions.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_set>
#include <utility>

namespace rlx {
namespace {

bool is_word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The line that begins at `at`, without its end.
std::string_view line_at(std::string_view text, size_t at) {
  return text.substr(at, std::min(text.find('\n', at), text.size()) - at);
}

size_t next_line(std::string_view text, size_t at) {
  return std::min(text.find('\n', at), text.size() - 1) + 1;
}

// Calls take(word) for every word of a text outside of comments to the end of a line.
template <typename Take>
void for_each_word(std::string_view text, const Take& take) {
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else if (is_word_char(text[at])) {
      size_t end = at;
      while (end < text.size() && is_word_char(text[end])) ++end;
      take(text.substr(at, end - at));
      at = end;
    } else {
      ++at;
    }
  }
}

bool begins_function(std::string_view line) {
  return line.starts_with("RLX_FN ") || line.starts_with("RLX_BIG_FN ");
}

// A function of a text, whole lines of it.
struct Function {
  size_t begin = 0;
  size_t end = 0;
  std::string_view name;
};

// The function whose first line, behind `template`, is at `at`; without a name where there is none
// to be read: a declaration, a name that a macro makes, an operator.
Function function_at(std::string_view text, size_t begin, size_t at) {
  const size_t open = text.find_first_of("(;{", at);
  if (open == std::string_view::npos || text[open] != '(') return {};
  size_t first = open;
  while (first > at && is_word_char(text[first - 1])) --first;
  const std::string_view name = text.substr(first, open - first);
  if (name.empty() || name.starts_with("RLX_")) return {};
  const size_t body = text.find_first_of(";{", open);
  if (body == std::string_view::npos || text[body] != '{') return {};
  const std::string_view line = line_at(text, body);
  const bool is_one_line = std::ranges::count(line, '{') == std::ranges::count(line, '}');
  size_t last = body;
  while (!is_one_line && last < text.size() && text[last] != '}') last = next_line(text, last);
  return {.begin = begin, .end = last < text.size() ? next_line(text, last) : last, .name = name};
}

std::vector<Function> functions_of(std::string_view text) {
  std::vector<Function> functions;
  bool in_macro = false;
  for (size_t at = 0; at < text.size();) {
    const std::string_view line = line_at(text, at);
    const size_t behind = next_line(text, at);
    const size_t signature = line.starts_with("template ") ? behind : at;
    if (!in_macro && begins_function(line_at(text, signature))) {
      const Function function = function_at(text, at, signature);
      if (!function.name.empty()) {
        functions.push_back(function);
        at = function.end;
        continue;
      }
    }
    in_macro = line.ends_with('\\');
    at = behind;
  }
  return functions;
}

// Which functions are needed, from what names them.
class Needs {
 public:
  void add(std::string_view text, const Function& function) {
    bodies_.emplace(function.name, text.substr(function.begin, function.end - function.begin));
  }
  // All that a text names, and all that this names.
  void read(std::string_view text) {
    std::vector<std::string_view> texts = {text};
    while (!texts.empty()) {
      const std::string_view next = texts.back();
      texts.pop_back();
      for_each_word(next, [&](std::string_view word) { name(word, texts); });
    }
  }
  [[nodiscard]] bool contains(std::string_view function) const {
    return needed_.contains(function);
  }

 private:
  using Bodies = std::multimap<std::string_view, std::string_view>;  // overloads share a name

  void name(std::string_view word, std::vector<std::string_view>& texts) {
    if (!words_.insert(word).second) return;
    auto body = bodies_.lower_bound(word);
    const auto is_named = [&](std::string_view function) {
      return word.ends_with('_') ? function.starts_with(word) : function == word;
    };
    for (; body != bodies_.end() && is_named(body->first); ++body) {
      needed_.insert(body->first);
      texts.push_back(body->second);
    }
  }

  Bodies bodies_;
  std::unordered_set<std::string_view> words_;
  std::unordered_set<std::string_view> needed_;
};

// `text` with blank lines for the functions that are not needed.
std::string blanked(std::string_view text, const std::vector<Function>& functions,
                    const Needs& needs) {
  std::string result;
  result.reserve(text.size());
  size_t at = 0;
  for (const Function& function : functions) {
    if (needs.contains(function.name)) continue;
    result += text.substr(at, function.begin - at);
    const std::string_view body = text.substr(function.begin, function.end - function.begin);
    result.append(static_cast<size_t>(std::ranges::count(body, '\n')), '\n');
    at = function.end;
  }
  result += text.substr(at);
  return result;
}

}  // namespace

std::vector<std::string> without_unneeded_functions(
    std::string_view kernel, const std::vector<std::string_view>& libraries) {
  std::vector<std::vector<Function>> functions;
  Needs needs;
  for (const std::string_view library : libraries) {
    functions.push_back(functions_of(library));
    for (const Function& function : functions.back()) needs.add(library, function);
  }
  needs.read(kernel);
  for (size_t i = 0; i < libraries.size(); ++i) {
    size_t at = 0;
    for (const Function& function : functions[i]) {
      needs.read(libraries[i].substr(at, function.begin - at));
      at = function.end;
    }
    needs.read(libraries[i].substr(at));
  }
  std::vector<std::string> results;
  for (size_t i = 0; i < libraries.size(); ++i)
    results.push_back(blanked(libraries[i], functions[i], needs));
  return results;
}

}  // namespace rlx
