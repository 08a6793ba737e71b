// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/checkpoint/word_list.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "compiler/import/checkpoint/tokenizer_json.h"
#include "compiler/import/names.h"

namespace rlx::checkpoint {
namespace {

JsonValue text(std::string_view value) {
  return {std::string(value)};
}

// A line for each token, ended as on either kind of system.
std::map<std::string, int64_t> words_of(std::string_view lines) {
  std::map<std::string, int64_t> words;
  for (int64_t id = 0; !lines.empty(); ++id) {
    const size_t end = lines.find('\n');
    std::string word(lines.substr(0, end));
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    if (word.ends_with('\r')) word.pop_back();
    if (!words.emplace(word, id).second)
      not_read("a list of words that has " + in_quotes(word) + " twice");
  }
  return words;
}

JsonObject normalizer_of(const JsonObject& settings) {
  JsonObject rules = {
      {"type", text("BertNormalizer")},
      {"lowercase", {is_true(settings, "do_lower_case", true)}},
      {"handle_chinese_chars", {is_true(settings, "tokenize_chinese_chars", true)}},
  };
  if (const JsonValue* strips = find(settings, "strip_accents"))
    rules.push_back({"strip_accents", *strips});
  return rules;
}

}  // namespace

JsonObject tokenizer_of_words(std::string_view lines, const JsonObject& settings) {
  if (!is_true(settings, "do_basic_tokenize", true))
    not_read("a tokenizer of words that are cut already");
  const std::map<std::string, int64_t> words = words_of(lines);
  JsonObject vocabulary;
  for (const auto& [word, id] : words) vocabulary.push_back({word, {id}});
  constexpr std::array kSpecial = {std::pair("unk_token", "[UNK]"), std::pair("cls_token", "[CLS]"),
                                   std::pair("sep_token", "[SEP]"), std::pair("pad_token", "[PAD]"),
                                   std::pair("mask_token", "[MASK]")};
  std::map<std::string_view, std::string> names;
  JsonArray added;
  for (const auto& [key, usual] : kSpecial) {
    std::string& name = names[key];
    name = named_token(settings, key);
    if (name.empty()) name = usual;
    const auto found = words.find(name);
    if (found == words.end()) continue;
    added.push_back(
        {JsonObject{{"id", {found->second}}, {"content", text(name)}, {"special", {true}}}});
  }
  const auto framed = [&](std::string_view key) {
    return JsonValue{JsonArray{text(names[key]), {int64_t{0}}}};
  };
  return {
      {"added_tokens", {std::move(added)}},
      {"normalizer", {normalizer_of(settings)}},
      {"pre_tokenizer", {JsonObject{{"type", text("BertPreTokenizer")}}}},
      {"post_processor",
       {JsonObject{{"type", text("BertProcessing")},
                   {"sep", framed("sep_token")},
                   {"cls", framed("cls_token")}}}},
      {"decoder", {JsonObject{{"type", text("WordPiece")}, {"prefix", text("##")}}}},
      {"model",
       {JsonObject{{"type", text("WordPiece")},
                   {"unk_token", text(names["unk_token"])},
                   {"continuing_subword_prefix", text("##")},
                   {"vocab", {std::move(vocabulary)}}}}},
  };
}

}  // namespace rlx::checkpoint
