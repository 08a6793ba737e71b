// SPDX-License-Identifier: Apache-2.0
// Reads a plan's text section, which may be anybody's bytes.
#include "runtime/text/section.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "runtime/text/byte_pairs.h"
#include "runtime/text/scores.h"
#include "runtime/text/unigram.h"
#include "runtime/text/word_pieces.h"

namespace rlx {
namespace {

std::string_view bytes_of(const flatbuffers::Vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view text_of_string(const flatbuffers::String* string) {
  return string == nullptr ? std::string_view() : string->string_view();
}

std::string with_spaces(std::string_view bytes) {
  std::string out;
  for (size_t mark = 0; (mark = bytes.find(kSpaceMark)) != std::string_view::npos;) {
    out += bytes.substr(0, mark);
    out += ' ';
    bytes.remove_prefix(mark + kSpaceMark.size());
  }
  return out.append(bytes);
}

Status check_tables(const fb::Text& section) {
  if (section.kind() > fb::TokenizerKind::MAX)
    return section_fault("there is no tokenizer of kind ", static_cast<uint32_t>(section.kind()));
  if (section.token_bytes() == nullptr || section.token_kinds() == nullptr ||
      !holds_any(section.token_ends()))
    return section_fault("it holds no tokens");
  const uint32_t count = section.token_ends()->size();
  if (section.token_kinds()->size() != count)
    return section_fault("it has ", count, " tokens and kinds of ", section.token_kinds()->size());
  if (section.token_ends()->Get(count - 1) != section.token_bytes()->size()) {
    return section_fault("its tokens end at byte ", section.token_ends()->Get(count - 1), " of ",
                         section.token_bytes()->size());
  }
  return {};
}

// Whether tokens of the kind have U+2581 for spaces.
bool marks_spaces(fb::TokenizerKind kind) {
  return kind == fb::TokenizerKind::Scores || kind == fb::TokenizerKind::Unigram;
}

// A field that the section's kind of tokenizer has no use for is a mistake of its writer.
Status check_fields(const fb::Text& section) {
  const bool has_byte_pairs = section.kind() == fb::TokenizerKind::BytePairs;
  const bool has_words = section.kind() == fb::TokenizerKind::WordPiece;
  const bool has_pieces = marks_spaces(section.kind());
  const bool has_merges = holds_any(section.merges());
  const bool merges_pieces = has_merges && section.kind() == fb::TokenizerKind::Scores;
  struct Field {
    std::string_view name;
    bool is_there;
    bool is_used;
  };
  const Field fields[] = {
      {"split", section.split() != fb::WordSplit::Gpt2, has_byte_pairs},
      {"merges", has_merges, has_byte_pairs || merges_pieces},
      {"ignore_merges", section.ignore_merges(), has_byte_pairs},
      {"nfc", section.nfc(), has_byte_pairs},
      {"scores", holds_any(section.scores()), has_pieces && !merges_pieces},
      {"charsmap", holds_any(section.charsmap()), has_pieces},
      {"add_space_prefix", section.add_space_prefix(), has_pieces},
      {"space_prefix_once", section.space_prefix_once(), section.add_space_prefix()},
      {"space_prefix_at_start", section.space_prefix_at_start(), section.add_space_prefix()},
      {"remove_extra_spaces", section.remove_extra_spaces(), has_pieces},
      {"white_space_is_space", section.white_space_is_space(), has_pieces},
      {"cleans_text", section.cleans_text(), has_words},
      {"separates_ideographs", section.separates_ideographs(), has_words},
      {"strips_accents", section.strips_accents(), has_words},
      {"lower_case", section.lower_case(), has_words},
      {"most_word_characters", section.most_word_characters() != 0, has_words},
      {"joins_punctuation", section.joins_punctuation(), has_words},
  };
  for (const Field& field : fields) {
    if (field.is_there && !field.is_used)
      return section_fault("a tokenizer of kind ", fb::EnumNameTokenizerKind(section.kind()),
                           " has no use for \"", field.name, "\"");
  }
  return {};
}

// Where a token stands in the section.
struct TokenRecord {
  uint32_t id;
  uint32_t begin;
  uint32_t end;
  TokenKind kind;
};

Status check_token(const TokenRecord& token, uint32_t all_bytes) {
  if (token.end < token.begin || token.end > all_bytes)
    return section_fault("token ", token.id, " lies at bytes ", token.begin, " to ", token.end);
  const uint32_t bytes = token.end - token.begin;
  if (bytes > kMostTokenBytes) {
    return section_fault("token ", token.id, " has ", bytes, " bytes, at most ", kMostTokenBytes,
                         " are taken");
  }
  if (token.kind > TokenKind::MAX) {
    return section_fault("token ", token.id, " is of kind ", static_cast<uint32_t>(token.kind),
                         ", which there is not");
  }
  if (token.kind == TokenKind::Byte && bytes != 1)
    return section_fault("token ", token.id, " stands for a byte and has ", bytes);
  return {};
}

Status check_id(std::string_view name, int32_t id, const Vocabulary& vocabulary,
                std::optional<int32_t>& taken) {
  if (id == -1) return {};
  if (!vocabulary.has(id))
    return section_fault("its ", name, " token is ", id, ", there are ", vocabulary.size());
  taken = id;
  return {};
}

Status read_stop_ids(const fb::Text& section, const Vocabulary& vocabulary, TextFacts& facts) {
  if (section.stop_ids() == nullptr) return {};
  for (const uint32_t id : *section.stop_ids()) {
    if (!vocabulary.has(id))
      return section_fault("a stop token is ", id, ", there are ", vocabulary.size());
    facts.stop_ids.push_back(static_cast<int32_t>(id));
  }
  std::sort(facts.stop_ids.begin(), facts.stop_ids.end());
  facts.stop_ids.erase(std::unique(facts.stop_ids.begin(), facts.stop_ids.end()),
                       facts.stop_ids.end());
  return {};
}

// Special tokens of the list, ascending, each once.
Status read_strips(std::string_view name, const flatbuffers::Vector<uint32_t>* listed,
                   const Vocabulary& vocabulary, std::vector<uint32_t>& ids) {
  if (listed == nullptr) return {};
  for (const uint32_t id : *listed) {
    const bool is_special = vocabulary.has(id) && (vocabulary.kind(id) == TokenKind::Control ||
                                                   vocabulary.kind(id) == TokenKind::UserDefined);
    if (!is_special) return section_fault(name, " has ", id, ", which is no special token");
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return {};
}

Status read_templates(const fb::Text& section, TextFacts& facts) {
  if (section.templates() == nullptr) return {};
  for (const fb::ChatTemplate* record : *section.templates()) {
    ChatTemplateText text = {.name = std::string(text_of_string(record->name())),
                             .source = std::string(text_of_string(record->source()))};
    if (!is_utf8(text.name) || !is_utf8(text.source))
      return section_fault("template ", quoted(text.name), " is no UTF-8");
    const bool is_known =
        std::any_of(facts.templates.begin(), facts.templates.end(),
                    [&text](const ChatTemplateText& known) { return known.name == text.name; });
    if (is_known) return section_fault("two templates are named ", quoted(text.name));
    facts.templates.push_back(std::move(text));
    if (facts.templates.size() > kMostTemplates)
      return section_fault("it has more than ", kMostTemplates, " templates");
  }
  return {};
}

}  // namespace

Status open_section(std::span<const std::byte> bytes, const fb::Text*& section) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (bytes.size() < sizeof(flatbuffers::uoffset_t) || !fb::VerifyTextBuffer(verifier))
    return section_fault("its ", bytes_text(bytes.size()), " are no well-formed buffer");
  section = fb::GetText(bytes.data());
  RLX_RETURN_IF_ERROR(check_tables(*section));
  return check_fields(*section);
}

Status read_vocabulary(const fb::Text& section, Vocabulary& vocabulary) {
  const std::string_view bytes = bytes_of(*section.token_bytes());
  const flatbuffers::Vector<uint32_t>& ends = *section.token_ends();
  const auto& kinds = *section.token_kinds();
  const bool has_marks = marks_spaces(section.kind());
  uint32_t begin = 0;
  for (uint32_t id = 0; id < ends.size(); ++id) {
    const TokenRecord token = {id, begin, ends.Get(id), static_cast<TokenKind>(kinds.Get(id))};
    RLX_RETURN_IF_ERROR(check_token(token, static_cast<uint32_t>(bytes.size())));
    const std::string_view text = bytes.substr(begin, token.end - begin);
    // A control token has a name, in which the mark is a character as any other.
    const bool is_marked = has_marks && token.kind != TokenKind::Control;
    vocabulary.add(is_marked ? with_spaces(text) : std::string(text), token.kind);
    begin = token.end;
  }
  return {};
}

Status read_facts(const fb::Text& section, const Vocabulary& vocabulary, TextFacts& facts) {
  RLX_RETURN_IF_ERROR(check_id("begin", section.begin(), vocabulary, facts.begin));
  RLX_RETURN_IF_ERROR(check_id("end", section.end(), vocabulary, facts.end));
  if (section.add_begin() && !facts.begin)
    return section_fault("texts are to start with a begin token, and it names none");
  if (section.add_end() && !facts.end)
    return section_fault("texts are to end with an end token, and it names none");
  facts.add_begin = section.add_begin();
  facts.add_end = section.add_end();
  facts.adds_space = section.add_space_prefix();
  facts.adds_space_behind_special = facts.adds_space && !section.space_prefix_at_start();
  facts.shows_words = section.kind() == fb::TokenizerKind::WordPiece;
  facts.joins_punctuation = section.joins_punctuation();
  RLX_RETURN_IF_ERROR(
      read_strips("strips_left", section.strips_left(), vocabulary, facts.strips_left));
  RLX_RETURN_IF_ERROR(
      read_strips("strips_right", section.strips_right(), vocabulary, facts.strips_right));
  facts.context_tokens = section.context_tokens();
  RLX_RETURN_IF_ERROR(read_stop_ids(section, vocabulary, facts));
  return read_templates(section, facts);
}

Status check_scores(const fb::Text& section) {
  const uint32_t count = section.token_ends()->size();
  const uint32_t score_count = section.scores() == nullptr ? 0 : section.scores()->size();
  if (score_count != count)
    return section_fault("it has ", count, " tokens and scores of ", score_count);
  for (uint32_t id = 0; id < count; ++id) {
    if (!std::isfinite(section.scores()->Get(id)))
      return section_fault("the score of token ", id, " is no finite number");
  }
  return {};
}

Status make_tokenizer(const fb::Text& section, const Vocabulary& vocabulary,
                      std::unique_ptr<const Tokenizer>& tokenizer) {
  switch (section.kind()) {
    case fb::TokenizerKind::BytePairs:
      return make_byte_pairs(section, vocabulary, tokenizer);
    case fb::TokenizerKind::Scores:
      return make_scores(section, vocabulary, tokenizer);
    case fb::TokenizerKind::Unigram:
      return make_unigram(section, vocabulary, tokenizer);
    case fb::TokenizerKind::WordPiece:
      return make_word_pieces(section, vocabulary, tokenizer);
  }
  return section_fault("unknown kind of tokenizer");
}

}  // namespace rlx
