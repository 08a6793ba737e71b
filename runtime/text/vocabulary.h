// SPDX-License-Identifier: Apache-2.0
// The tokens of a language model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schema/text_generated.h"

namespace rlx {

using TokenKind = fb::TokenKind;

// Longer tokens are refused: the time of a search goes with the longest token.
inline constexpr size_t kMostTokenBytes = 1024;

class Vocabulary {
 public:
  // Appends a token; its id is the count of those before.
  void add(std::string_view bytes, TokenKind kind);

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(kinds_.size()); }
  [[nodiscard]] bool has(int64_t id) const { return id >= 0 && id < size(); }
  // As it stands in text; spaces are spaces, whatever the kind of tokenizer.
  [[nodiscard]] std::string_view bytes(uint32_t id) const {
    const uint32_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::string_view(bytes_).substr(begin, ends_[id] - begin);
  }
  [[nodiscard]] TokenKind kind(uint32_t id) const { return kinds_[id]; }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;
  std::vector<TokenKind> kinds_;
};

}  // namespace rlx
