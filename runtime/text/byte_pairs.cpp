// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE: text is cut into words, a word's bytes are merged by rank.
#include "runtime/text/byte_pairs.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "runtime/text/merge_symbols.h"
#include "runtime/text/normal_form.h"
#include "runtime/text/section.h"
#include "runtime/text/token_index.h"
#include "runtime/text/word_split.h"

namespace rlx {
namespace {

// Which pairs of tokens join, by their ids.
class MergeTable {
 public:
  // Of equal pairs the last counts, as in Hugging Face's. What would make a control token is left
  // out: typed text never does.
  MergeTable(const flatbuffers::Vector<const fb::Merge*>* merges, const Vocabulary& vocabulary)
      : begins_(vocabulary.size() + size_t{1}) {
    if (merges == nullptr) return;
    rows_.reserve(merges->size());
    for (uint32_t rank = 0; rank < merges->size(); ++rank) {
      const fb::Merge& merge = *merges->Get(rank);
      if (vocabulary.kind(merge.joined()) == TokenKind::Control) continue;
      rows_.push_back({merge.left(), merge.right(), {rank, merge.joined()}});
    }
    std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
      return std::tie(a.left, a.right, a.joined.rank) < std::tie(b.left, b.right, b.joined.rank);
    });
    for (const Row& row : rows_) ++begins_[row.left + size_t{1}];
    for (size_t i = 1; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
  }

  [[nodiscard]] std::optional<Joined> find(uint32_t left, uint32_t right) const {
    const auto begin = rows_.begin() + begins_[left];
    const auto end = rows_.begin() + begins_[left + size_t{1}];
    const auto behind = std::upper_bound(
        begin, end, right, [](uint32_t wanted, const Row& row) { return wanted < row.right; });
    if (behind == begin || (behind - 1)->right != right) return std::nullopt;
    return (behind - 1)->joined;
  }

 private:
  struct Row {
    uint32_t left;
    uint32_t right;
    Joined joined;
  };
  std::vector<Row> rows_;
  std::vector<uint32_t> begins_;  // of the rows, by the left token
};

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

  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
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

Status check_merge(const Vocabulary& vocabulary, uint32_t rank, const fb::Merge& merge) {
  for (const uint32_t id : {merge.left(), merge.right(), merge.joined()}) {
    if (!vocabulary.has(id))
      return section_fault("merge ", rank, " names token ", id, ", there are ", vocabulary.size());
  }
  // Others stand in text by their names, whatever their parts are.
  const bool is_normal = vocabulary.kind(merge.joined()) == TokenKind::Normal;
  const std::string_view left = vocabulary.bytes(merge.left());
  const std::string_view right = vocabulary.bytes(merge.right());
  const std::string_view joined = vocabulary.bytes(merge.joined());
  if (is_normal && (joined.size() != left.size() + right.size() || !joined.starts_with(left) ||
                    !joined.ends_with(right))) {
    return section_fault("merge ", rank, " of tokens ", merge.left(), " and ", merge.right(),
                         " makes token ", merge.joined(), ", whose bytes are others");
  }
  return {};
}

}  // namespace

Status make_byte_pairs(const fb::Text& section, const Vocabulary& vocabulary,
                       std::unique_ptr<const Tokenizer>& tokenizer) {
  if (section.split() > fb::WordSplit::MAX)
    return section_fault("there is no split of words ", static_cast<uint32_t>(section.split()));
  const uint32_t merge_count = section.merges() == nullptr ? 0 : section.merges()->size();
  for (uint32_t rank = 0; rank < merge_count; ++rank)
    RLX_RETURN_IF_ERROR(check_merge(vocabulary, rank, *section.merges()->Get(rank)));
  tokenizer = std::make_unique<const BytePairs>(section, vocabulary);
  return {};
}

}  // namespace rlx
