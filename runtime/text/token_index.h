// SPDX-License-Identifier: Apache-2.0
// Tokens by their bytes: exactly, or all that a text begins with.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/text/vocabulary.h"

namespace rlx {

// A sorted list: no text makes a search slow, as some would a hash table. Refers to the
// vocabulary's bytes.
class TokenIndex {
 public:
  // Tokens for whose kind `takes` is true. Of tokens with equal bytes the first is found, empty
  // ones never.
  TokenIndex(const Vocabulary& vocabulary, bool (*takes)(TokenKind));

  [[nodiscard]] std::optional<uint32_t> find(std::string_view bytes) const;

  // Calls visit(id, bytes of the token) for each token that `text` begins with, shorter ones
  // first.
  template <class Visit>
  void for_each_prefix(std::string_view text, const Visit& visit) const {
    if (text.empty()) return;
    Range range = starting_with(text.front());
    for (size_t depth = 1; range.begin < range.end; ++depth) {
      // All in the range begin with the first `depth` bytes of the text.
      const Entry& first = entries_[range.begin];
      if (first.bytes.size() == depth) {
        visit(first.id, depth);
        ++range.begin;
      }
      if (depth == text.size()) return;
      range = narrowed(range, depth, text[depth]);
    }
  }

 private:
  struct Entry {
    std::string_view bytes;
    uint32_t id;
  };
  struct Range {
    uint32_t begin;
    uint32_t end;
  };

  [[nodiscard]] Range starting_with(char byte) const {
    const auto index = static_cast<unsigned char>(byte);
    return {begins_[index], begins_[index + 1U]};
  }
  // Of entries that are alike before `depth`: those with this byte there.
  [[nodiscard]] Range narrowed(Range range, size_t depth, char byte) const;

  std::vector<Entry> entries_;          // ascending by bytes, no two alike
  std::array<uint32_t, 257> begins_{};  // by first byte
};

}  // namespace rlx
