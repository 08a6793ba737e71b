// SPDX-License-Identifier: Apache-2.0
// Turns tokens into text as they come.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/text.h"

namespace rlx {

enum class ControlTokens : uint8_t { Hidden, Shown };

// Gives UTF-8: bytes of a character that is not complete are held back, those that can never be one
// are U+FFFD. A tokenizer that puts a space before a text has it taken away again; one of words
// has none before the first token that is shown.
class TokenStream {
 public:
  TokenStream(std::shared_ptr<const TextModel> model, ControlTokens control)
      : model_(std::move(model)), control_(control) {}

  // What can be shown after this token; valid until the next call.
  Status put(int32_t id, std::string_view& shown);
  // What was held back; the stream begins anew.
  std::string_view end();

 private:
  std::string_view text_of_token(uint32_t id);
  // Of tokenizers that show words; moves on as text_of_token does.
  std::string text_of_word(uint32_t id);

  std::shared_ptr<const TextModel> model_;
  ControlTokens control_;
  bool drops_space_ = true;  // where the tokenizer would have put one
  std::string held_;
  std::string shown_;
};

}  // namespace rlx
