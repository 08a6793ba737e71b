// SPDX-License-Identifier: Apache-2.0
// SentencePiece's unigram model: the split of a text whose scores have the largest sum.
#include "runtime/text/unigram.h"

#include <algorithm>
#include <limits>

#include "runtime/text/piece_text.h"
#include "runtime/text/section.h"
#include "runtime/text/token_index.h"
#include "runtime/text/utf8.h"

namespace rlx {
namespace {

// How much worse than the worst token an unknown character is, as in SentencePiece.
constexpr double kUnknownPenalty = 10;

class Unigram : public Tokenizer {
 public:
  Unigram(const fb::Text& section, const Vocabulary& vocabulary, PieceText text)
      : text_(std::move(text)),
        scores_(section.scores()->begin(), section.scores()->end()),
        tokens_(vocabulary, [](TokenKind kind) { return kind == TokenKind::Normal; }) {
    float least = std::numeric_limits<float>::max();
    for (uint32_t id = 0; id < vocabulary.size(); ++id)
      if (vocabulary.kind(id) == TokenKind::Normal) least = std::min(least, scores_[id]);
    unknown_score_ = least - kUnknownPenalty;
  }

  void encode(std::string_view text, TextPlace place, std::vector<int32_t>& ids) const override {
    const std::string normal = text_.normalized(text, place);
    const std::vector<Best> best = best_splits(normal);
    std::vector<uint32_t> ends;
    for (auto end = static_cast<uint32_t>(normal.size()); end > 0; end = best[end].begin)
      ends.push_back(end);
    PieceText::Writer writer(text_, ids);
    for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
      const Best& last = best[*end];
      writer.put(last.token, std::string_view(normal).substr(last.begin, *end - last.begin));
    }
  }

 private:
  // The best split of the text up to a place: its last part.
  struct Best {
    bool is_there = false;
    double score = 0;
    uint32_t begin = 0;
    std::optional<uint32_t> token;  // none: an unknown character
  };

  // Per place in the text; the first found stays among equals.
  [[nodiscard]] std::vector<Best> best_splits(std::string_view text) const {
    std::vector<Best> best(text.size() + 1);
    for (uint32_t begin = 0; begin < text.size();) {
      const std::string_view rest = text.substr(begin);
      const size_t character = next_utf8(rest).bytes;
      const auto consider = [&](size_t bytes, double score, std::optional<uint32_t> token) {
        Best& known = best[begin + bytes];
        score += best[begin].score;
        if (!known.is_there || score > known.score) known = {true, score, begin, token};
      };
      bool has_character = false;
      tokens_.for_each_prefix(rest, [&](uint32_t id, size_t bytes) {
        has_character |= bytes == character;
        consider(bytes, scores_[id], id);
      });
      if (!has_character) consider(character, unknown_score_, std::nullopt);
      begin += static_cast<uint32_t>(character);
    }
    return best;
  }

  PieceText text_;
  std::vector<float> scores_;
  double unknown_score_ = 0;
  TokenIndex tokens_;
};

}  // namespace

Status make_unigram(const fb::Text& section, const Vocabulary& vocabulary,
                    std::unique_ptr<const Tokenizer>& tokenizer) {
  RLX_RETURN_IF_ERROR(check_scores(section));
  PieceText text;
  RLX_RETURN_IF_ERROR(PieceText::read(section, vocabulary, text));
  tokenizer = std::make_unique<const Unigram>(section, vocabulary, std::move(text));
  return {};
}

}  // namespace rlx
