// SPDX-License-Identifier: Apache-2.0
// How text without special tokens becomes tokens: one class per kind of tokenizer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace rlx {

enum class TextPlace : uint8_t { AtStart, BehindSpecial };

// Immutable, shared by threads.
class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`, which is UTF-8, not empty, and stands where `place` says.
  virtual void encode(std::string_view text, TextPlace place, std::vector<int32_t>& ids) const = 0;
};

}  // namespace rlx
