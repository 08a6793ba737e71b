// SPDX-License-Identifier: Apache-2.0
// How a tokenizer of pieces (SentencePiece's kinds) brings text into the form that it cuts.
#pragma once

#include <cstdint>

#include "compiler/import/checkpoint/made_file.h"
#include "compiler/import/json_value.h"

namespace rlx::checkpoint {

// Byte-level BPE; pieces merged by rank; pieces of the best sum of scores; BERT's words.
enum class Family : uint8_t { Bytes, MergedPieces, Unigram, Words };

// Puts the normalizer and the pre-tokenizer of tokenizer.json into `made` as keys. Throws NotRead
// where they are others than spaces marked by U+2581, a space in front, and of Unigram a charsmap
// and cuts at white space.
void add_piece_rules(const JsonObject& file, Family family, MadeFile& made);

}  // namespace rlx::checkpoint
