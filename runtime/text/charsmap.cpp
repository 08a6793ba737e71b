// SPDX-License-Identifier: Apache-2.0
// SentencePiece's precompiled normaliser: a trie of what is replaced, and by what.
#include "runtime/text/charsmap.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/text.h"
#include "runtime/text/section.h"

namespace rlx {
namespace {

// What is replaced is no longer than this.
constexpr uint32_t kMostMatchBytes = 256;

// Fields of a unit. A node's children stand at its base, exclusive-or their label; label 0 is the
// node's value.
uint32_t base_of(uint32_t index, uint32_t unit) {
  return index ^ (unit >> 10U) << ((unit & 1U << 9U) >> 6U);
}
bool has_value(uint32_t unit) {
  return (unit >> 8U & 1U) == 1;
}
uint32_t label_of(uint32_t unit) {
  return unit & (1U << 31U | 0xFFU);
}
uint32_t value_of(uint32_t unit) {
  return unit & ~(1U << 31U);
}

}  // namespace

Status Charsmap::read(std::string_view bytes, Charsmap& charsmap) {
  uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof trie_bytes)
    return section_fault("its charsmap has ", bytes.size(), " bytes");
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  bytes.remove_prefix(sizeof trie_bytes);
  if (trie_bytes > bytes.size() || trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0) {
    return section_fault("its charsmap has a trie of ", trie_bytes, " bytes, and ", bytes.size(),
                         " in all");
  }
  charsmap.units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(charsmap.units_.data(), bytes.data(), trie_bytes);
  charsmap.replacements_ = bytes.substr(trie_bytes);
  if (!is_utf8(charsmap.replacements_) || !charsmap.replacements_.ends_with('\0'))
    return section_fault("its charsmap's replacements are no UTF-8 with zeros behind");
  return charsmap.check_trie();
}

std::optional<uint32_t> Charsmap::child(uint32_t unit, unsigned char label) const {
  const uint32_t index = base_of(unit, units_[unit]) ^ label;
  if (label == 0 || index >= units_.size() || label_of(units_[index]) != label) return std::nullopt;
  return index;
}

std::string_view Charsmap::replacement(uint32_t unit) const {
  const uint32_t offset = value_of(units_[base_of(unit, units_[unit])]);
  return std::string_view(replacements_).substr(offset, replacements_.find('\0', offset) - offset);
}

Status Charsmap::check_value(uint32_t unit) const {
  if (!has_value(units_[unit])) return {};
  const uint32_t index = base_of(unit, units_[unit]);
  const uint32_t offset = index < units_.size() ? value_of(units_[index]) : UINT32_MAX;
  if (offset >= replacements_.size() || (offset > 0 && replacements_[offset - 1] != '\0'))
    return section_fault("its charsmap's unit ", unit, " has no replacement");
  if (replacement(unit).size() > kMostReplacementBytes) {
    return section_fault("its charsmap replaces by ", replacement(unit).size(), " bytes, at most ",
                         kMostReplacementBytes, " are taken");
  }
  return {};
}

// Walks all that can be reached from the root: values must be there, and no path too long or
// without end. Subtrees may be shared.
Status Charsmap::check_trie() const {
  struct Step {
    uint32_t unit;
    uint32_t label;   // the next to look at
    uint32_t height;  // of the children seen
  };
  constexpr uint16_t kUnseen = 0;
  constexpr uint16_t kOpen = UINT16_MAX;  // on the path
  std::vector<uint16_t> heights(units_.size(), kUnseen);
  std::vector<Step> path = {{.unit = 0, .label = 1, .height = 0}};
  heights[0] = kOpen;
  while (!path.empty()) {
    Step& step = path.back();
    if (step.label > 0xFF) {
      RLX_RETURN_IF_ERROR(check_value(step.unit));
      const uint32_t height = step.height + 1;
      heights[step.unit] = static_cast<uint16_t>(height);
      path.pop_back();
      if (!path.empty()) path.back().height = std::max(path.back().height, height);
      if (height + path.size() > kMostMatchBytes)
        return section_fault("its charsmap replaces more than ", kMostMatchBytes, " bytes at once");
      continue;
    }
    const std::optional<uint32_t> next = child(step.unit, static_cast<unsigned char>(step.label));
    ++step.label;
    if (!next) continue;
    const uint16_t height = heights[*next];
    if (height == kOpen || path.size() > kMostMatchBytes)
      return section_fault("its charsmap's trie goes on without end at unit ", *next);
    if (height == kUnseen) {
      heights[*next] = kOpen;
      path.push_back({.unit = *next, .label = 1, .height = 0});
    } else {
      step.height = std::max<uint32_t>(step.height, height);
    }
  }
  return {};
}

std::optional<Charsmap::Match> Charsmap::match(std::string_view text) const {
  std::optional<Match> longest;
  uint32_t unit = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::optional<uint32_t> next = child(unit, static_cast<unsigned char>(text[i]));
    if (!next) break;
    unit = *next;
    if (has_value(units_[unit])) longest = Match{i + 1, replacement(unit)};
  }
  return longest;
}

}  // namespace rlx
