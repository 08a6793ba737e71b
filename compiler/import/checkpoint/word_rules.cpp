// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/checkpoint/word_rules.h"

#include <limits>
#include <string_view>

#include "compiler/import/checkpoint/tokenizer_json.h"
#include "compiler/import/names.h"

namespace rlx::checkpoint {
namespace {

constexpr int64_t kMostCharacters = 100;  // where the file does not say

int64_t most_characters(const JsonObject& model) {
  const JsonValue* given = find(model, "max_input_chars_per_word");
  if (given == nullptr) return kMostCharacters;
  const int64_t* number = given->integer();
  if (number == nullptr || *number < 1 || *number > std::numeric_limits<int32_t>::max())
    not_read("a tokenizer whose \"max_input_chars_per_word\" is no number from 1 to 2^31 - 1");
  return *number;
}

void check_cut(const JsonObject& file) {
  const auto steps = steps_of(file, "pre_tokenizer", "pretokenizers");
  if (steps.size() != 1)
    not_read("a tokenizer of words that cuts text in " + std::to_string(steps.size()) + " steps");
  const std::string type = text_or_empty(*steps.front(), "type");
  if (type != "BertPreTokenizer")
    not_read("a tokenizer of words that cuts text by " + in_quotes(type));
}

// Without a decoder tokens are joined all the same, and nothing else.
bool joins_punctuation(const JsonObject& file, const std::string& mark) {
  const JsonObject* decoder = find_object(file, "decoder");
  if (decoder == nullptr) return false;
  const std::string type = text_or_empty(*decoder, "type");
  if (type != "WordPiece") not_read("a tokenizer of words that makes text by " + in_quotes(type));
  if (text_or_empty(*decoder, "prefix") != mark)
    not_read("a tokenizer of words whose decoder has another \"prefix\" than " + in_quotes(mark));
  return is_true(*decoder, "cleanup", true);
}

}  // namespace

std::string word_mark(const JsonObject& model) {
  std::string mark = text_or_empty(model, "continuing_subword_prefix");
  if (mark.empty())
    not_read("a tokenizer of words without a \"continuing_subword_prefix\" for parts inside them");
  return mark;
}

void add_word_rules(const JsonObject& file, const JsonObject& model, MadeFile& made) {
  check_cut(file);
  made.integer("tokenizer.rlx.most_word_characters", most_characters(model));
  made.flag("tokenizer.rlx.joins_punctuation", joins_punctuation(file, word_mark(model)));
  const auto steps = steps_of(file, "normalizer", "normalizers");
  if (steps.empty()) return;
  const std::string type = text_or_empty(*steps.front(), "type");
  if (steps.size() != 1 || type != "BertNormalizer")
    not_read("a tokenizer of words that normalizes text by " + in_quotes(type));
  const JsonObject& rules = *steps.front();
  const bool lowers = is_true(rules, "lowercase", true);
  made.flag("tokenizer.rlx.lower_case", lowers);
  made.flag("tokenizer.rlx.strips_accents", is_true(rules, "strip_accents", lowers));
  made.flag("tokenizer.rlx.cleans_text", is_true(rules, "clean_text", true));
  made.flag("tokenizer.rlx.separates_ideographs", is_true(rules, "handle_chinese_chars", true));
}

std::string word_part(const std::string& name, const std::string& mark) {
  return name.starts_with(mark) ? name.substr(mark.size()) : " " + name;
}

}  // namespace rlx::checkpoint
