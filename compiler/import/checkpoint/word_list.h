// SPDX-License-Identifier: Apache-2.0
// BERT's tokenizers of old, of which there is a vocab.txt alone.
#pragma once

#include <string_view>

#include "compiler/import/json_value.h"

namespace rlx::checkpoint {

inline constexpr const char* kWordList = "vocab.txt";

// The tokenizer.json that says the same: a line of `text` is a token, its id the line's number from
// 0 on. `settings` is tokenizer_config.json, where do_lower_case, strip_accents and
// tokenize_chinese_chars stand and special tokens may have other names. Throws NotRead.
JsonObject tokenizer_of_words(std::string_view text, const JsonObject& settings);

}  // namespace rlx::checkpoint
