// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE: text is cut into words, a word's bytes are merged by rank.
#include "runtime/text/byte_pairs.h"

#include <array>

#include "runtime/text/merge_symbols.h"
#include "runtime/text/merge_table.h"
#include "runtime/text/normal_form.h"
#include "runtime/text/section.h"
#include "runtime/text/token_index.h"
#include "runtime/text/word_split.h"

namespace rlx {
namespace {

class BytePairs : public Tokenizer {
 public:
  BytePairs(const fb::Text& section, const Vocabulary& vocabulary)
      : split_(section.split()), nfc_(section.nfc()), merges_(section.merges(), vocabulary) {
    for (uint32_t id = vocabulary.size(); id-- > 0;) {
      if (vocabulary.kind(id) == TokenKind::Normal && vocabulary.bytes(id).size() == 1)
        byte_tokens_[static_cast<unsigned char>(vocabulary.bytes(id)[0])] = id;
    }
    if (!section.ignore_merges()) return;
    whole_words_.emplace(vocabulary, [](TokenKind kind) { return kind == TokenKind::Normal; });
  }

  void encode(std::string_view text, TextPlace, std::vector<int32_t>& ids) const override {
    const std::optional<std::string> normal = nfc_ ? in_form_c(text) : std::nullopt;
    for (const std::string_view word : split_words(split_, normal ? *normal : text))
      encode_word(word, ids);
  }

 private:
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const {
    if (whole_words_) {
      if (const std::optional<uint32_t> token = whole_words_->find(word)) {
        ids.push_back(static_cast<int32_t>(*token));
        return;
      }
    }
    const auto find = [this](const MergedPart& left, const MergedPart& right) {
      return merges_.find(*left.token, *right.token);
    };
    for (const MergedPart& symbol : merge_symbols(bytes_of(word), find))
      ids.push_back(static_cast<int32_t>(*symbol.token));
  }

  // A byte that no token has is left out, and its neighbours are neighbours, as in Hugging Face's.
  [[nodiscard]] std::vector<MergedPart> bytes_of(std::string_view word) const {
    std::vector<MergedPart> symbols;
    symbols.reserve(word.size());
    for (const char byte : word) {
      const auto at = static_cast<uint32_t>(symbols.size());
      if (const std::optional<uint32_t> token = byte_tokens_[static_cast<unsigned char>(byte)])
        symbols.push_back({at, at + 1, token});
    }
    return symbols;
  }

  fb::WordSplit split_;
  bool nfc_;
  std::array<std::optional<uint32_t>, 256> byte_tokens_;
  MergeTable merges_;
  std::optional<TokenIndex> whole_words_;  // only where a word that is a token stays whole
};

}  // namespace

Status make_byte_pairs(const fb::Text& section, const Vocabulary& vocabulary,
                       std::unique_ptr<const Tokenizer>& tokenizer) {
  if (section.split() > fb::WordSplit::MAX)
    return section_fault("there is no split of words ", static_cast<uint32_t>(section.split()));
  RLX_RETURN_IF_ERROR(check_merges(section, vocabulary));
  tokenizer = std::make_unique<const BytePairs>(section, vocabulary);
  return {};
}

}  // namespace rlx
