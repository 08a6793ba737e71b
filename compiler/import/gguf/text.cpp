// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "compiler/import/gguf/word_splits.h"
#include "compiler/import/names.h"
#include "compiler/support/checked.h"
#include "compiler/support/utf8.h"
#include "schema/text_generated.h"

namespace rlx::gguf {
namespace {

using fb::TokenizerKind;
using fb::TokenKind;

constexpr std::string_view kTemplate = "tokenizer.chat_template";

// Tokens that end a reply whatever the file says of them, as llama.cpp finds them by name.
constexpr std::array<std::string_view, 12> kStopNames = {
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<EOT>",
    "_<EOT>",
    "<end_of_utterance>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

// The tokenizer is not one that is read: a warning, and no section.
struct NotRead {
  std::string why;
};

struct Kind {
  std::string_view name;  // tokenizer.ggml.model
  TokenizerKind kind;
  bool adds_begin;  // where the file does not say, as of the next
  bool adds_end;
  bool marks_words = false;  // U+2581 stands before tokens that begin a word, in the file alone
};
constexpr Kind kKinds[] = {{"gpt2", TokenizerKind::BytePairs, false, false},
                           {"llama", TokenizerKind::Scores, true, false},
                           {"t5", TokenizerKind::Unigram, false, true},
                           {"wordpiece", TokenizerKind::WordPiece, false, false},
                           {"bert", TokenizerKind::WordPiece, true, true, true}};
constexpr std::string_view kWordMark = "\xE2\x96\x81";
// Where a file does not say which words are too long: as of all BERT models known.
constexpr int64_t kMostWordCharacters = 100;

// GPT-2's alphabet shows each byte as one character: printable ones of Latin-1 as themselves, the
// others as U+0100 and on, in their order.
std::optional<char> byte_shown_as(uint32_t character) {
  const auto is_itself = [](uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
           (byte >= 0xAE && byte <= 0xFF);
  };
  if (character < 0x100)
    return is_itself(character) ? std::optional(static_cast<char>(character)) : std::nullopt;
  uint32_t left = character - 0x100;
  for (uint32_t byte = 0; byte < 0x100; ++byte) {
    if (!is_itself(byte) && left-- == 0) return static_cast<char>(byte);
  }
  return std::nullopt;
}

// The bytes that a token of the alphabet stands for; nullopt where it is of another alphabet.
std::optional<std::string> bytes_shown_as(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const size_t size = utf8_character_bytes(token);
    const auto byte =
        size == 0 ? std::nullopt : byte_shown_as(code_point_of(token.substr(0, size)));
    if (!byte) return std::nullopt;
    bytes.push_back(*byte);
    token.remove_prefix(size);
  }
  return bytes;
}

// "<0x41>" as the byte 0x41.
std::optional<char> byte_named(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const auto [rest, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  const bool is_whole = error == std::errc() && rest == token.data() + 5;
  return is_whole ? std::optional(static_cast<char>(value)) : std::nullopt;
}

class TextReader {
 public:
  TextReader(Keys& keys, const File& file, const TextOptions& options)
      : keys_(keys), file_(file), options_(options) {}

  std::vector<std::byte> read() {
    const auto model = keys_.text("tokenizer.ggml.model");
    if (!model || *model == "none") return {};
    choose_kind(*model);
    read_tokens();
    if (merges_by_rank()) {
      keys_.find(key("scores"));  // some files have them; merges alone count
      read_merges();
    } else if (kind_->kind != TokenizerKind::WordPiece) {
      read_scores();
    }
    read_ids();
    read_templates();
    return pack();
  }

 private:
  static std::string key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

  void choose_kind(const std::string& model) {
    const auto found = std::ranges::find(kKinds, model, &Kind::name);
    if (found == std::end(kKinds)) throw NotRead{"tokenizer " + in_quotes(model)};
    kind_ = &*found;
    if (kind_->kind != TokenizerKind::BytePairs) return;
    const std::string pre = keys_.text(key("pre")).value_or("default");
    splitter_ = find_word_splitter(pre);
    if (splitter_ == nullptr) throw NotRead{"a tokenizer that cuts words by " + in_quotes(pre)};
  }

  // An array of the file with one item per token, or of any length where there are no tokens yet.
  const Array* array(std::string_view name, bool is_per_token) {
    const Value* value = keys_.find(key(name));
    if (value == nullptr) return nullptr;
    const auto* array = std::get_if<Array>(value);
    if (array == nullptr || (is_per_token && array->count != kinds_.size())) {
      keys_.fail(
          DiagCode::BadField,
          "key " + in_quotes(key(name)) + " is " + kind_text(*value) +
              (array ? " of " + std::to_string(array->count) + " items" : "") + ", wanted " +
              (is_per_token ? std::to_string(kinds_.size()) + ", one per token" : "an array"));
      return nullptr;
    }
    return array;
  }

  const Array& strings(std::string_view name) {
    const Array* found = array(name, false);
    if (found != nullptr && found->type == ValueType::String) return *found;
    throw NotRead{"a tokenizer without the list of strings " + in_quotes(key(name))};
  }

  void read_tokens() {
    Strings items(strings("tokens"));
    while (const auto token = items.next()) {
      ids_.emplace(*token, names_.size());
      names_.push_back(*token);
    }
    kinds_.assign(names_.size(), TokenKind::Normal);
    read_kinds();
    for (size_t id = 0; id < names_.size(); ++id) add_token(id);
    if (names_.size() <= static_cast<size_t>(options_.vocabulary)) return;
    keys_.fail(DiagCode::BadShape, "the tokenizer has " + std::to_string(names_.size()) +
                                       " tokens, the model logits for " +
                                       std::to_string(options_.vocabulary));
  }

  // GGUF counts the kinds from 1.
  void read_kinds() {
    const Array* types = array("token_type", true);
    const auto numbers = types ? numbers_of(*types) : std::nullopt;
    if (!numbers) return;
    for (size_t id = 0; id < kinds_.size(); ++id) {
      const auto* type = std::get_if<int64_t>(&(*numbers)[id]);
      if (type == nullptr || *type < 1 || *type > 6)
        throw NotRead{"a tokenizer with tokens of unknown types"};
      kinds_[id] = static_cast<TokenKind>(*type - 1);
    }
  }

  void add_token(size_t id) {
    bytes_ += bytes_of(id);
    if (bytes_.size() > std::numeric_limits<uint32_t>::max())
      throw NotRead{"a tokenizer whose tokens have more than 2^32 bytes"};
    ends_.push_back(narrow<uint32_t>(bytes_.size()));
    if (std::ranges::find(kStopNames, names_[id]) == kStopNames.end()) return;
    kinds_[id] = TokenKind::Control;
    stop_ids_.push_back(narrow<uint32_t>(id));
  }

  // A token's bytes as they stand in text.
  std::string bytes_of(size_t id) const {
    const std::string_view name = names_[id];
    if (kinds_[id] == TokenKind::Byte) {
      const auto byte = byte_named(name);
      if (byte) return {*byte};
      throw NotRead{"a tokenizer whose token " + in_quotes(name) + " of a byte names none"};
    }
    if (kind_->marks_words && name.starts_with(kWordMark)) {
      const std::string word(name.substr(kWordMark.size()));
      return kinds_[id] == TokenKind::Normal ? " " + word : word;
    }
    const bool is_shown =
        kind_->kind == TokenizerKind::BytePairs && kinds_[id] == TokenKind::Normal;
    const auto bytes = is_shown ? bytes_shown_as(name) : std::nullopt;
    return bytes.value_or(std::string(name));
  }

  // Pieces are merged by scores, and by a list of merges where there are none.
  [[nodiscard]] bool merges_by_rank() const {
    const bool is_listed = !keys_.find(key("scores")) && keys_.find(key("merges"));
    return kind_->kind == TokenizerKind::BytePairs ||
           (kind_->kind == TokenizerKind::Scores && is_listed);
  }

  void read_scores() {
    const Array* found = array("scores", true);
    const auto numbers = found ? numbers_of(*found) : std::nullopt;
    if (!numbers) throw NotRead{"a tokenizer without scores"};
    for (const Value& number : *numbers) {
      const auto* score = std::get_if<double>(&number);
      if (score == nullptr) throw NotRead{"a tokenizer whose scores are no reals"};
      scores_.push_back(static_cast<float>(*score));
    }
  }

  uint32_t id_of(const std::string& token, std::string_view merge) const {
    const auto found = ids_.find(token);
    if (found != ids_.end()) return narrow<uint32_t>(found->second);
    throw NotRead{"a tokenizer whose merge " + in_quotes(merge) + " speaks of " + in_quotes(token) +
                  ", which is no token"};
  }

  void read_merges() {
    Strings items(strings("merges"));
    while (const auto merge = items.next()) {
      const size_t space = merge->find(' ', 1);
      if (space == std::string_view::npos)
        throw NotRead{"a tokenizer whose merge " + in_quotes(*merge) + " is not of two parts"};
      const std::string left(merge->substr(0, space));
      const std::string right(merge->substr(space + 1));
      merges_.emplace_back(id_of(left, *merge), id_of(right, *merge), id_of(left + right, *merge));
    }
  }

  int32_t id_or_none(std::string_view name, int64_t fallback = -1) {
    const int64_t most = static_cast<int64_t>(names_.size()) - 1;
    return static_cast<int32_t>(keys_.integer_in(key(name), -1, most, std::min(fallback, most)));
  }

  void add_stop(int32_t id) {
    if (id >= 0) stop_ids_.push_back(static_cast<uint32_t>(id));
  }

  int64_t id_named(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : static_cast<int64_t>(found->second);
  }

  // Ids where the keys of all kinds do not say.
  struct UsualIds {
    int64_t begin = -1;
    int64_t end = -1;
    int64_t unknown = -1;
  };
  UsualIds usual_ids() {
    if (kind_->kind == TokenizerKind::Scores) return {.begin = 1, .end = 2, .unknown = 0};
    if (!kind_->marks_words) return {};
    return {.begin = id_or_none("cls_token_id", id_named("[CLS]")),
            .end = id_or_none("seperator_token_id", id_named("[SEP]")),  // files spell it so
            .unknown = id_named("[UNK]")};
  }

  void read_ids() {
    const UsualIds usual = usual_ids();
    begin_ = id_or_none("bos_token_id", usual.begin);
    end_ = id_or_none("eos_token_id", usual.end);
    unknown_ = id_or_none("unknown_token_id", usual.unknown);
    add_stop(end_);
    add_stop(id_or_none("eot_token_id"));
    add_stop(id_or_none("eom_token_id"));
    std::sort(stop_ids_.begin(), stop_ids_.end());
    stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
    const bool adds_begin = kind_->adds_begin || (splitter_ && splitter_->adds_begin);
    adds_begin_ = keys_.flag(key("add_bos_token")).value_or(adds_begin) && begin_ >= 0;
    const char* end_key = kind_->marks_words ? "add_sep_token" : "add_eos_token";
    adds_end_ = keys_.flag(key(end_key)).value_or(kind_->adds_end) && end_ >= 0;
    has_prefix_ = keys_.flag(key("add_space_prefix")).value_or(true);
    trims_ = keys_.flag(key("remove_extra_whitespaces")).value_or(false);
    read_own_keys();
  }

  // What other files than GGUF say of their tokenizers.
  void read_own_keys() {
    const auto ids = [this](std::string_view name) {
      std::vector<uint32_t> read;
      const Value* value = keys_.find("tokenizer.rlx." + std::string(name));
      const auto* list = value ? std::get_if<Array>(value) : nullptr;
      const auto numbers = list ? numbers_of(*list) : std::nullopt;
      for (const Value& number : numbers.value_or(std::vector<Value>())) {
        const auto* id = std::get_if<int64_t>(&number);
        if (id == nullptr || *id < 0 || *id >= static_cast<int64_t>(kinds_.size())) continue;
        const TokenKind kind = kinds_[static_cast<size_t>(*id)];
        if (kind == TokenKind::Control || kind == TokenKind::UserDefined)
          read.push_back(static_cast<uint32_t>(*id));
      }
      return read;
    };
    takes_white_space_ = keys_.flag("tokenizer.rlx.white_space_is_space").value_or(false);
    has_prefix_once_ = keys_.flag("tokenizer.rlx.space_prefix_once").value_or(false);
    has_prefix_at_start_ = keys_.flag("tokenizer.rlx.space_prefix_at_start").value_or(false);
    strips_left_ = ids("strips_left");
    strips_right_ = ids("strips_right");
    if (kind_->kind == TokenizerKind::WordPiece) read_word_rules();
  }

  // GGUF says of BERT's rules at most whether capitals and accents count. Where it does not,
  // capitals do if there are words with them.
  void read_word_rules() {
    const auto rule = [this](std::string_view name, bool absent) {
      return keys_.flag("tokenizer.rlx." + std::string(name)).value_or(absent);
    };
    const bool is_bert = kind_->marks_words;
    bool lowers = is_bert && !has_capitals();
    if (is_bert) lowers = keys_.flag(key("normalizer.lowercase")).value_or(lowers);
    bool strips = lowers;
    if (is_bert) strips = keys_.flag(key("normalizer.strip_accents")).value_or(strips);
    cleans_text_ = rule("cleans_text", is_bert);
    separates_ideographs_ = rule("separates_ideographs", is_bert);
    strips_accents_ = rule("strips_accents", strips);
    lower_case_ = rule("lower_case", lowers);
    joins_punctuation_ = rule("joins_punctuation", is_bert);
    most_word_characters_ =
        keys_.integer_in("tokenizer.rlx.most_word_characters", 1,
                         std::numeric_limits<int32_t>::max(), kMostWordCharacters);
  }

  // Whether a word has a letter from A to Z; names in brackets are no words.
  [[nodiscard]] bool has_capitals() const {
    const auto is_capital = [](char letter) { return letter >= 'A' && letter <= 'Z'; };
    for (size_t id = 0; id < names_.size(); ++id) {
      std::string_view name = names_[id];
      if (name.starts_with(kWordMark)) name.remove_prefix(kWordMark.size());
      if (kinds_[id] != TokenKind::Normal || name.starts_with('[')) continue;
      if (std::ranges::any_of(name, is_capital)) return true;
    }
    return false;
  }

  // The model's own template, and those with names of their own.
  void read_templates() {
    for (const auto& [name, value] : file_.keys) {
      if (!name.starts_with(kTemplate)) continue;
      const std::string_view behind = name.substr(kTemplate.size());
      if (!behind.empty() && !behind.starts_with('.')) continue;
      const auto* source = std::get_if<std::string_view>(&value);
      if (source == nullptr) {
        keys_.fail(DiagCode::BadField,
                   "key " + in_quotes(name) + " is " + kind_text(value) + ", wanted a string");
        continue;
      }
      templates_.push_back(fb::CreateChatTemplate(
          builder_, builder_.CreateString(behind.substr(behind.empty() ? 0 : 1)),
          builder_.CreateString(*source)));
    }
  }

  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> byte_vector(std::string_view bytes) {
    return builder_.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }

  std::string_view charsmap() {
    const Array* map = array("precompiled_charsmap", false);
    if (map == nullptr || map->bytes.size() != map->count) return {};
    return {reinterpret_cast<const char*>(map->bytes.data()), map->bytes.size()};
  }

  std::vector<std::byte> pack() {
    const auto bytes = byte_vector(bytes_);
    const auto ends = builder_.CreateVector(ends_);
    const auto kinds = builder_.CreateVector(kinds_);
    const auto scores = builder_.CreateVector(scores_);
    const auto merges = builder_.CreateVectorOfStructs(merges_);
    const auto map = byte_vector(charsmap());
    const auto stops = builder_.CreateVector(stop_ids_);
    const auto templates = builder_.CreateVector(templates_);
    const auto left = builder_.CreateVector(strips_left_);
    const auto right = builder_.CreateVector(strips_right_);
    fb::TextBuilder text(builder_);
    text.add_kind(kind_->kind);
    if (splitter_ != nullptr) {
      text.add_split(splitter_->split);
      text.add_ignore_merges(splitter_->ignores_merges);
      text.add_nfc(splitter_->composes);
    }
    text.add_token_bytes(bytes);
    text.add_token_ends(ends);
    text.add_token_kinds(kinds);
    text.add_scores(scores);
    text.add_merges(merges);
    text.add_charsmap(map);
    // Byte-level BPE and WordPiece leave spaces as they are, whatever the keys' defaults say.
    const bool has_words = kind_->kind == TokenizerKind::WordPiece;
    const bool marks_spaces = kind_->kind != TokenizerKind::BytePairs && !has_words;
    if (has_words) {
      text.add_cleans_text(cleans_text_);
      text.add_separates_ideographs(separates_ideographs_);
      text.add_strips_accents(strips_accents_);
      text.add_lower_case(lower_case_);
      text.add_most_word_characters(narrow<uint32_t>(most_word_characters_));
      text.add_joins_punctuation(joins_punctuation_);
    }
    text.add_add_space_prefix(marks_spaces && has_prefix_);
    text.add_space_prefix_once(marks_spaces && has_prefix_ && has_prefix_once_);
    text.add_space_prefix_at_start(marks_spaces && has_prefix_ && has_prefix_at_start_);
    text.add_white_space_is_space(marks_spaces && takes_white_space_);
    text.add_strips_left(left);
    text.add_strips_right(right);
    text.add_remove_extra_spaces(marks_spaces && trims_);
    text.add_add_begin(adds_begin_);
    text.add_add_end(adds_end_);
    text.add_begin(begin_);
    text.add_end(end_);
    text.add_unknown(unknown_);
    text.add_stop_ids(stops);
    text.add_templates(templates);
    text.add_context_tokens(narrow<uint32_t>(options_.context));
    builder_.Finish(text.Finish());
    const auto packed = std::as_bytes(std::span(builder_.GetBufferPointer(), builder_.GetSize()));
    return {packed.begin(), packed.end()};
  }

  Keys& keys_;
  const File& file_;
  TextOptions options_;
  const Kind* kind_ = nullptr;
  const WordSplitter* splitter_ = nullptr;
  std::vector<std::string_view> names_;  // of tokens, as the file has them
  std::unordered_map<std::string_view, size_t> ids_;
  std::vector<TokenKind> kinds_;
  std::string bytes_;
  std::vector<uint32_t> ends_;
  std::vector<float> scores_;
  std::vector<fb::Merge> merges_;
  std::vector<uint32_t> stop_ids_;
  int32_t begin_ = -1;
  int32_t end_ = -1;
  int32_t unknown_ = -1;
  bool adds_begin_ = false;
  bool adds_end_ = false;
  bool has_prefix_ = true;
  bool trims_ = false;
  bool takes_white_space_ = false;
  bool has_prefix_once_ = false;
  bool has_prefix_at_start_ = false;
  bool cleans_text_ = false;
  bool separates_ideographs_ = false;
  bool strips_accents_ = false;
  bool lower_case_ = false;
  bool joins_punctuation_ = false;
  int64_t most_word_characters_ = 0;
  std::vector<uint32_t> strips_left_;
  std::vector<uint32_t> strips_right_;
  flatbuffers::FlatBufferBuilder builder_;
  std::vector<flatbuffers::Offset<fb::ChatTemplate>> templates_;
};

}  // namespace

std::vector<std::byte> read_text(Keys& keys, const File& file, const TextOptions& options) {
  try {
    return TextReader(keys, file, options).read();
  } catch (const NotRead& not_read) {
    if (keys.has_errors()) return {};
    keys.warn(not_read.why + " is not read: the plan takes and gives ids alone");
    return {};
  }
}

}  // namespace rlx::gguf
