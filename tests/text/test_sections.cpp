// SPDX-License-Identifier: Apache-2.0
// What is refused of a text section, and why.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/catch.h"
#include "tests/text/case_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string fault_of(const std::vector<std::byte>& section) {
  std::shared_ptr<const TextModel> model;
  const Status status = TextModel::open(section, model);
  CHECK(status.code() == (model == nullptr ? RLX_INVALID_PLAN : RLX_OK));
  return status.message();
}

template <class Edit>
std::string fault_of(TextSpec spec, const Edit& edit) {
  edit(spec);
  return fault_of(serialise(spec));
}

TextSpec small_pieces() {
  TextSpec spec = {.kind = fb::TokenizerKind::Unigram};
  spec.unknown = static_cast<int32_t>(spec.add("<unk>", fb::TokenKind::Unknown));
  spec.add("a", fb::TokenKind::Normal, -1);
  return spec;
}

TextSpec small_words() {
  TextSpec spec = {.kind = fb::TokenizerKind::WordPiece};
  spec.cleans_text = spec.separates_ideographs = spec.strips_accents = spec.lower_case = true;
  spec.joins_punctuation = true;
  spec.most_word_characters = 8;
  spec.unknown = static_cast<int32_t>(spec.add("[UNK]", fb::TokenKind::Control));
  for (const char* token : {" a", "a", " the"}) spec.add(token);
  return spec;
}

std::string charsmap_of(const std::vector<uint32_t>& units, std::string_view replacements) {
  const auto bytes = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
  std::string map(sizeof bytes + bytes, '\0');
  std::memcpy(map.data(), &bytes, sizeof bytes);
  std::memcpy(map.data() + sizeof bytes, units.data(), bytes);
  return map.append(replacements);
}

// A unit whose children lie at its own index exclusive-or `offset`.
uint32_t unit(uint32_t offset, char label, bool has_value = false) {
  return offset << 10U | (has_value ? 1U << 8U : 0U) | static_cast<unsigned char>(label);
}

// 'a' becomes the replacement at `value`.
std::vector<uint32_t> one_letter(uint32_t value) {
  std::vector<uint32_t> units(256);
  units[0] = unit(1, '\0');              // children at 1 ^ label
  units[1U ^ 'a'] = unit(2, 'a', true);  // its value at (1 ^ 'a') ^ 2
  units[1U ^ 'a' ^ 2U] = value | 1U << 31U;
  return units;
}

}  // namespace

TEST_CASE("bytes that are no section are refused") {
  CHECK(fault_of(std::vector<std::byte>{}) ==
        "text section: its 0 bytes are no well-formed buffer");
  CHECK(!fault_of(std::vector<std::byte>(100)).empty());
  std::vector<std::byte> cut = serialise(small_text());
  cut.resize(cut.size() / 2);
  CHECK(!fault_of(cut).empty());
}

TEST_CASE("every byte of a section may be another without harm") {
  TextSpec spec = small_pieces();
  spec.charsmap = charsmap_of(one_letter(0), std::string_view("b\0", 2));
  for (const TextSpec& whole : {small_text(), spec, small_words()}) {
    const std::vector<std::byte> right = serialise(whole);
    for (size_t i = 0; i < right.size(); ++i) {
      std::vector<std::byte> wrong = right;
      wrong[i] ^= std::byte{0x81};
      std::shared_ptr<const TextModel> model;
      if (!TextModel::open(wrong, model).ok()) continue;
      const std::vector<int32_t> ids = encode_trusted(*model, "the <|end|> a\u00E9 aa");
      static_cast<void>(decode(model, ids));
    }
  }
}

TEST_CASE("tokens that do not hold together are refused by number") {
  const TextSpec small = small_text();
  CHECK(fault_of({}, [](TextSpec&) {}) == "text section: it holds no tokens");
  CHECK(fault_of(small, [](TextSpec& spec) { spec.tokens[7].bytes.assign(1025, 'x'); }) ==
        "text section: token 7 has 1025 bytes, at most 1024 are taken");
  CHECK(fault_of(small, [](TextSpec& spec) { spec.tokens[7].kind = fb::TokenKind{9}; }) ==
        "text section: token 7 is of kind 9, which there is not");
  CHECK(fault_of(small, [](TextSpec& spec) { spec.tokens[257].kind = fb::TokenKind::Byte; }) ==
        "text section: token 257 stands for a byte and has 7");
  CHECK(fault_of(small, [](TextSpec& spec) { spec.split = fb::WordSplit{77}; }) ==
        "text section: there is no split of words 77");
  CHECK(fault_of(small, [](TextSpec& spec) { spec.kind = fb::TokenizerKind{4}; }) ==
        "text section: there is no tokenizer of kind 4");
}

TEST_CASE("ids that are no tokens are refused") {
  const TextSpec small = small_text();
  CHECK(fault_of(small, [](TextSpec& spec) { spec.begin = 262; }) ==
        "text section: its begin token is 262, there are 262");
  CHECK(fault_of(small, [](TextSpec& spec) { spec.end = -2; }) ==
        "text section: its end token is -2, there are 262");
  CHECK(fault_of(small, [](TextSpec& spec) {
          spec.stop_ids = {1, 300};
        }) == "text section: a stop token is 300, there are 262");
  CHECK(fault_of(small, [](TextSpec& spec) {
          spec.begin = -1;
          spec.add_begin = true;
        }) == "text section: texts are to start with a begin token, and it names none");
}

TEST_CASE("merges that do not fit the tokens are refused") {
  const TextSpec small = small_text();
  CHECK(fault_of(small, [](TextSpec& spec) { spec.merges.emplace_back('a', 1000, 'b'); }) ==
        "text section: merge 3 names token 1000, there are 262");
  CHECK(fault_of(small, [](TextSpec& spec) { spec.merges.emplace_back('a', 'b', 'c'); }) ==
        "text section: merge 3 of tokens 97 and 98 makes token 99, whose bytes are others");
}

TEST_CASE("scores are finite, one for each token") {
  CHECK(fault_of(small_pieces(), [](TextSpec& spec) {
          spec.tokens[1].score = std::numeric_limits<float>::quiet_NaN();
        }) == "text section: the score of token 1 is no finite number");
  flatbuffers::FlatBufferBuilder builder;
  const std::vector<uint8_t> bytes = {'a'};
  const std::vector<uint32_t> ends = {1};
  const std::vector<fb::TokenKind> kinds = {fb::TokenKind::Normal};
  builder.Finish(fb::CreateTextDirect(builder, fb::TokenizerKind::Scores, fb::WordSplit::Gpt2,
                                      &bytes, &ends, &kinds));
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  CHECK(fault_of({data, data + builder.GetSize()}) ==
        "text section: it has 1 tokens and scores of 0");
}

TEST_CASE("what a kind of tokenizer has no use for is refused by name") {
  CHECK(fault_of(small_text(), [](TextSpec& spec) { spec.add_space_prefix = true; }) ==
        "text section: a tokenizer of kind BytePairs has no use for \"add_space_prefix\"");
  CHECK(fault_of(small_pieces(), [](TextSpec& spec) { spec.nfc = true; }) ==
        "text section: a tokenizer of kind Unigram has no use for \"nfc\"");
  CHECK(fault_of(small_pieces(), [](TextSpec& spec) { spec.merges.emplace_back(0, 0, 0); }) ==
        "text section: a tokenizer of kind Unigram has no use for \"merges\"");
  CHECK(fault_of(small_pieces(), [](TextSpec& spec) {
          spec.add_space_prefix = false;
          spec.space_prefix_once = true;
        }) == "text section: a tokenizer of kind Unigram has no use for \"space_prefix_once\"");
}

TEST_CASE("a tokenizer of words names the unknown one, and its words have a length") {
  CHECK(fault_of(small_words(), [](TextSpec&) {}).empty());
  CHECK(fault_of(small_words(), [](TextSpec& spec) { spec.unknown = -1; }) ==
        "text section: its token for unknown words is -1, there are 4");
  CHECK(fault_of(small_words(), [](TextSpec& spec) { spec.unknown = 4; }) ==
        "text section: its token for unknown words is 4, there are 4");
  CHECK(fault_of(small_words(), [](TextSpec& spec) { spec.most_word_characters = 0; }) ==
        "text section: its words are to have at most 0 characters, wanted 1 or more");
  CHECK(fault_of(small_words(), [](TextSpec& spec) { spec.add_space_prefix = true; }) ==
        "text section: a tokenizer of kind WordPiece has no use for \"add_space_prefix\"");
  CHECK(fault_of(small_words(), [](TextSpec& spec) { spec.nfc = true; }) ==
        "text section: a tokenizer of kind WordPiece has no use for \"nfc\"");
  for (const auto rule :
       {&TextSpec::cleans_text, &TextSpec::separates_ideographs, &TextSpec::strips_accents,
        &TextSpec::lower_case, &TextSpec::joins_punctuation}) {
    CHECK(fault_of(small_pieces(), [rule](TextSpec& spec) {
            spec.*rule = true;
          }).starts_with("text section: a tokenizer of kind Unigram has no use for "));
  }
}

TEST_CASE("special tokens alone strip") {
  CHECK(fault_of(small_text(), [](TextSpec& spec) { spec.strips_right = {'a'}; }) ==
        "text section: strips_right has 97, which is no special token");
  CHECK(fault_of(small_text(), [](TextSpec& spec) { spec.strips_left = {262}; }) ==
        "text section: strips_left has 262, which is no special token");
}

TEST_CASE("templates have names of their own") {
  CHECK(fault_of(small_text(), [](TextSpec& spec) {
          spec.templates = {{"", "x"}, {"tools", "y"}, {"tools", "z"}};
        }) == "text section: two templates are named \"tools\"");
  CHECK(fault_of(small_text(), [](TextSpec& spec) {
          spec.templates = {{"", "\xFF"}};
        }) == "text section: template \"\" is no UTF-8");
}

TEST_CASE("a charsmap replaces, and one that a walk could leave is refused") {
  constexpr std::string_view kReplacements("b\0cc\0", 5);
  TextSpec spec = small_pieces();
  spec.add("b", fb::TokenKind::Normal, -1);
  spec.charsmap = charsmap_of(one_letter(0), kReplacements);
  CHECK(encode_typed(*open_text(spec), "aa") == std::vector{2, 2});
  const auto fault_with = [&spec](const std::vector<uint32_t>& units, std::string_view texts) {
    return fault_of(spec, [&](TextSpec& edited) { edited.charsmap = charsmap_of(units, texts); });
  };
  CHECK(fault_with(one_letter(1), kReplacements) ==
        "text section: its charsmap's unit 96 has no replacement");
  CHECK(fault_with(one_letter(5), kReplacements) ==
        "text section: its charsmap's unit 96 has no replacement");
  CHECK(fault_with(one_letter(0), "b") ==
        "text section: its charsmap's replacements are no UTF-8 with zeros behind");
  CHECK(fault_with(one_letter(0), std::string(49, 'b') + '\0') ==
        "text section: its charsmap replaces by 49 bytes, at most 48 are taken");
  // 'a' leads to itself.
  std::vector<uint32_t> endless = one_letter(0);
  endless[1U ^ 'a'] = unit('a', 'a');
  CHECK(fault_with(endless, kReplacements) ==
        "text section: its charsmap's trie goes on without end at unit 96");
  CHECK(fault_of(spec, [](TextSpec& edited) { edited.charsmap = "\xFF\xFF\xFF\xFFxx"; }) ==
        "text section: its charsmap has a trie of 4294967295 bytes, and 2 in all");
}
