// SPDX-License-Identifier: Apache-2.0
// The committed vocabularies and the ids that other tokenizers give (make_cases.py).
#include "tests/text/case_files.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>

#include "runtime/text/stream.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

std::string from_base64(const std::string& text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  uint32_t count = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    bits = bits << 6U | static_cast<uint32_t>(kDigits.find(digit));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFFU);
  }
  return bytes;
}

// Types of pieces as SentencePiece numbers them, from 1 on.
constexpr std::array kPieceKinds = {fb::TokenKind::Normal,  fb::TokenKind::Unknown,
                                    fb::TokenKind::Control, fb::TokenKind::UserDefined,
                                    fb::TokenKind::Unused,  fb::TokenKind::Byte};

}  // namespace

nlohmann::json read_cases(const std::string& name) {
  std::ifstream file("tests/text/data/" + name + ".json");
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

TextSpec byte_pairs_text(const nlohmann::json& cases, Specials specials) {
  TextSpec spec = byte_text();
  for (const auto& merge : cases["merges"]) spec.merge(merge[0], merge[1]);
  if (specials == Specials::None) return spec;
  for (const std::string name : cases["control"]) spec.add(name, fb::TokenKind::Control);
  for (const std::string name : cases["user_defined"]) spec.add(name, fb::TokenKind::UserDefined);
  return spec;
}

TextSpec pieces_text(const nlohmann::json& cases, fb::TokenizerKind kind) {
  TextSpec spec = {.kind = kind};
  spec.charsmap = from_base64(cases["charsmap"]);
  spec.add_space_prefix = cases["add_space_prefix"];
  spec.remove_extra_spaces = cases["remove_extra_spaces"];
  for (size_t i = 0; i < cases["pieces"].size(); ++i) {
    std::string piece = cases["pieces"][i];
    const fb::TokenKind token_kind = kPieceKinds.at(cases["types"][i].get<size_t>() - 1);
    if (token_kind == fb::TokenKind::Byte)  // <0x41>
      piece = static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16));
    if (token_kind == fb::TokenKind::Unknown) spec.unknown = static_cast<int32_t>(i);
    spec.add(piece, token_kind, cases["scores"][i]);
  }
  return spec;
}

TextSpec checkpoint_text(const nlohmann::json& cases, const std::string& name) {
  const bool is_unigram = name == "unigram";
  TextSpec spec = pieces_text(read_cases(is_unigram ? "unigram" : "scores"),
                              is_unigram ? fb::TokenizerKind::Unigram : fb::TokenizerKind::Scores);
  spec.add_space_prefix = name != "no_prefix";
  spec.space_prefix_at_start = name == "prefix_at_start";
  spec.space_prefix_once = name == "prefix_once" || spec.space_prefix_at_start || is_unigram;
  spec.white_space_is_space = is_unigram;
  if (!is_unigram) {
    for (const auto& merge : cases["merges"])
      spec.merges.emplace_back(merge[0], merge[1], merge[2]);
  }
  for (const auto& added : cases["added"]) {
    const bool is_control = added[1];
    const uint32_t id = spec.add(added[0].get<std::string>(),
                                 is_control ? fb::TokenKind::Control : fb::TokenKind::UserDefined);
    if (added[2] == "lstrip") spec.strips_left.push_back(id);
    if (added[2] == "rstrip") spec.strips_right.push_back(id);
  }
  return spec;
}

TextSpec words_text(const nlohmann::json& cases, const std::string& name) {
  constexpr std::string_view kMark = "##";
  const bool is_whole = name == "words";
  TextSpec spec = {.kind = fb::TokenizerKind::WordPiece};
  spec.cleans_text = spec.separates_ideographs = name != "words_lowered";
  spec.strips_accents = is_whole;
  spec.lower_case = spec.joins_punctuation = name != "words_cased";
  spec.most_word_characters = 50;
  std::map<std::string, bool> added;
  for (const auto& token : cases["added"]) added[token[0]] = token[1];
  for (const std::string token : cases["tokens"]) {
    const bool is_frame = token.size() > 2 && token.front() == '[';
    const auto found = added.find(token);
    if (token == "[UNK]") spec.unknown = static_cast<int32_t>(spec.tokens.size());
    if (is_frame || (found != added.end() && found->second)) {
      spec.add(token, fb::TokenKind::Control);
    } else if (found != added.end()) {
      spec.add(token, fb::TokenKind::UserDefined);
    } else {
      spec.add(token.starts_with(kMark) ? token.substr(kMark.size()) : " " + token);
    }
  }
  for (const auto& token : cases["added"]) {
    const auto id = static_cast<uint32_t>(std::ranges::find(cases["tokens"], token[0]) -
                                          cases["tokens"].begin());
    if (token[2] == "lstrip") spec.strips_left.push_back(id);
    if (token[2] == "rstrip") spec.strips_right.push_back(id);
  }
  return spec;
}

std::shared_ptr<const TextModel> open_text(const TextSpec& spec) {
  std::shared_ptr<const TextModel> model;
  const Status status = TextModel::open(serialise(spec), model);
  INFO(status.message());
  REQUIRE(status.ok());
  return model;
}

std::vector<int32_t> encode(const TextModel& model, std::vector<TextPiece> pieces, uint32_t flags) {
  std::vector<int32_t> ids;
  REQUIRE(model.encode_pieces(pieces, flags, ids).ok());
  return ids;
}

std::vector<int32_t> encode_trusted(const TextModel& model, std::string_view text) {
  return encode(model, {{.text = text, .is_trusted = true}});
}

std::vector<int32_t> encode_typed(const TextModel& model, std::string_view text) {
  return encode(model, {{.text = text, .is_trusted = false}});
}

std::string decode(const std::shared_ptr<const TextModel>& model, const std::vector<int32_t>& ids) {
  TokenStream stream(model, ControlTokens::Shown);
  std::string text;
  for (const int32_t id : ids) {
    std::string_view shown;
    REQUIRE(stream.put(id, shown).ok());
    text += shown;
  }
  return text += stream.end();
}

void check_ids(const TextModel& model, const nlohmann::json& texts, const nlohmann::json& wanted,
               bool is_trusted) {
  REQUIRE(texts.size() == wanted.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i];
    INFO("text " << i << ": " << text);
    const std::vector<int32_t> ids = encode(model, {{.text = text, .is_trusted = is_trusted}});
    CHECK(ids == wanted[i].get<std::vector<int32_t>>());
  }
}

}  // namespace rlx::test
