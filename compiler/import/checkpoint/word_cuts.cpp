// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/checkpoint/word_cuts.h"

#include <string>

#include "compiler/import/checkpoint/tokenizer_json.h"
#include "compiler/import/names.h"

namespace rlx::checkpoint {
namespace {

#define RLX_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define RLX_LINES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define RLX_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" RLX_LINES
#define RLX_PATHS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" RLX_LINES
#define RLX_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define RLX_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
// Words that end where lower case turns into upper case, with what may stand behind them.
#define RLX_CASED(behind)                                                                         \
  "[^\\r\\n\\p{L}\\p{N}]?" RLX_UPPER "*" RLX_LOWER "+" behind "|[^\\r\\n\\p{L}\\p{N}]?" RLX_UPPER \
  "+" RLX_LOWER "*" behind "|"

// A pattern, what comes with it, and the name that GGUF files give all of it.
struct WordCut {
  std::string_view pattern;  // "": that of ByteLevel itself; several, one a line
  bool digits_first;         // each alone
  bool composes;             // Unicode's form C first
  bool ignores_merges;
  std::string_view name;
};
constexpr WordCut kWordCuts[] = {
    {"", false, false, false, "gpt-2"},
    {"", true, false, false, "smollm"},
    {RLX_CONTRACTIONS "\\p{N}{1,3}" RLX_REST, false, false, true, "llama-bpe"},
    {RLX_CONTRACTIONS "\\p{N}{1,3}" RLX_REST, false, false, false, "dbrx"},
    {RLX_CONTRACTIONS "\\p{N}" RLX_REST, false, true, false, "qwen2"},
    {RLX_CONTRACTIONS "\\p{N}" RLX_REST, false, false, false, "stablelm2"},
    {RLX_CASED("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "\\p{N}{1,3}" RLX_PATHS, false, false, false,
     "gpt-4o"},
    {RLX_CASED("") "\\p{N}" RLX_PATHS, false, false, true, "tekken"},
    {"\\p{N}{1,3}\n[一-龥\u3040-ゟ゠-ヿ]+\n[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
     "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*" RLX_LINES,
     false, false, false, "deepseek-v3"},
};

#undef RLX_CONTRACTIONS
#undef RLX_REST
#undef RLX_LINES
#undef RLX_PATHS
#undef RLX_UPPER
#undef RLX_LOWER
#undef RLX_CASED

struct FoundCut {
  std::string pattern;
  bool digits_first = false;
  bool cuts_by_itself = true;  // ByteLevel's own pattern
  bool has_bytes = false;      // the step ByteLevel
};

void add_split(const JsonObject& step, FoundCut& cut) {
  const std::string regex = pattern_of(step, "Regex");
  const bool is_plain = text_or_empty(step, "behavior") == "Isolated" && !is_true(step, "invert");
  if (regex.empty() || !is_plain)
    not_read("a tokenizer that cuts words by a pattern that is no isolated regular expression");
  cut.pattern += (cut.pattern.empty() ? "" : "\n") + regex;
}

FoundCut find_cut(const JsonObject& file) {
  FoundCut cut;
  for (const JsonObject* step : steps_of(file, "pre_tokenizer", "pretokenizers")) {
    const std::string type = text_or_empty(*step, "type");
    if (type == "Digits" && is_true(*step, "individual_digits") && !cut.has_bytes) {
      cut.digits_first = true;
    } else if (type == "Split" && !cut.has_bytes) {
      add_split(*step, cut);
    } else if (type == "ByteLevel") {
      if (is_true(*step, "add_prefix_space"))
        not_read("a byte-level tokenizer that puts a space in front of text");
      cut.has_bytes = true;
      cut.cuts_by_itself = is_true(*step, "use_regex", true);
    } else {
      not_read("a tokenizer whose words are cut by " + in_quotes(type));
    }
  }
  if (!cut.has_bytes) not_read("a tokenizer that is not byte-level");
  return cut;
}

bool has_form_c(const JsonObject& file) {
  bool composes = false;
  for (const JsonObject* step : steps_of(file, "normalizer", "normalizers")) {
    const std::string type = text_or_empty(*step, "type");
    if (type != "NFC") not_read("a tokenizer that normalizes text by " + in_quotes(type));
    composes = true;
  }
  return composes;
}

}  // namespace

std::string_view name_of_cut(const JsonObject& file, const JsonObject& model) {
  const FoundCut cut = find_cut(file);
  const bool composes = has_form_c(file);
  const bool ignores_merges = is_true(model, "ignore_merges");
  for (const WordCut& known : kWordCuts) {
    if (known.pattern == cut.pattern && known.digits_first == cut.digits_first &&
        known.composes == composes && known.ignores_merges == ignores_merges &&
        cut.cuts_by_itself == cut.pattern.empty())
      return known.name;
  }
  if (cut.pattern.empty() && !cut.cuts_by_itself)
    not_read("a byte-level tokenizer that does not cut text into words");
  const std::string cuts = cut.pattern.empty() ? "ByteLevel's own pattern" : in_quotes(cut.pattern);
  const bool cuts_again = cut.cuts_by_itself && !cut.pattern.empty();
  not_read("a tokenizer that cuts words by " + cuts + (cuts_again ? " and ByteLevel's own" : "") +
           (cut.digits_first ? ", digits first" : "") +
           (composes ? ", brings text into form C" : "") +
           (ignores_merges ? ", ignores merges" : ""));
}

}  // namespace rlx::checkpoint
