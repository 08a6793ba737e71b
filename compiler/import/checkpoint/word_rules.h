// SPDX-License-Identifier: Apache-2.0
// How BERT's tokenizer brings text into the form that it cuts into words, and makes text of tokens.
#pragma once

#include <string>

#include "compiler/import/checkpoint/made_file.h"
#include "compiler/import/json_value.h"

namespace rlx::checkpoint {

// What tokens inside words begin with, mostly "##". Throws NotRead where there is nothing.
std::string word_mark(const JsonObject& model);

// Puts the normalizer and the decoder of tokenizer.json, whose model is `model`, into `made` as
// keys. Throws NotRead where they are others than BERT's, and where text is cut otherwise.
void add_word_rules(const JsonObject& file, const JsonObject& model, MadeFile& made);

// A token of such a vocabulary as it stands in text: behind a space, or, in a word, without
// `mark`.
std::string word_part(const std::string& name, const std::string& mark);

}  // namespace rlx::checkpoint
