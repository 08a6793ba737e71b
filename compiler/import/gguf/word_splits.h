// SPDX-License-Identifier: Apache-2.0
// Byte-level tokenizers by the name that GGUF files give the pattern which cuts their words.
#pragma once

#include <string_view>

#include "schema/text_generated.h"

namespace rlx::gguf {

struct WordSplitter {
  std::string_view name;  // tokenizer.ggml.pre
  fb::WordSplit split = fb::WordSplit::Gpt2;
  bool ignores_merges = false;  // a word that is a token stays whole
  bool adds_begin = false;      // where the file does not say
  bool composes = false;        // Unicode's form C first
};

// nullptr where the name is not known.
const WordSplitter* find_word_splitter(std::string_view name);

}  // namespace rlx::gguf
