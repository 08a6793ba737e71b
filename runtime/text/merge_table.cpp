// SPDX-License-Identifier: Apache-2.0
// Merges by rank: which pairs of tokens join.
#include "runtime/text/merge_table.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "runtime/text/section.h"

namespace rlx {
namespace {

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

Status check_merges(const fb::Text& section, const Vocabulary& vocabulary) {
  const uint32_t count = section.merges() == nullptr ? 0 : section.merges()->size();
  for (uint32_t rank = 0; rank < count; ++rank)
    RLX_RETURN_IF_ERROR(check_merge(vocabulary, rank, *section.merges()->Get(rank)));
  return {};
}

MergeTable::MergeTable(const flatbuffers::Vector<const fb::Merge*>* merges,
                       const Vocabulary& vocabulary)
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

std::optional<Joined> MergeTable::find(uint32_t left, uint32_t right) const {
  const auto begin = rows_.begin() + begins_[left];
  const auto end = rows_.begin() + begins_[left + size_t{1}];
  const auto behind = std::upper_bound(
      begin, end, right, [](uint32_t wanted, const Row& row) { return wanted < row.right; });
  if (behind == begin || (behind - 1)->right != right) return std::nullopt;
  return (behind - 1)->joined;
}

}  // namespace rlx
