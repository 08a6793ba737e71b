// SPDX-License-Identifier: Apache-2.0
// SentencePiece's BPE: neighbours whose joined token has the best score are merged, or those that
// come first in a list of merges.
#include "runtime/text/scores.h"

#include <algorithm>
#include <numeric>

#include "runtime/text/merge_symbols.h"
#include "runtime/text/merge_table.h"
#include "runtime/text/piece_text.h"
#include "runtime/text/section.h"
#include "runtime/text/token_index.h"
#include "runtime/text/utf8.h"

namespace rlx {
namespace {

// Per token how many scores are better; none where there are no scores.
std::vector<uint32_t> ranks_of(const flatbuffers::Vector<float>* given) {
  if (given == nullptr) return {};
  const flatbuffers::Vector<float>& scores = *given;
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&scores](uint32_t a, uint32_t b) { return scores.Get(a) > scores.Get(b); });
  std::vector<uint32_t> ranks(order.size());
  for (uint32_t i = 1; i < order.size(); ++i) {
    const bool is_equal = scores.Get(order[i]) == scores.Get(order[i - 1]);
    ranks[order[i]] = is_equal ? ranks[order[i - 1]] : i;
  }
  return ranks;
}

class Scores : public Tokenizer {
 public:
  Scores(const fb::Text& section, const Vocabulary& vocabulary, PieceText text)
      : text_(std::move(text)),
        ranks_(ranks_of(section.scores())),
        tokens_(vocabulary, [](TokenKind kind) { return kind == TokenKind::Normal; }) {
    if (holds_any(section.merges())) merges_.emplace(section.merges(), vocabulary);
  }

  void encode(std::string_view text, TextPlace place, std::vector<int32_t>& ids) const override {
    const std::string normal = text_.normalized(text, place);
    const auto part = [&normal](uint32_t begin, uint32_t end) {
      return std::string_view(normal).substr(begin, end - begin);
    };
    const auto find = [&](const MergedPart& left,
                          const MergedPart& right) -> std::optional<Joined> {
      if (merges_) {
        if (!left.token || !right.token) return std::nullopt;
        return merges_->find(*left.token, *right.token);
      }
      if (right.end - left.begin > kMostTokenBytes) return std::nullopt;
      const std::optional<uint32_t> token = tokens_.find(part(left.begin, right.end));
      return token ? std::optional<Joined>({ranks_[*token], *token}) : std::nullopt;
    };
    PieceText::Writer writer(text_, ids);
    for (const MergedPart& symbol : merge_symbols(characters_of_text(normal), find))
      writer.put(symbol.token, part(symbol.begin, symbol.end));
  }

 private:
  [[nodiscard]] std::vector<MergedPart> characters_of_text(std::string_view text) const {
    std::vector<MergedPart> symbols;
    for (uint32_t at = 0; at < text.size();) {
      const uint32_t bytes = next_utf8(text.substr(at)).bytes;
      symbols.push_back({at, at + bytes, tokens_.find(text.substr(at, bytes))});
      at += bytes;
    }
    return symbols;
  }

  PieceText text_;
  std::vector<uint32_t> ranks_;
  TokenIndex tokens_;
  std::optional<MergeTable> merges_;  // in place of ranks
};

}  // namespace

Status make_scores(const fb::Text& section, const Vocabulary& vocabulary,
                   std::unique_ptr<const Tokenizer>& tokenizer) {
  if (holds_any(section.merges())) {
    RLX_RETURN_IF_ERROR(check_merges(section, vocabulary));
  } else {
    RLX_RETURN_IF_ERROR(check_scores(section));
  }
  PieceText text;
  RLX_RETURN_IF_ERROR(PieceText::read(section, vocabulary, text));
  tokenizer = std::make_unique<const Scores>(section, vocabulary, std::move(text));
  return {};
}

}  // namespace rlx
