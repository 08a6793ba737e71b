// SPDX-License-Identifier: Apache-2.0
// Legal names, edit distance, and lists of names for messages.
#include "compiler/import/names.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "compiler/import/source_graph.h"
#include "compiler/support/utf8.h"
#include "schema/control_characters.h"

namespace rlx {
namespace {

constexpr size_t kMaxListedNames = 20;
constexpr size_t kMaxQuotedNameBytes = 256;

// Edits (insert, delete, replace, swap of neighbours) between two short texts, or `limit` if there
// are as many or more.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  const size_t difference = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  if (difference >= limit) return limit;
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) current[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, current);
    current[0] = i;
    size_t best = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_last[j - 2] + 1);
      }
      best = std::min(best, current[j]);
    }
    if (best >= limit) return limit;
  }
  return std::min(current[b.size()], limit);
}

}  // namespace

std::optional<std::string> text_fault(std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) {
    return "is " + std::to_string(text.size()) + " bytes long, at most " +
           std::to_string(max_bytes) + " are allowed";
  }
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_character_bytes(text.substr(i));
    if (length == 0) return "is not valid UTF-8 at byte " + std::to_string(i);
    if (is_control_character(code_point_of(text.substr(i, length)))) {
      return "holds a control character at byte " + std::to_string(i);
    }
    i += length;
  }
  return std::nullopt;
}

std::optional<std::string> name_fault(std::string_view name) {
  if (name.empty()) return "is empty";
  return text_fault(name, kMaxQuotedNameBytes);
}

std::string in_quotes(std::string_view text) {
  const std::string shown = without_controls(text.substr(0, kMaxQuotedNameBytes));
  return "\"" + shown + (text.size() > kMaxQuotedNameBytes ? "...\"" : "\"");
}

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string_view> candidates) {
  size_t best_distance =
      name.size() / 3 + 2;  // a third of the letters may be wrong, in short names one
  std::optional<std::string> best;
  for (const std::string_view candidate : candidates) {
    const size_t distance = edit_distance(name, candidate, best_distance);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = std::string(candidate);
  }
  return best;
}

std::string nearest_hint(std::string_view name, std::span<const std::string_view> candidates) {
  const std::optional<std::string> near = nearest_name(name, candidates);
  return near ? "did you mean " + in_quotes(*near) + "?" : std::string();
}

std::string list_names(std::span<const std::string_view> names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxListedNames); ++i) {
    text += (i > 0 ? ", " : "") + in_quotes(names[i]);
  }
  if (names.size() > kMaxListedNames) {
    text += " and " + std::to_string(names.size() - kMaxListedNames) + " more";
  }
  return text;
}

}  // namespace rlx
