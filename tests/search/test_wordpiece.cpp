// SPDX-License-Identifier: Apache-2.0
// The tokenizer of examples/search. Expected words and ids are those of Hugging Face's tokenizers.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "examples/search/wordpiece.h"
#include "tests/support/catch.h"

namespace {

using search::basic_tokens;
using search::WordPiece;
using Words = std::vector<std::string>;
using Ids = std::vector<int64_t>;

// A vocabulary file that goes with the object.
class VocabularyFile {
 public:
  explicit VocabularyFile(const std::string& text) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "rlx-vocabulary-XXXXXX").string();
    const int file = ::mkstemp(pattern.data());
    REQUIRE(file >= 0);
    ::close(file);
    path_ = pattern;
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~VocabularyFile() { std::filesystem::remove(path_); }
  VocabularyFile(const VocabularyFile&) = delete;
  VocabularyFile& operator=(const VocabularyFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Ids 0 to 13 in the order of the lines.
const char* const kPieces =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\nword\n##ly\n,\n##s\nw\n##ord\ncafe\n";

std::string fault_of(const std::string& path) {
  try {
    const WordPiece pieces(path);
  } catch (const std::exception& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace

TEST_CASE("words are lower-cased, and punctuation marks are words of their own") {
  CHECK(basic_tokens("Don't stop-me: (now) $5!") ==
        Words{"don", "'", "t", "stop", "-", "me", ":", "(", "now", ")", "$", "5", "!"});
  CHECK(basic_tokens("[CLS] ##ing a_b ~^`|") ==
        Words{"[", "cls", "]", "#", "#", "ing", "a", "_", "b", "~", "^", "`", "|"});
  CHECK(basic_tokens("\u00bfQu\u00e9? \u2026\u2014\u201cx\u201d") ==
        Words{"\u00bf", "que", "?", "\u2026", "\u2014", "\u201c", "x", "\u201d"});
}

TEST_CASE("accents come off, composed or not, and letters keep what is no accent") {
  CHECK(basic_tokens("\u00dcn\u00efc\u00f6d\u00e9 caf\u00e9 cafe\u0301 A\u030angstr\u00f6m") ==
        Words{"unicode", "cafe", "cafe", "angstrom"});
  CHECK(basic_tokens("stra\u00dfe \u00d8l \u0152uvre \u0130stanbul") ==
        Words{"stra\u00dfe", "\u00f8l", "\u0153uvre", "istanbul"});
  CHECK(basic_tokens("\u03a3\u0399\u03a3\u03a5\u03a6\u039f\u03a3") ==
        Words{"\u03c3\u03b9\u03c3\u03c5\u03c6\u03bf\u03c3"});
  CHECK(basic_tokens("\u00bd \u2122 \ufb01") == Words{"\u00bd", "\u2122", "\ufb01"});
}

TEST_CASE("ideographs stand alone; kana and hangul make words") {
  CHECK(basic_tokens("\u6f22\u5b57\u3068\u304b\u306a a\u4e2db") ==
        Words{"\u6f22", "\u5b57", "\u3068\u304b\u306a", "a", "\u4e2d", "b"});
  CHECK(basic_tokens("\U00020000\U0002a700") == Words{"\U00020000", "\U0002a700"});
  CHECK(basic_tokens("\ud55c") == Words{"\u1112\u1161\u11ab"});
}

TEST_CASE("control characters vanish, white space of any kind parts words") {
  CHECK(basic_tokens(std::string("a\0b\x01\x7f", 5) + "c\u200bd\u00ade\ufeff\ufffd") ==
        Words{"abcde"});
  CHECK(basic_tokens(" a\tb\rc\nd\u00a0e\u2028f\u3000g ") ==
        Words{"a", "b", "c", "d", "e", "f", "g"});
  CHECK(basic_tokens("a\vb\fc\u0085d") == Words{"abcd"});
  CHECK(basic_tokens("").empty());
  CHECK(basic_tokens(" \t\u2003").empty());
}

TEST_CASE("bytes that are not UTF-8 are dropped one by one") {
  CHECK(basic_tokens("a\xff\xc3\x28z\xe2\x82") == Words{"a", "(", "z"});
  CHECK(basic_tokens("\xed\xa0\x80x\xf8\x88\x80\x80\x80y") == Words{"xy"});
}

TEST_CASE("a word is the longest pieces from its beginning, or unknown as a whole") {
  const VocabularyFile file(kPieces);
  const WordPiece pieces(file.path());
  CHECK(pieces.encode("Unaffable words, wordly", 32) == Ids{2, 4, 5, 6, 7, 10, 9, 7, 8, 3});
  CHECK(pieces.encode("caf\u00e9 w\u00f6rds", 32) == Ids{2, 13, 7, 10, 3});
  CHECK(pieces.encode("unhappy un", 32) == Ids{2, 1, 4, 3});
  CHECK(pieces.encode("\u6f22words", 32) == Ids{2, 1, 7, 10, 3});
  CHECK(pieces.encode("[SEP]", 32) == Ids{2, 1, 1, 1, 3});
  CHECK(pieces.encode("", 32) == Ids{2, 3});
}

TEST_CASE("a word of more than 100 characters, not bytes, is unknown") {
  const VocabularyFile file("[UNK]\n[CLS]\n[SEP]\n\u00f8\n##\u00f8\n");
  const WordPiece pieces(file.path());
  std::string word;
  for (int i = 0; i < 100; ++i) word += "\u00f8";
  CHECK(pieces.encode(word, 256).size() == 102);
  CHECK(pieces.encode(word + "\u00f8", 256) == Ids{1, 0, 2});
}

TEST_CASE("a long text is cut, its last token is the end") {
  const VocabularyFile file(kPieces);
  const WordPiece pieces(file.path());
  CHECK(pieces.encode("unaffable word", 5) == Ids{2, 4, 5, 6, 3});
  CHECK(pieces.encode("unaffable word", 4) == Ids{2, 4, 5, 3});
  CHECK(pieces.encode("unaffable word", 2) == Ids{2, 3});
  CHECK_THROWS_AS(pieces.encode("word", 1), std::runtime_error);
}

TEST_CASE("what is no vocabulary is refused with its fault") {
  const VocabularyFile unmarked("[PAD]\n[UNK]\nword\n");
  CHECK(fault_of(unmarked.path()).find("no piece [CLS]") != std::string::npos);
  const VocabularyFile doubled("[UNK]\r\n[CLS]\r\n[SEP]\r\n[CLS]\r\n");
  CHECK(fault_of(doubled.path()).find("line 4: \"[CLS]\" stands there twice") != std::string::npos);
  CHECK(fault_of("/nonexistent/vocab.txt").find("cannot be opened") != std::string::npos);
}
