// SPDX-License-Identifier: Apache-2.0
// How byte-level BPE cuts text into words: each alternative of a family's pattern is a function
// that says how many characters it takes, and finds what a backtracking matcher would.
#include "runtime/text/word_split.h"

#include <algorithm>
#include <span>

#include "runtime/text/characters.h"

namespace rlx {
namespace {

using Characters = std::span<const Character>;
// How many of the characters the pattern takes from the first on; 0: it takes none.
using Matcher = size_t (*)(Characters);

constexpr size_t kMostDigits = 3;

// ---- Pieces of patterns ----

bool is_at(Characters text, size_t at, uint32_t traits) {
  return at < text.size() && text[at].is(traits);
}

bool is_code_at(Characters text, size_t at, char32_t code) {
  return at < text.size() && text[at].code == code;
}

// Neither of these, and a character at all.
bool is_other_at(Characters text, size_t at, uint32_t traits) {
  return at < text.size() && !text[at].is(traits);
}

// Where the characters from `at` on stop to have one of the traits.
size_t run_end(Characters text, size_t at, uint32_t traits) {
  while (is_at(text, at, traits)) ++at;
  return at;
}

size_t other_run_end(Characters text, size_t at, uint32_t traits) {
  while (is_other_at(text, at, traits)) ++at;
  return at;
}

// \s+(?!\S)|\s+
size_t spaces(Characters text) {
  const size_t end = run_end(text, 0, kSpace);
  return end < text.size() && end > 1 ? end - 1 : end;
}

// \s*[\r\n]+
size_t lines(Characters text) {
  for (size_t end = run_end(text, 0, kSpace); end > 0; --end)
    if (text[end - 1].is(kLineEnd)) return end;
  return 0;
}

// \p{N}{1,most}
size_t digits(Characters text, size_t most) {
  return run_end(text.first(std::min(text.size(), most)), 0, kNumber);
}

enum class Case : uint8_t { AsWritten, Any };

char32_t folded(char32_t code, Case letters) {
  if (letters == Case::AsWritten) return code;
  if (code == 0x17F) return 's';  // the long s is an s of another case
  return code >= 'A' && code <= 'Z' ? code - 'A' + 'a' : code;
}

// 's|'t|'re|'ve|'m|'ll|'d
size_t contraction(Characters text, Case letters) {
  if (text.size() < 2 || text[0].code != '\'') return 0;
  const char32_t first = folded(text[1].code, letters);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (text.size() < 3) return 0;
  const char32_t second = folded(text[2].code, letters);
  const bool is_pair =
      ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return is_pair ? 3 : 0;
}

size_t first_of(Characters text, std::span<const Matcher> alternatives) {
  for (const Matcher matcher : alternatives)
    if (const size_t taken = matcher(text); taken > 0) return taken;
  return 0;
}

// ---- GPT-2 ----

// ' ?' and a run of one kind
size_t spaced_run(Characters text) {
  const size_t at = is_code_at(text, 0, ' ') ? 1 : 0;
  if (is_at(text, at, kLetter)) return run_end(text, at, kLetter);
  if (is_at(text, at, kNumber)) return run_end(text, at, kNumber);
  constexpr uint32_t kOthers = kSpace | kLetter | kNumber;
  return is_other_at(text, at, kOthers) ? other_run_end(text, at, kOthers) : 0;
}

size_t written_contraction(Characters text) {
  return contraction(text, Case::AsWritten);
}

size_t gpt2_word(Characters text) {
  constexpr Matcher kAlternatives[] = {written_contraction, spaced_run, spaces};
  return first_of(text, kAlternatives);
}

size_t one_number(Characters text) {
  return digits(text, 1);
}

size_t three_numbers(Characters text) {
  return digits(text, kMostDigits);
}

// ---- Llama 3 and its kin ----

// [^\r\n\p{L}\p{N}], which may stand before a word
bool is_before_word(Characters text) {
  return is_other_at(text, 0, kLineEnd | kLetter | kNumber);
}

// [^\r\n\p{L}\p{N}]?\p{L}+
size_t prefixed_letters(Characters text) {
  const size_t at = is_before_word(text) ? 1 : 0;
  return is_at(text, at, kLetter) ? run_end(text, at, kLetter) : 0;
}

size_t any_contraction(Characters text) {
  return contraction(text, Case::Any);
}

// ' ?[^\s\p{L}\p{N}]+'; 0 where there is none
size_t spaced_signs(Characters text) {
  constexpr uint32_t kOthers = kSpace | kLetter | kNumber;
  const size_t at = is_code_at(text, 0, ' ') ? 1 : 0;
  return is_other_at(text, at, kOthers) ? other_run_end(text, at, kOthers) : 0;
}

// ' ?[^\s\p{L}\p{N}]+[\r\n]*'
size_t signs_and_lines(Characters text) {
  const size_t end = spaced_signs(text);
  return end == 0 ? 0 : run_end(text, end, kLineEnd);
}

size_t llama3_word(Characters text) {
  constexpr Matcher kAlternatives[] = {
      any_contraction, prefixed_letters, three_numbers, signs_and_lines, lines, spaces};
  return first_of(text, kAlternatives);
}

size_t qwen2_word(Characters text) {
  constexpr Matcher kAlternatives[] = {
      any_contraction, prefixed_letters, one_number, signs_and_lines, lines, spaces};
  return first_of(text, kAlternatives);
}

// ---- GPT-4o and its kin ----

constexpr uint32_t kUpperPart = kUpper | kOtherLetter | kMark;
constexpr uint32_t kLowerPart = kLower | kOtherLetter | kMark;

// [upper part]*[lower part]+
size_t lower_word(Characters text, size_t at) {
  size_t upper_end = run_end(text, at, kUpperPart);
  if (is_at(text, upper_end, kLowerPart)) return run_end(text, upper_end, kLowerPart);
  // The lower part takes the last of the upper part's that may be its own.
  for (; upper_end > at; --upper_end)
    if (text[upper_end - 1].is(kLowerPart)) return upper_end;
  return 0;
}

// [upper part]+[lower part]*
size_t upper_word(Characters text, size_t at) {
  const size_t upper_end = run_end(text, at, kUpperPart);
  return upper_end == at ? 0 : run_end(text, upper_end, kLowerPart);
}

// A word of either form; the character before it is left out where it must be.
size_t cased_word(Characters text) {
  using Form = size_t (*)(Characters, size_t);
  for (const Form form : {Form{lower_word}, Form{upper_word}}) {
    if (is_before_word(text)) {
      if (const size_t end = form(text, 1); end > 0) return end;
    }
    if (const size_t end = form(text, 0); end > 0) return end;
  }
  return 0;
}

size_t cased_word_and_contraction(Characters text) {
  const size_t end = cased_word(text);
  return end == 0 ? 0 : end + contraction(text.subspan(end), Case::Any);
}

// ' ?[^\s\p{L}\p{N}]+[\r\n/]*'
size_t signs_lines_slashes(Characters text) {
  size_t end = spaced_signs(text);
  if (end == 0) return 0;
  while (is_at(text, end, kLineEnd) || is_code_at(text, end, '/')) ++end;
  return end;
}

size_t gpt4o_word(Characters text) {
  constexpr Matcher kAlternatives[] = {cased_word_and_contraction, three_numbers,
                                       signs_lines_slashes, lines, spaces};
  return first_of(text, kAlternatives);
}

size_t tekken_word(Characters text) {
  constexpr Matcher kAlternatives[] = {cased_word, one_number, signs_lines_slashes, lines, spaces};
  return first_of(text, kAlternatives);
}

// ---- DeepSeek 3 ----

// Ideographs, hiragana and katakana: [U+4E00-U+9FA5 U+3040-U+309F U+30A0-U+30FF]+
size_t cjk_run(Characters text) {
  const auto end = std::find_if_not(text.begin(), text.end(), [](const Character& character) {
    const char32_t code = character.code;
    return (code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF);
  });
  return static_cast<size_t>(end - text.begin());
}

bool is_ascii_letter(char32_t code) {
  return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
}

// An ASCII sign and [A-Za-z]+
size_t sign_and_ascii_word(Characters text) {
  if (!is_at(text, 0, kPunctuation | kSymbol) || text[0].code >= 0x80) return 0;
  size_t end = 1;
  while (end < text.size() && is_ascii_letter(text[end].code)) ++end;
  return end > 1 ? end : 0;
}

// [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
size_t marked_letters(Characters text) {
  constexpr uint32_t kNotBefore = kLineEnd | kLetter | kPunctuation | kSymbol;
  constexpr uint32_t kWord = kLetter | kMark;
  const bool has_prefix = is_other_at(text, 0, kNotBefore) && is_at(text, 1, kWord);
  const size_t at = has_prefix ? 1 : 0;
  return is_at(text, at, kWord) ? run_end(text, at, kWord) : 0;
}

// ' ?[\p{P}\p{S}]+[\r\n]*'
size_t spaced_punctuation(Characters text) {
  const size_t at = is_code_at(text, 0, ' ') ? 1 : 0;
  const size_t end = run_end(text, at, kPunctuation | kSymbol);
  return end == at ? 0 : run_end(text, end, kLineEnd);
}

size_t deepseek3_word(Characters text) {
  constexpr Matcher kAlternatives[] = {sign_and_ascii_word, marked_letters, spaced_punctuation,
                                       lines, spaces};
  return first_of(text, kAlternatives);
}

// ---- Default ----

// [\p{P}$+<=>^~|]+
size_t punctuation_run(Characters text) {
  static constexpr std::u32string_view kSigns = U"$+<=>^~|";
  const auto end = std::find_if_not(text.begin(), text.end(), [](const Character& character) {
    return character.is(kPunctuation) || kSigns.find(character.code) != kSigns.npos;
  });
  return static_cast<size_t>(end - text.begin());
}

size_t number_run(Characters text) {
  return run_end(text, 0, kNumber);
}

// [0-9][0-9][0-9]
size_t three_ascii_digits(Characters text) {
  if (text.size() < kMostDigits) return 0;
  const Characters three = text.first(kMostDigits);
  const bool is_number = std::all_of(three.begin(), three.end(), [](const Character& character) {
    return character.code >= '0' && character.code <= '9';
  });
  return is_number ? kMostDigits : 0;
}

// ---- Families ----

// Cuts one after the other, each within the parts that those before it left.
constexpr Matcher kGpt2[] = {gpt2_word};
constexpr Matcher kDigitsGpt2[] = {one_number, gpt2_word};
constexpr Matcher kLlama3[] = {llama3_word};
constexpr Matcher kQwen2[] = {qwen2_word};
constexpr Matcher kGpt4o[] = {gpt4o_word};
constexpr Matcher kTekken[] = {tekken_word};
constexpr Matcher kDeepSeek3[] = {three_numbers, cjk_run, deepseek3_word};
constexpr Matcher kDefault[] = {punctuation_run, gpt2_word, number_run, three_ascii_digits};

// In the order of fb::WordSplit.
constexpr std::span<const Matcher> kFamilies[] = {kGpt2,  kDigitsGpt2, kLlama3,    kQwen2,
                                                  kGpt4o, kTekken,     kDeepSeek3, kDefault};
static_assert(std::size(kFamilies) == static_cast<size_t>(fb::WordSplit::MAX) + 1);

// Appends the parts into which the pattern cuts a part: its matches, and what lies between them.
void cut(Characters part, Matcher matcher, std::vector<Characters>& parts) {
  size_t gap = 0;  // where what no match took begins
  for (size_t at = 0; at < part.size();) {
    const size_t taken = matcher(part.subspan(at));
    if (taken > 0) {
      if (gap < at) parts.push_back(part.subspan(gap, at - gap));
      parts.push_back(part.subspan(at, taken));
    }
    at += std::max<size_t>(taken, 1);
    if (taken > 0) gap = at;
  }
  if (gap < part.size()) parts.push_back(part.subspan(gap));
}

std::string_view bytes_of_part(std::string_view text, Characters part) {
  const Character& last = part.back();
  return text.substr(part.front().begin, last.begin + last.bytes - part.front().begin);
}

}  // namespace

std::vector<std::string_view> split_words(fb::WordSplit family, std::string_view text) {
  const std::vector<Character> characters = characters_of(text);
  std::vector<Characters> parts = {characters};
  for (const Matcher matcher : kFamilies[static_cast<size_t>(family)]) {
    std::vector<Characters> cut_parts;
    for (const Characters part : parts) cut(part, matcher, cut_parts);
    parts = std::move(cut_parts);
  }
  std::vector<std::string_view> words;
  words.reserve(parts.size());
  for (const Characters part : parts) words.push_back(bytes_of_part(text, part));
  return words;
}

}  // namespace rlx
