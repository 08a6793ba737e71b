// SPDX-License-Identifier: Apache-2.0
// SentencePiece's precompiled normaliser: a trie of what is replaced, and by what.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rlx {

// A replacement may be so long: text grows by no more than this.
inline constexpr size_t kMostReplacementBytes = 48;

class Charsmap {
 public:
  struct Match {
    size_t bytes;  // of the text
    std::string_view replacement;
  };

  // The bytes as they stand in a model file: u32 size of the trie in bytes; the trie, a double
  // array of u32 units as Darts-clone makes them; the replacements, each with a zero behind it.
  // RLX_INVALID_PLAN where a walk could leave them, or would take long.
  static Status read(std::string_view bytes, Charsmap& charsmap);

  // The longest match at the text's start.
  [[nodiscard]] std::optional<Match> match(std::string_view text) const;

 private:
  [[nodiscard]] Status check_trie() const;
  [[nodiscard]] Status check_value(uint32_t unit) const;
  [[nodiscard]] std::optional<uint32_t> child(uint32_t unit, unsigned char label) const;
  [[nodiscard]] std::string_view replacement(uint32_t unit) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace rlx
