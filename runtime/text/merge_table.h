// SPDX-License-Identifier: Apache-2.0
// Merges by rank: which pairs of tokens join.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/merge_symbols.h"
#include "runtime/text/vocabulary.h"

namespace rlx {

// RLX_INVALID_PLAN where a merge of the section does not fit its tokens.
Status check_merges(const fb::Text& section, const Vocabulary& vocabulary);

// Of checked merges. Of equal pairs the last counts, as in Hugging Face's. What would make a
// control token is left out: typed text never does.
class MergeTable {
 public:
  MergeTable(const flatbuffers::Vector<const fb::Merge*>* merges, const Vocabulary& vocabulary);

  [[nodiscard]] std::optional<Joined> find(uint32_t left, uint32_t right) const;

 private:
  struct Row {
    uint32_t left;
    uint32_t right;
    Joined joined;
  };
  std::vector<Row> rows_;
  std::vector<uint32_t> begins_;  // of the rows, by the left token
};

}  // namespace rlx
