// SPDX-License-Identifier: Apache-2.0
// Ids are those of Hugging Face's tokenizers, and of SentencePiece.
#include <chrono>

#include "runtime/include/rlx_text.h"
#include "runtime/text/stream.h"
#include "tests/support/catch.h"
#include "tests/text/case_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// Time that no text may take, by far; what goes with a square takes minutes.
constexpr std::chrono::seconds kMost{30};

TextSpec repeated_pairs() {
  TextSpec spec = byte_text();
  uint32_t run = 'a';
  for (int i = 0; i < 6; ++i) run = spec.merge(run, run);
  return spec;
}

std::string repeated(std::string_view part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += part;
  return text;
}

}  // namespace

TEST_CASE("each family of word splits gives the ids of its pattern") {
  const nlohmann::json cases = read_cases("byte_pairs");
  for (const fb::WordSplit split : fb::EnumValuesWordSplit()) {
    const std::string name = fb::EnumNameWordSplit(split);
    INFO(name);
    TextSpec spec = byte_pairs_text(cases, Specials::None);
    spec.split = split;
    const auto model = open_text(spec);
    check_ids(*model, cases["texts"], cases["families"][name]);
    for (const std::string text : cases["texts"])
      CHECK(decode(model, encode_typed(*model, text)) == text);
  }
}

TEST_CASE("text is brought into form C where the section says so") {
  const nlohmann::json cases = read_cases("byte_pairs");
  TextSpec spec = byte_pairs_text(cases, Specials::None);
  spec.split = fb::WordSplit::Qwen2;
  spec.nfc = true;
  check_ids(*open_text(spec), cases["texts"], cases["nfc"]);
}

TEST_CASE("a word that is a token stays whole where the section says so") {
  const nlohmann::json cases = read_cases("byte_pairs");
  TextSpec spec = byte_pairs_text(cases, Specials::None);
  spec.split = fb::WordSplit::Llama3;
  spec.ignore_merges = true;
  check_ids(*open_text(spec), cases["texts"], cases["ignore_merges"]);
  // No merge makes this one.
  const uint32_t word = spec.add("zqz");
  CHECK(encode_typed(*open_text(spec), "zqz").at(0) == static_cast<int32_t>(word));
  spec.ignore_merges = false;
  CHECK(encode_typed(*open_text(spec), "zqz").size() == 3);
}

TEST_CASE("special tokens are found first, the longest of those that begin at a place") {
  const nlohmann::json cases = read_cases("byte_pairs");
  TextSpec spec = byte_pairs_text(cases, Specials::All);
  spec.split = fb::WordSplit::Llama3;
  const auto model = open_text(spec);
  check_ids(*model, cases["texts"], cases["trusted"], true);
  check_ids(*model, cases["texts"], cases["typed"], false);
}

TEST_CASE("scores give the ids of SentencePiece's BPE") {
  const nlohmann::json cases = read_cases("scores");
  const auto model = open_text(pieces_text(cases, fb::TokenizerKind::Scores));
  check_ids(*model, cases["texts"], cases["ids"]);
  for (const std::string text : cases["texts"])
    CHECK(decode(model, encode_typed(*model, text)) == text);
}

TEST_CASE("unigram gives the ids of SentencePiece, with what its charsmap replaces") {
  const nlohmann::json cases = read_cases("unigram");
  const auto model = open_text(pieces_text(cases, fb::TokenizerKind::Unigram));
  check_ids(*model, cases["texts"], cases["ids"]);
}

TEST_CASE("word pieces: normalised words of the longest tokens, or one for the unknown") {
  TextSpec spec = {.kind = fb::TokenizerKind::WordPiece,
                   .cleans_text = true,
                   .separates_ideographs = true,
                   .strips_accents = true,
                   .lower_case = true,
                   .most_word_characters = 6};
  spec.unknown = static_cast<int32_t>(spec.add("[UNK]", fb::TokenKind::Control));
  for (const char* token : {" cafe", " caf", "e", "es", " \u4E16", " !", " ", " e", "a"})
    spec.add(token);
  const auto ids = [&spec](std::string_view text) { return encode_typed(*open_text(spec), text); };
  using Ids = std::vector<int32_t>;
  CHECK(ids("Caf\u00C9es cafe\u0301 \u200Bcafee") == Ids{1, 4, 1, 1, 3});
  // The longest token comes first, with no way back to a shorter one.
  CHECK(ids("cafes") == Ids{0});
  CHECK(ids("\u4E16\u4E16!!e") == Ids{5, 5, 6, 6, 8});
  // A part that no token begins with, and a word of seven characters.
  CHECK(ids("cafx eeeeee eeeeeee") == Ids{0, 8, 3, 3, 3, 3, 3, 0});
  CHECK(ids(" \t\n").empty());
  // What a user typed never makes a control token.
  CHECK(ids("[UNK]") == Ids{0, 0, 0});
  CHECK(encode_trusted(*open_text(spec), "[UNK]") == Ids{0});
  CHECK(decode(open_text(spec), {1, 4, 6, 8}) == "cafees ! e");
  CHECK(decode(open_text(spec), {0, 1, 0, 3, 6}) == "[UNK] cafe [UNK]e !");
  spec.joins_punctuation = true;
  CHECK(decode(open_text(spec), {1, 4, 6, 8}) == "cafees! e");
  CHECK(decode(open_text(spec), {6, 6}) == "!!");
  spec.strips_accents = spec.lower_case = spec.separates_ideographs = spec.cleans_text = false;
  CHECK(ids("caf\u00E9 Cafe \u4E16\u4E16 cafe\u00A0e\u200B") == Ids{0, 0, 0, 1, 0});
  spec.lower_case = true;
  // Its lower case has two characters.
  spec.add(" i");
  spec.add("\u0307");
  CHECK(ids("\u0130") == Ids{10, 11});
}

TEST_CASE("words give the ids of BERT's checkpoints, and their texts") {
  const nlohmann::json cases = read_cases("words");
  for (const auto& [name, trusted] : cases["trusted"].items()) {
    INFO(name);
    const auto model = open_text(words_text(cases, name));
    check_ids(*model, cases["texts"], trusted, true);
    check_ids(*model, cases["texts"], cases["typed"][name]);
    REQUIRE(cases["shown"][name].size() == trusted.size());
    for (size_t i = 0; i < trusted.size(); ++i) {
      INFO(i);
      CHECK(decode(model, cases["typed"][name][i]) == cases["shown"][name][i].get<std::string>());
    }
  }
}

TEST_CASE("control tokens that are hidden leave the words around them apart") {
  const nlohmann::json cases = read_cases("words");
  const auto model = open_text(words_text(cases, "words"));
  TokenStream stream(model, ControlTokens::Hidden);
  std::string text;
  for (const int32_t id : encode_trusted(*model, "[CLS]the kernel[SEP] to<|end|>!")) {
    std::string_view shown;
    REQUIRE(stream.put(id, shown).ok());
    text += shown;
  }
  CHECK(text + std::string(stream.end()) == "the kernel to!");
}

TEST_CASE("pieces merged by rank, and special tokens that strip, give the ids of checkpoints") {
  const nlohmann::json cases = read_cases("pieces");
  for (const auto& [name, trusted] : cases["trusted"].items()) {
    INFO(name);
    const auto model = open_text(checkpoint_text(cases, name));
    check_ids(*model, cases["texts"], trusted, true);
    check_ids(*model, cases["texts"], cases["typed"][name]);
  }
}

TEST_CASE("a space that stands before the whole text alone is taken away there alone") {
  const nlohmann::json cases = read_cases("pieces");
  const auto at_start = open_text(checkpoint_text(cases, "prefix_at_start"));
  const auto everywhere = open_text(checkpoint_text(cases, "prefix"));
  for (const std::string text : {"the<tool> the", "<tool> a", "a"}) {
    CHECK(decode(at_start, encode_typed(*at_start, text)) == text);
    CHECK(decode(everywhere, encode_typed(*everywhere, text)) == text);
  }
}

TEST_CASE("control tokens come from trusted text alone, user-defined ones from any") {
  const TextSpec spec = small_text();
  const auto model = open_text(spec);
  constexpr int32_t kBegin = 256;
  constexpr int32_t kTool = 258;
  CHECK(encode_trusted(*model, "<|begin|>") == std::vector{kBegin});
  CHECK(encode_typed(*model, "<|begin|>").size() == 9);
  CHECK(encode_typed(*model, "<tool>") == std::vector{kTool});
  // A name that both pieces make together is nobody's.
  CHECK(encode(*model, {{"<|beg", true}, {"in|>", false}}).size() == 9);
  CHECK(encode(*model, {{"<|beg", true}, {"in|>", true}}) == std::vector{kBegin});
  CHECK(encode(*model, {{"<to", true}, {"ol>", false}}) == std::vector{kTool});
  CHECK(encode(*model, {{"<|begin|>", true}, {"<|begin|>", false}}).size() == 10);
}

TEST_CASE("no merge makes a control token of typed text") {
  TextSpec spec = small_text();
  const uint32_t joined = spec.merge('<', '/');
  CHECK(encode_typed(*open_text(spec), "</").size() == 1);
  spec.tokens[joined].kind = fb::TokenKind::Control;
  CHECK(encode_typed(*open_text(spec), "</").size() == 2);
  CHECK(encode_trusted(*open_text(spec), "</").size() == 1);
}

TEST_CASE("words and merges go across the border of pieces") {
  const auto model = open_text(small_text());
  const std::vector<int32_t> whole = encode_trusted(*model, "of the end");
  CHECK(encode(*model, {{"of t", true}, {"", true}, {"h", false}, {"e end", true}}) == whole);
  // A character too.
  CHECK(encode(*model, {{"\xC3", true}, {"\xA9", false}}) == encode_typed(*model, "\xC3\xA9"));
}

TEST_CASE("begin and end are added where the model wants them and the caller asks") {
  TextSpec spec = small_text();
  CHECK(encode(*open_text(spec), {{"a", false}}, RLX_TEXT_ADD_SPECIAL) == std::vector<int32_t>{97});
  spec.add_begin = true;
  spec.add_end = true;
  const auto model = open_text(spec);
  CHECK(encode(*model, {{"a", false}}, RLX_TEXT_ADD_SPECIAL) == std::vector{256, 97, 257});
  CHECK(encode(*model, {}, RLX_TEXT_ADD_SPECIAL) == std::vector{256, 257});
  CHECK(encode(*model, {{"a", false}}, 0) == std::vector<int32_t>{97});
}

TEST_CASE("what is no UTF-8 is U+FFFD, once for each start of a character") {
  const auto model = open_text(byte_text());
  const auto as_text = [&model](std::string_view bytes) {
    return decode(model, encode_typed(*model, bytes));
  };
  CHECK(as_text("a\xFFz") == "a\uFFFDz");
  CHECK(as_text("\xE2\x82") == "\uFFFD");
  CHECK(as_text("\xE2\x82z") == "\uFFFDz");
  CHECK(as_text("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");
  CHECK(as_text("\xC0\xAF") == "\uFFFD\uFFFD");
  CHECK(as_text("\xF0\x9F\x98\xE2\x82\xAC") == "\uFFFD\u20AC");
  CHECK(as_text("\xF4\x90\x80\x80") == "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST_CASE("a byte that no token has is left out, and its neighbours may merge") {
  TextSpec spec = small_text();
  const uint32_t te = spec.merge('t', 'e');
  spec.tokens['h'].kind = fb::TokenKind::Unused;
  CHECK(encode_typed(*open_text(spec), "the") == std::vector{static_cast<int32_t>(te)});
}

TEST_CASE("characters that no piece has are bytes, or one unknown token in a row") {
  TextSpec spec = {.kind = fb::TokenizerKind::Scores};
  spec.unknown = static_cast<int32_t>(spec.add("<unk>", fb::TokenKind::Unknown));
  spec.add("a", fb::TokenKind::Normal, -1);
  for (const fb::TokenizerKind kind : {fb::TokenizerKind::Scores, fb::TokenizerKind::Unigram}) {
    spec.kind = kind;
    CHECK(encode_typed(*open_text(spec), "aé\u20ACaz") == std::vector{1, 0, 1, 0});
  }
  spec.tokens[0].kind = fb::TokenKind::Control;  // which no typed text makes
  CHECK(encode_typed(*open_text(spec), "a\u00E9\u20ACaz") == std::vector{1, 1});
  spec.tokens[0].kind = fb::TokenKind::Unknown;
  spec.add("\xC3", fb::TokenKind::Byte);
  spec.add("\xA9", fb::TokenKind::Byte);
  CHECK(encode_typed(*open_text(spec), "aé\u20ACa") == std::vector{1, 2, 3, 0, 1});
}

TEST_CASE("a space stands before text behind special tokens, and decoding takes it away") {
  TextSpec spec = {.kind = fb::TokenizerKind::Scores};
  spec.add_space_prefix = true;
  spec.add("\u2581", fb::TokenKind::Normal, -2);
  spec.add("a", fb::TokenKind::Normal, -2);
  spec.add("\u2581a", fb::TokenKind::Normal, -1);
  spec.add("<s>", fb::TokenKind::Control);
  spec.add("<\u2581>", fb::TokenKind::Control);
  const auto model = open_text(spec);
  CHECK(encode_trusted(*model, "<\u2581>a") == std::vector{4, 2});
  CHECK(encode_trusted(*model, "a<s>a a") == std::vector{2, 3, 2, 2});
  CHECK(decode(model, {2, 3, 2, 2}) == "a<s>a a");
  CHECK(encode_trusted(*model, "<s>") == std::vector{3});
}

TEST_CASE("hostile texts take no square of their length") {
  const auto start = std::chrono::steady_clock::now();
  const auto pairs = open_text(repeated_pairs());
  constexpr size_t kLength = 256000;
  CHECK(encode_typed(*pairs, std::string(kLength, 'a')).size() == kLength / 64);
  CHECK(encode_typed(*pairs, std::string(kLength, ' ')).size() == kLength);
  TextSpec spec = small_text();
  spec.nfc = true;
  spec.split = fb::WordSplit::Gpt4o;
  const auto marks = open_text(spec);
  // Marks whose order changes, and upper case that looks back for lower.
  CHECK(!encode_typed(*marks, "a" + repeated("\u0301\u0327", kLength / 4)).empty());
  CHECK(!encode_typed(*marks, repeated("\u4E2DB", kLength / 4)).empty());
  CHECK(!encode_trusted(*marks, repeated("<|begin|", kLength / 8)).empty());
  TextSpec pieces = {.kind = fb::TokenizerKind::Unigram};
  for (size_t length = 1; length <= 64; ++length)
    pieces.add(std::string(length, 'a'), fb::TokenKind::Normal, -1);
  CHECK(encode_typed(*open_text(pieces), std::string(kLength, 'a')).size() == kLength / 64);
  // One word, of which the first token is one character and the others as long as they may be.
  TextSpec words = {.kind = fb::TokenizerKind::WordPiece, .strips_accents = true};
  words.most_word_characters = kLength;
  words.unknown = static_cast<int32_t>(words.add("[UNK]", fb::TokenKind::Control));
  words.add(" a");
  for (size_t length = 1; length <= 64; ++length) words.add(std::string(length, 'a'));
  const std::string word(kLength - 63, 'a');
  CHECK(encode_typed(*open_text(words), word).size() == kLength / 64);
  CHECK(encode_typed(*open_text(words), word + "b") == std::vector{0});
  CHECK(std::chrono::steady_clock::now() - start < kMost);
}
