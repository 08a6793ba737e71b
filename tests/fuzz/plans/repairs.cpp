// SPDX-License-Identifier: Apache-2.0
// Consequences of edits, made right: sizes, lifetimes, waves, segments, hashes.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "runtime/base/dtype.h"
#include "schema/rounding.h"
#include "tests/fuzz/plans/mutant_builder.h"

namespace rlx::test {
namespace {

constexpr uint32_t kRepairedStep = sizeof(fb::Step);
constexpr uint32_t kRepairedRange = sizeof(fb::Relocation);

void repair_tensor(Node& tensor, int dtype, int dims, int size) {
  const std::vector<std::byte>& bytes = tensor.kids[field_id(dims)].bytes;
  const std::span<const uint64_t> list(reinterpret_cast<const uint64_t*>(bytes.data()),
                                       bytes.size() / sizeof(uint64_t));
  const auto row = static_cast<uint32_t>(tensor.kids[field_id(dtype)].bits);
  const auto made = list.size() <= kMaxRank ? tensor_bytes(row, list) : std::nullopt;
  if (made.has_value()) tensor.kids[field_id(size)].bits = *made;
}

}  // namespace

void MutantBuilder::repair_sizes() {
  for (Node* entry : entries()) {
    for (Node& value : kid(*entry, fb::Entry::VT_VALUES).kids) {
      repair_tensor(value, fb::Value::VT_DTYPE, fb::Value::VT_DIMS, fb::Value::VT_SIZE_BYTES);
      // Io has no offset.
      Node& offset = kid(value, fb::Value::VT_OFFSET_BYTES);
      const uint64_t segment = kid(value, fb::Value::VT_SEGMENT).bits;
      if (segment == static_cast<uint64_t>(fb::Segment::Io))
        offset.bits = 0;
      else if (segment != static_cast<uint64_t>(fb::Segment::IndexErrors))
        offset.bits &= ~uint64_t{255};
    }
  }
  for (Node& weight : kid(index_, fb::Plan::VT_WEIGHTS).kids)
    repair_tensor(weight, fb::Weight::VT_DTYPE, fb::Weight::VT_DIMS, fb::Weight::VT_SIZE_BYTES);
  for (Node& state : kid(index_, fb::Plan::VT_STATES).kids)
    repair_tensor(state, fb::State::VT_DTYPE, fb::State::VT_DIMS, fb::State::VT_SIZE_BYTES);
}

// Values live wherever steps use them.
void MutantBuilder::repair_lifetimes() {
  const FieldType& value_field = struct_field("Relocation", "value");
  for (Node* entry : entries()) {
    std::vector<Node>& values = kid(*entry, fb::Entry::VT_VALUES).kids;
    const Node& steps = kid(*entry, fb::Entry::VT_STEPS);
    const Node& ranges = kid(*entry, fb::Entry::VT_RELOCATIONS);
    const size_t step_count = count(steps, kRepairedStep);
    for (Node& value : values) {
      Node& last = kid(value, fb::Value::VT_LAST_STEP);
      last.bits = std::min<uint64_t>(last.bits, step_count == 0 ? 0 : step_count - 1);
    }
    for (size_t s = 0; s < step_count; ++s) {
      const uint64_t first = step_field(steps, s, "relocation_first");
      const uint64_t used = step_field(steps, s, "relocation_count");
      if (used > count(ranges, kRepairedRange) || first > count(ranges, kRepairedRange) - used)
        continue;
      for (uint64_t r = first; r < first + used; ++r) {
        const uint64_t v = get(ranges, r, kRepairedRange, value_field);
        if (v >= values.size()) continue;
        Node& begin = kid(values[v], fb::Value::VT_FIRST_STEP);
        Node& end = kid(values[v], fb::Value::VT_LAST_STEP);
        begin.bits = std::min<uint64_t>(begin.bits, s);
        end.bits = std::max<uint64_t>(end.bits, s);
      }
    }
  }
}

// Ranges end where their values end.
void MutantBuilder::repair_ranges() {
  const FieldType& value_field = struct_field("Relocation", "value");
  const FieldType& offset_field = struct_field("Relocation", "offset_bytes");
  const FieldType& length_field = struct_field("Relocation", "length_bytes");
  for (Node* entry : entries()) {
    const std::vector<Node>& values = kid(*entry, fb::Entry::VT_VALUES).kids;
    Node& ranges = kid(*entry, fb::Entry::VT_RELOCATIONS);
    for (size_t r = 0; r < count(ranges, kRepairedRange); ++r) {
      const uint64_t v = get(ranges, r, kRepairedRange, value_field);
      if (v >= values.size()) continue;
      const uint64_t size = values[v].kids[field_id(fb::Value::VT_SIZE_BYTES)].bits;
      const uint64_t offset = get(ranges, r, kRepairedRange, offset_field);
      const uint64_t length = get(ranges, r, kRepairedRange, length_field);
      if (offset <= size && length > size - offset)
        set(ranges, r, kRepairedRange, length_field, size - offset);
    }
  }
}

// Waves count up from 0 without gaps.
void MutantBuilder::repair_waves() {
  for (Node* entry : entries()) {
    Node& steps = kid(*entry, fb::Entry::VT_STEPS);
    const size_t step_count = count(steps, kRepairedStep);
    uint64_t known = 0;
    uint64_t wave = 0;
    for (size_t s = 0; s < step_count; ++s) {
      const uint64_t now = step_field(steps, s, "wave");
      if (s > 0 && now != known) ++wave;
      known = now;
      set_step_field(steps, s, "wave", wave);
    }
    kid(*entry, fb::Entry::VT_WAVE_COUNT).bits = step_count == 0 ? 0 : wave + 1;
  }
}

// The header declares what the entries need.
void MutantBuilder::repair_segments() {
  PlanHeader& header = file_.header;
  header.arena_bytes = header.io_bytes = header.index_error_bytes = 0;
  for (Node* entry : entries()) {
    uint64_t arena = 0;
    uint64_t io = 0;
    for (Node& value : kid(*entry, fb::Entry::VT_VALUES).kids) {
      const uint64_t size = kid(value, fb::Value::VT_SIZE_BYTES).bits;
      const uint64_t end = kid(value, fb::Value::VT_OFFSET_BYTES).bits + size;
      switch (static_cast<fb::Segment>(kid(value, fb::Value::VT_SEGMENT).bits)) {
        case fb::Segment::Arena:
          arena = std::max(arena, round_up(end, kArenaAlignmentBytes));
          break;
        case fb::Segment::Io:
          io += round_up(size, kArenaAlignmentBytes);
          break;
        case fb::Segment::IndexErrors:
          header.index_error_bytes = std::max(header.index_error_bytes, end);
          break;
        case fb::Segment::State:
          header.state_bytes = std::max(header.state_bytes, end);
          break;
        case fb::Segment::Weights:
          header.weights_bytes = std::max(header.weights_bytes, end);
          break;
      }
    }
    uint64_t& declared = kid(*entry, fb::Entry::VT_ARENA_BYTES).bits;
    uint64_t& bound = kid(*entry, fb::Entry::VT_ARENA_LOWER_BOUND).bits;
    declared = std::max(declared < arena ? arena : declared, arena);
    bound = std::min(bound, declared);
    header.arena_bytes = std::max(header.arena_bytes, declared);
    header.io_bytes = std::max(header.io_bytes, io);
  }
}

void MutantBuilder::repair_hashes() {
  const FileSection* code = file_.section(SectionKind::Code);
  if (code == nullptr) return;
  for (Node& kernel : kid(index_, fb::Plan::VT_KERNELS).kids) {
    for (Node& variant : kid(kernel, fb::Kernel::VT_VARIANTS).kids) {
      const uint64_t offset = kid(variant, fb::Variant::VT_CODE_OFFSET).bits;
      const uint64_t bytes = kid(variant, fb::Variant::VT_CODE_BYTES).bits;
      if (bytes > code->bytes.size() || offset > code->bytes.size() - bytes) continue;
      kid(variant, fb::Variant::VT_CODE_HASH).bits =
          XXH3_64bits(code->bytes.data() + offset, bytes);
    }
  }
}

}  // namespace rlx::test
