// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/checkpoint/piece_rules.h"

#include <string>
#include <string_view>

#include "compiler/import/checkpoint/tokenizer_json.h"
#include "compiler/import/names.h"

namespace rlx::checkpoint {
namespace {

struct PieceRules {
  bool marks_spaces = false;
  bool adds_prefix = false;         // a space in front
  bool is_prefix_once = false;      // not where the text has one
  bool is_prefix_at_start = false;  // not behind special tokens
  bool joins_spaces = false;        // a run of them is one
  bool splits_at_spaces = false;    // at white space, which is dropped
  std::string charsmap;
};

std::string from_base64(const std::string& text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  uint32_t count = 0;
  for (const char digit : text) {
    if (digit == '=') break;
    const size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) not_read("a tokenizer whose charsmap is no base64");
    bits = bits << 6U | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFFU);
  }
  return bytes;
}

void add_normalizer(const JsonObject& step, Family family, PieceRules& rules) {
  const std::string type = text_or_empty(step, "type");
  const std::string content = text_or_empty(step, "content");
  const bool is_unigram = family == Family::Unigram;
  if (type == "Prepend" && text_or_empty(step, "prepend") == kSpaceMark && !rules.marks_spaces) {
    rules.adds_prefix = true;
  } else if (type == "Replace" && pattern_of(step, "String") == " " && content == kSpaceMark) {
    rules.marks_spaces = true;
  } else if (type == "Replace" && pattern_of(step, "Regex") == " {2,}" && is_unigram &&
             (content == " " || content == kSpaceMark)) {
    rules.joins_spaces = true;
  } else if (type == "Precompiled" && is_unigram && rules.charsmap.empty()) {
    const JsonValue* charsmap = find(step, "precompiled_charsmap");
    if (charsmap && charsmap->string() == nullptr)
      not_read("a tokenizer whose charsmap is no text");
    rules.charsmap = from_base64(text_or_empty(step, "precompiled_charsmap"));
  } else {
    not_read("a tokenizer that normalizes text by " + in_quotes(type));
  }
}

void add_metaspace(const JsonObject& step, Family family, PieceRules& rules) {
  const std::string scheme = text_or_empty(step, "prepend_scheme");
  const bool has_scheme = !scheme.empty();
  const bool is_prefixed = has_scheme ? scheme != "never" : is_true(step, "add_prefix_space", true);
  if (text_or_empty(step, "replacement") != kSpaceMark || rules.adds_prefix)
    not_read("a tokenizer that marks spaces by another sign than U+2581, or twice");
  if (family == Family::MergedPieces && is_true(step, "split", true))
    not_read("a tokenizer that cuts words at marked spaces before it merges");
  rules.marks_spaces = true;
  rules.adds_prefix = is_prefixed;
  rules.is_prefix_once = is_prefixed;
  rules.is_prefix_at_start = is_prefixed && scheme == "first";
}

PieceRules find_rules(const JsonObject& file, Family family) {
  PieceRules rules;
  for (const JsonObject* step : steps_of(file, "normalizer", "normalizers"))
    add_normalizer(*step, family, rules);
  for (const JsonObject* step : steps_of(file, "pre_tokenizer", "pretokenizers")) {
    const std::string type = text_or_empty(*step, "type");
    if (type == "Metaspace") {
      add_metaspace(*step, family, rules);
    } else if (type == "WhitespaceSplit" && family == Family::Unigram && !rules.marks_spaces) {
      rules.splits_at_spaces = true;
    } else if (type != "Split" || pattern_of(*step, "String") != " " || !rules.marks_spaces) {
      // A split at spaces finds none once they are marked.
      not_read("a tokenizer whose words are cut by " + in_quotes(type));
    }
  }
  if (!rules.marks_spaces) not_read("a tokenizer that neither is byte-level nor marks spaces");
  if (rules.splits_at_spaces && (!rules.adds_prefix || rules.is_prefix_at_start))
    not_read("a tokenizer that cuts words at white space and does not mark each of them");
  if (rules.joins_spaces && !rules.splits_at_spaces)
    not_read("a tokenizer that makes runs of spaces one without cutting words there");
  return rules;
}

}  // namespace

void add_piece_rules(const JsonObject& file, Family family, MadeFile& made) {
  const PieceRules rules = find_rules(file, family);
  made.flag("tokenizer.ggml.add_space_prefix", rules.adds_prefix);
  made.flag("tokenizer.rlx.space_prefix_once", rules.is_prefix_once);
  made.flag("tokenizer.rlx.space_prefix_at_start", rules.is_prefix_at_start);
  made.flag("tokenizer.ggml.remove_extra_whitespaces", rules.splits_at_spaces);
  made.flag("tokenizer.rlx.white_space_is_space", rules.splits_at_spaces);
  if (!rules.charsmap.empty()) made.bytes("tokenizer.ggml.precompiled_charsmap", rules.charsmap);
}

}  // namespace rlx::checkpoint
