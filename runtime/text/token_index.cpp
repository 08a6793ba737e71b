// SPDX-License-Identifier: Apache-2.0
// Tokens by their bytes: exactly, or all that a text begins with.
#include "runtime/text/token_index.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace rlx {
namespace {

// The first eight bytes as a number that sorts as they do: most comparisons end with it.
uint64_t leading_bytes(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof number; ++i)
    number = number << 8U | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
  return number;
}

struct SortedToken {
  uint64_t leading;
  std::string_view bytes;
  uint32_t id;

  bool operator<(const SortedToken& other) const {
    if (leading != other.leading) return leading < other.leading;
    return std::tie(bytes, id) < std::tie(other.bytes, other.id);
  }
};

}  // namespace

TokenIndex::TokenIndex(const Vocabulary& vocabulary, bool (*takes)(TokenKind)) {
  std::vector<SortedToken> tokens;
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view bytes = vocabulary.bytes(id);
    if (!bytes.empty() && takes(vocabulary.kind(id)))
      tokens.push_back({leading_bytes(bytes), bytes, id});
  }
  std::sort(tokens.begin(), tokens.end());
  entries_.reserve(tokens.size());
  for (const SortedToken& token : tokens) {
    if (entries_.empty() || entries_.back().bytes != token.bytes)
      entries_.push_back({token.bytes, token.id});
  }
  for (const Entry& entry : entries_) ++begins_[static_cast<unsigned char>(entry.bytes[0]) + 1U];
  for (size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
}

std::optional<uint32_t> TokenIndex::find(std::string_view bytes) const {
  if (bytes.empty()) return std::nullopt;
  const Range range = starting_with(bytes.front());
  const auto end = entries_.begin() + range.end;
  const auto found = std::lower_bound(
      entries_.begin() + range.begin, end, bytes,
      [](const Entry& entry, std::string_view wanted) { return entry.bytes < wanted; });
  if (found == end || found->bytes != bytes) return std::nullopt;
  return found->id;
}

TokenIndex::Range TokenIndex::narrowed(Range range, size_t depth, char byte) const {
  const auto at_depth = [depth](const Entry& entry) {
    return static_cast<unsigned char>(entry.bytes[depth]);
  };
  const auto wanted = static_cast<unsigned char>(byte);
  if (range.begin == range.end) return range;
  if (at_depth(entries_[range.begin]) == wanted && at_depth(entries_[range.end - 1]) == wanted)
    return range;
  const auto first = entries_.begin() + range.begin;
  const auto last = entries_.begin() + range.end;
  const auto begin = std::partition_point(
      first, last, [&](const Entry& entry) { return at_depth(entry) < wanted; });
  const auto end = std::partition_point(
      begin, last, [&](const Entry& entry) { return at_depth(entry) == wanted; });
  return {static_cast<uint32_t>(begin - entries_.begin()),
          static_cast<uint32_t>(end - entries_.begin())};
}

}  // namespace rlx
