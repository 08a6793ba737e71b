// SPDX-License-Identifier: Apache-2.0
// The committed vocabularies and the ids that other tokenizers give (make_cases.py).
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/text.h"
#include "tests/support/text_fixture.h"

namespace rlx::test {

nlohmann::json read_cases(const std::string& name);

enum class Specials : uint8_t { None, All };
TextSpec byte_pairs_text(const nlohmann::json& cases, Specials specials);
TextSpec pieces_text(const nlohmann::json& cases, fb::TokenizerKind kind);

// The tokenizer of that name of pieces.json, over the vocabulary of scores.json or unigram.json.
TextSpec checkpoint_text(const nlohmann::json& cases, const std::string& name);
// BERT's tokenizer of words.json under that name.
TextSpec words_text(const nlohmann::json& cases, const std::string& name);

// A model of a section that must be right.
std::shared_ptr<const TextModel> open_text(const TextSpec& spec);

std::vector<int32_t> encode(const TextModel& model, std::vector<TextPiece> pieces,
                            uint32_t flags = 0);
std::vector<int32_t> encode_trusted(const TextModel& model, std::string_view text);
std::vector<int32_t> encode_typed(const TextModel& model, std::string_view text);

// What a stream shows of the ids, its end included; control tokens too.
std::string decode(const std::shared_ptr<const TextModel>& model, const std::vector<int32_t>& ids);

// Each text of `texts` has the ids of `wanted`, encoded as typed or as trusted.
void check_ids(const TextModel& model, const nlohmann::json& texts, const nlohmann::json& wanted,
               bool is_trusted = false);

}  // namespace rlx::test
