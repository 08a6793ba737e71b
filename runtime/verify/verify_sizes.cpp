// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 3: bytes of tensors, their places in the segments, and the sizes that the
// header declares.
#include <algorithm>

#include "runtime/base/dtype.h"
#include "runtime/plan/free_sizes.h"
#include "runtime/verify/verify_context.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 48;

// A weight or state: a byte range with a place in a message.
struct OwnedRange {
  uint64_t offset;
  uint64_t bytes;
  uint32_t index;
  bool shareable;
};

template <class Tensor, class Name>
void verify_tensor_bytes(VerifyRule rule, const Tensor& tensor, const Name& name, Faults& faults) {
  const std::span<const uint64_t> dims = dims_of(tensor.dims());
  if (dims.size() > kMaxRank) {
    return faults.add(rule, name(), " has rank ", dims.size(), ", at most ", kMaxRank,
                      " is possible");
  }
  const std::optional<uint64_t> bytes = tensor_bytes(tensor.dtype(), dims);
  if (bytes == tensor.size_bytes()) return;
  faults.add(
      rule, name(), " is ", tensor_text(tensor.dtype(), dims), " with ", tensor.size_bytes(),
      " bytes, wanted ",
      bytes.has_value() ? std::to_string(*bytes) : "a shape of whole blocks below 2^48 bytes");
}

std::vector<OwnedRange> sorted_by_offset(std::vector<OwnedRange> ranges, Faults& faults) {
  std::erase_if(ranges, [](const OwnedRange& range) { return range.bytes == 0; });
  const auto before = [](const OwnedRange& a, const OwnedRange& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes > b.bytes;
  };
  // Writers of plans lay them out in order.
  if (std::is_sorted(ranges.begin(), ranges.end(), before)) return ranges;
  faults.charge(work_of_sort(ranges.size()));
  if (!faults.full()) std::sort(ranges.begin(), ranges.end(), before);
  return ranges;
}

// Ranges that overlap without both being shareable. `ranges` sorted by offset; `report` gets the
// two indices.
template <class Report>
void find_overlaps(const std::vector<OwnedRange>& ranges, const Faults& faults,
                   const Report& report) {
  struct Reach {
    uint64_t end = 0;
    uint32_t index = 0;
  };
  Reach any;
  Reach exclusive;
  for (const OwnedRange& range : ranges) {
    if (faults.full()) return;
    const Reach& limit = range.shareable ? exclusive : any;
    if (range.offset < limit.end) report(limit.index, range.index);
    const uint64_t end = range.offset + range.bytes;
    if (end > any.end) any = {end, range.index};
    if (!range.shareable && end > exclusive.end) exclusive = {end, range.index};
  }
}

// Of an external weight the bytes in its file.
void verify_weight_file(const PlanParts& parts, uint32_t number, Faults& faults) {
  const fb::Weight& weight = *parts.plan.weights()->Get(number);
  if (weight.kind() != fb::WeightKind::External) return;
  const auto* files = parts.plan.weight_files();
  const auto name = [&] {
    return text_of("weight ", number, " ", quoted(PlanView::text(weight.name())));
  };
  if (files == nullptr || weight.file() >= files->size()) {
    faults.add(VerifyRule::WeightFile, name(), " is in weight file ", weight.file(),
               ", the plan has ", files == nullptr ? 0 : files->size());
    return;
  }
  const fb::WeightFile& file = *files->Get(weight.file());
  if (!range_inside(weight.file_offset(), weight.size_bytes(), file.size_bytes())) {
    faults.add(VerifyRule::WeightFile, name(), " has ", weight.size_bytes(), " bytes from byte ",
               weight.file_offset(), " of a file of ", file.size_bytes());
  }
}

void verify_weight_files(const PlanParts& parts, Faults& faults) {
  const auto* files = parts.plan.weight_files();
  if (files == nullptr) return;
  faults.charge(kWorkPerTable * uint64_t{files->size()});
  for (uint32_t i = 0; i < files->size() && !faults.full(); ++i) {
    const std::string_view name = PlanView::text(files->Get(i)->name());
    if (is_weight_file_name(name)) continue;
    faults.add(VerifyRule::WeightFile, "weight file ", i, " is called ", quoted(name),
               ", which leads out of its folder or to no file");
  }
}

std::vector<OwnedRange> verify_weights(const PlanParts& parts, Faults& faults) {
  verify_weight_files(parts, faults);
  faults.charge(kWorkPerTable * uint64_t{parts.plan.weights()->size()});
  std::vector<OwnedRange> ranges;
  const auto name = [&](uint32_t i) {
    return text_of("weight ", i, " ", quoted(PlanView::text(parts.plan.weights()->Get(i)->name())));
  };
  for (uint32_t i = 0; i < parts.plan.weights()->size() && !faults.full(); ++i) {
    const fb::Weight& weight = *parts.plan.weights()->Get(i);
    verify_tensor_bytes(
        VerifyRule::WeightBytes, weight, [&] { return name(i); }, faults);
    const bool is_inline = weight.kind() == fb::WeightKind::Inline;
    const uint64_t limit = is_inline
                               ? std::min(parts.weights_section_bytes, parts.header.weights_bytes)
                               : parts.header.weights_bytes;
    if (!range_inside(weight.offset_bytes(), weight.size_bytes(), limit)) {
      faults.add(VerifyRule::WeightRange, name(i), " has offset ", weight.offset_bytes(), " and ",
                 weight.size_bytes(), " bytes, the weights ", is_inline ? "section" : "segment",
                 " has ", limit);
      continue;
    }
    verify_weight_file(parts, i, faults);
    const bool is_read = weight.kind() != fb::WeightKind::Generated;
    ranges.push_back({weight.offset_bytes(), weight.size_bytes(), i, is_read});
  }
  ranges = sorted_by_offset(std::move(ranges), faults);
  find_overlaps(ranges, faults, [&](uint32_t a, uint32_t b) {
    faults.add(VerifyRule::WeightOverlap, name(a), " and ", name(b),
               " overlap, and one of them is generated");
  });
  return ranges;
}

std::vector<OwnedRange> verify_states(const PlanParts& parts, Faults& faults) {
  faults.charge(kWorkPerTable * uint64_t{parts.plan.states()->size()});
  std::vector<OwnedRange> ranges;
  const auto name = [&](uint32_t i) {
    return text_of("state ", i, " ", quoted(PlanView::text(parts.plan.states()->Get(i)->name())));
  };
  for (uint32_t i = 0; i < parts.plan.states()->size() && !faults.full(); ++i) {
    const fb::State& state = *parts.plan.states()->Get(i);
    verify_tensor_bytes(
        VerifyRule::WeightBytes, state, [&] { return name(i); }, faults);
    if (!range_inside(state.offset_bytes(), state.size_bytes(), parts.header.state_bytes) ||
        state.offset_bytes() % kArenaAlignmentBytes != 0) {
      faults.add(VerifyRule::StateRange, name(i), " has offset ", state.offset_bytes(), " and ",
                 state.size_bytes(), " bytes, the state segment has ", parts.header.state_bytes,
                 " bytes and slots of ", kArenaAlignmentBytes);
      continue;
    }
    if (state.init() == fb::StateInit::Weight) {
      const fb::Weight& weight = *parts.plan.weights()->Get(*state.init_weight());
      if (weight.size_bytes() != state.size_bytes() || weight.dtype() != state.dtype()) {
        faults.add(VerifyRule::StateInitial, name(i), " has ", state.size_bytes(),
                   " bytes of dtype ", state.dtype(), ", the weight that it begins as has ",
                   weight.size_bytes(), " of dtype ", weight.dtype());
      }
    }
    ranges.push_back({state.offset_bytes(), state.size_bytes(), i, false});
  }
  ranges = sorted_by_offset(std::move(ranges), faults);
  find_overlaps(ranges, faults, [&](uint32_t a, uint32_t b) {
    faults.add(VerifyRule::StateRange, name(a), " and ", name(b), " overlap");
  });
  return ranges;
}

// True if one of the ranges (sorted by offset, longest first) holds the value.
class OwnerIndex {
 public:
  explicit OwnerIndex(const std::vector<OwnedRange>& ranges) {
    uint64_t reach = 0;
    for (const OwnedRange& range : ranges) {
      offsets_.push_back(range.offset);
      reach = std::max(reach, range.offset + range.bytes);
      reaches_.push_back(reach);
    }
  }
  [[nodiscard]] bool holds(uint64_t offset, uint64_t bytes, Faults& faults) const {
    if (bytes == 0) return true;
    faults.charge(work_of_search(offsets_.size()));
    const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), offset);
    if (after == offsets_.begin()) return false;
    return offset + bytes <= reaches_[static_cast<size_t>(after - offsets_.begin()) - 1];
  }

 private:
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t> reaches_;  // furthest end of this range and those before it
};

void verify_value(const PlanParts& parts, const EntryParts& entry, uint32_t v,
                  const OwnerIndex& weights, const OwnerIndex& states, Faults& faults) {
  const fb::Value& value = entry.value(v);
  verify_tensor_bytes(
      VerifyRule::ValueBytes, value, [&] { return entry.value_name(v); }, faults);
  const bool io = value.segment() == fb::Segment::Io;
  const bool index_errors = value.segment() == fb::Segment::IndexErrors;
  const uint64_t alignment = index_errors ? kIndexErrorBytes : kArenaAlignmentBytes;
  if (io ? value.offset_bytes() != 0 : value.offset_bytes() % alignment != 0) {
    faults.add(VerifyRule::ValueAlignment, entry.value_name(v), " has offset ",
               value.offset_bytes(), ", wanted ",
               io ? "0 for an input or output" : text_of("a multiple of ", alignment));
  }
  if (io) return;
  uint64_t segment_bytes = entry.entry.arena_bytes();
  if (value.segment() == fb::Segment::Weights) segment_bytes = parts.header.weights_bytes;
  if (value.segment() == fb::Segment::State) segment_bytes = parts.header.state_bytes;
  if (index_errors) segment_bytes = parts.header.index_error_bytes;
  if (!range_inside(value.offset_bytes(), value.size_bytes(), segment_bytes)) {
    return faults.add(VerifyRule::ValueSegment, entry.value_name(v), " has offset ",
                      value.offset_bytes(), " and ", value.size_bytes(), " bytes, its segment has ",
                      segment_bytes);
  }
  const bool owned = (value.segment() != fb::Segment::Weights ||
                      weights.holds(value.offset_bytes(), value.size_bytes(), faults)) &&
                     (value.segment() != fb::Segment::State ||
                      states.holds(value.offset_bytes(), value.size_bytes(), faults));
  if (!owned) {
    faults.add(VerifyRule::ValueOwner, entry.value_name(v), " has offset ", value.offset_bytes(),
               " and ", value.size_bytes(), " bytes, which no ",
               value.segment() == fb::Segment::State ? "state" : "weight", " holds");
  }
}

void verify_header_sizes(const PlanParts& parts, Faults& faults) {
  const PlanHeader& header = parts.header;
  const auto verify_size = [&](std::string_view what, uint64_t declared, uint64_t needed) {
    if (declared == needed) return;
    faults.add(VerifyRule::SegmentBytes, "the header declares ", declared, " bytes of ", what,
               ", the plan needs ", needed);
  };
  uint64_t arena = 0;
  uint64_t io = 0;
  uint64_t index_errors = 0;
  for (const EntryParts& entry : parts.entries) {
    uint64_t entry_io = 0;
    for (uint32_t v = 0; v < entry.value_count(); ++v) {
      const fb::Value& value = entry.value(v);
      if (value.segment() == fb::Segment::IndexErrors)
        index_errors = std::max(index_errors, value.offset_bytes() + value.size_bytes());
      if (value.segment() != fb::Segment::Io) continue;
      entry_io =
          std::min(kMaxSegmentBytes, entry_io + round_up(value.size_bytes(), kArenaAlignmentBytes));
    }
    io = std::max(io, entry_io);
    arena = std::max(arena, entry.entry.arena_bytes());
    if (entry.entry.arena_lower_bound() > entry.entry.arena_bytes()) {
      faults.add(VerifyRule::ArenaBound, entry.name(), " has an arena of ",
                 entry.entry.arena_bytes(), " bytes, less than its lower bound of ",
                 entry.entry.arena_lower_bound());
    }
  }
  verify_size("arena", header.arena_bytes, arena);
  verify_size("io", header.io_bytes, io);
  verify_size("index errors", header.index_error_bytes, index_errors);
  verify_size("host memory", header.host_bytes,
              parts.index_bytes + parts.params.size() + parts.code.size());
  if (header.weights_bytes < parts.weights_section_bytes) {
    faults.add(VerifyRule::SegmentBytes, "the weights section has ", parts.weights_section_bytes,
               " bytes, the header declares a weights segment of ", header.weights_bytes);
  }
}

}  // namespace

void verify_bound_sizes(const EntryParts& entry, const EntryParts& largest, Faults& faults) {
  std::vector<bool> is_known(entry.value_count());
  for (const fb::Patch& patch : patches_of(entry.entry)) {
    const bool is_of_value =
        patch.field() == fb::PatchField::ValueDim || patch.field() == fb::PatchField::ValueBytes;
    if (!is_of_value || is_known[patch.index()] || faults.full()) continue;
    is_known[patch.index()] = true;
    faults.charge(kWorkPerTable);
    const fb::Value& value = entry.value(patch.index());
    const auto name = [&] { return entry.value_name(patch.index()); };
    verify_tensor_bytes(VerifyRule::ValueBytes, value, name, faults);
    const uint64_t most = largest.value(patch.index()).size_bytes();
    if (value.size_bytes() <= most) continue;
    faults.add(VerifyRule::ValueGrowth, name(), " has ", value.size_bytes(),
               " bytes, at the maximum it has ", most);
  }
}

void verify_sizes(const PlanParts& parts, Faults& faults) {
  const OwnerIndex weights(verify_weights(parts, faults));
  const OwnerIndex states(verify_states(parts, faults));
  for (const EntryParts& entry : parts.entries) {
    faults.charge(2 * kWorkPerTable * uint64_t{entry.value_count()});
    for (uint32_t v = 0; v < entry.value_count() && !faults.full(); ++v) {
      verify_value(parts, entry, v, weights, states, faults);
    }
  }
  if (!faults.empty()) return;
  verify_header_sizes(parts, faults);
}

}  // namespace rlx
