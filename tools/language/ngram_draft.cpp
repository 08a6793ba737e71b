// SPDX-License-Identifier: Apache-2.0
#include "tools/language/ngram_draft.h"

#include <algorithm>

namespace rlx::language {

std::span<const int32_t> draft_by_ngram(std::span<const int32_t> tokens, uint32_t longest,
                                        size_t most) {
  size_t best_length = 0;
  size_t best_end = 0;
  for (size_t end = tokens.size() - std::min<size_t>(tokens.size(), 1); end > 0; --end) {
    const size_t limit = std::min<size_t>(longest, end);
    size_t length = 0;
    while (length < limit && tokens[end - 1 - length] == tokens[tokens.size() - 1 - length])
      ++length;
    if (length <= best_length) continue;
    best_length = length;
    best_end = end;
    if (length == longest) break;
  }
  if (best_length == 0) return {};
  return tokens.subspan(best_end, std::min(most, tokens.size() - best_end));
}

}  // namespace rlx::language
