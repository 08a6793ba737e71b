// SPDX-License-Identifier: Apache-2.0
// Placement of weights and states.
#include "compiler/emit/weight_layout.h"

#include <cstring>
#include <map>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

std::vector<bool> used_weights(const PlanContent& content) {
  std::vector<bool> used(content.module->weights.size(), false);
  for (const PlanEntry& entry : content.all_entries()) {
    for (const Step& step : entry.program->steps) {
      for (const Access& access : step.accesses) {
        const Buffer& buffer = entry.program->buffer(access.buffer);
        if (buffer.weight) used.at(index_of(*buffer.weight)) = true;
      }
    }
  }
  for (const State& state : content.module->states) {
    if (state.init) used.at(index_of(*state.init)) = true;
  }
  return used;
}

// Places of equal bytes, found by hash and compared in full.
class InlinePlacer {
 public:
  explicit InlinePlacer(SegmentLayout& layout) : layout_(&layout) {}

  uint64_t place(std::span<const std::byte> bytes) {
    if (bytes.empty()) return 0;
    std::vector<size_t>& same = pieces_by_hash_[XXH3_64bits(bytes.data(), bytes.size())];
    for (const size_t piece : same) {
      const SegmentLayout::Piece& other = layout_->pieces[piece];
      if (other.bytes.size() == bytes.size() &&
          std::memcmp(other.bytes.data(), bytes.data(), bytes.size()) == 0) {
        return other.offset_bytes;
      }
    }
    const uint64_t offset = round_up(layout_->section_bytes, kArenaAlignmentBytes);
    same.push_back(layout_->pieces.size());
    layout_->pieces.push_back({.offset_bytes = offset, .bytes = bytes});
    layout_->section_bytes = offset + bytes.size();
    return offset;
  }

 private:
  SegmentLayout* layout_;
  std::map<uint64_t, std::vector<size_t>> pieces_by_hash_;
};

// Below this a weight's bytes in the plan cost less than a read of their own.
constexpr size_t kLeastExternalBytes = 4096;

// Finds weights in the model's files by where their bytes lie in memory.
class ExternalPlacer {
 public:
  ExternalPlacer(const PlanContent& content, SegmentLayout& layout) : layout_(&layout) {
    if (!content.external_weights) return;
    for (const ModelFile& file : content.module->files) by_address_[file.bytes.data()] = &file;
  }

  bool place(std::span<const std::byte> bytes, PlacedWeight& placed) {
    if (bytes.size() < kLeastExternalBytes) return false;
    auto found = by_address_.upper_bound(bytes.data());
    if (found == by_address_.begin()) return false;
    const ModelFile& file = *std::prev(found)->second;
    const auto offset = static_cast<uint64_t>(bytes.data() - file.bytes.data());
    if (!range_fits(offset, bytes.size(), file.bytes.size())) return false;
    placed.kind = fb::WeightKind::External;
    placed.file = number_of(file);
    placed.file_offset_bytes = offset;
    return true;
  }

 private:
  // A file may be mapped once for each way to bind the model.
  uint32_t number_of(const ModelFile& file) {
    const auto [number, is_new] =
        numbers_.try_emplace(file.name, narrow<uint32_t>(layout_->files.size()));
    if (is_new) layout_->files.push_back(&file);
    return number->second;
  }

  SegmentLayout* layout_;
  std::map<const std::byte*, const ModelFile*> by_address_;
  std::map<std::string, uint32_t> numbers_;
};

// Gives the weights of a kind their places behind those that have theirs.
void place_behind(const Module& module, fb::WeightKind kind, SegmentLayout& layout) {
  for (PlacedWeight& placed : layout.weights) {
    if (placed.kind != kind) continue;
    placed.offset_bytes = round_up(layout.weights_bytes, kArenaAlignmentBytes);
    layout.weights_bytes = placed.offset_bytes + byte_size(module.weight(placed.id).type);
  }
}

}  // namespace

SegmentLayout lay_out_segments(const PlanContent& content) {
  const Module& module = *content.module;
  const std::vector<bool> used = used_weights(content);
  SegmentLayout layout;
  layout.index_of_weight.resize(module.weights.size());
  InlinePlacer placer(layout);
  ExternalPlacer files(content, layout);
  for (size_t i = 0; i < module.weights.size(); ++i) {
    if (!used[i]) continue;
    const Weight& weight = module.weights[i];
    PlacedWeight placed{.id = WeightId{narrow<uint32_t>(i)}};
    if (const auto* host = std::get_if<HostBytes>(&weight.data)) {
      RLX_CHECK(host->bytes.size() == byte_size(weight.type), "bytes of weight " + weight.name);
      if (!files.place(host->bytes, placed)) {
        placed.kind = fb::WeightKind::Inline;
        placed.offset_bytes = placer.place(host->bytes);
      }
    } else if (byte_size(weight.type) == 0) {
      placed.kind = fb::WeightKind::Inline;  // nothing to generate
    }
    layout.index_of_weight[i] = narrow<uint32_t>(layout.weights.size());
    layout.weights.push_back(placed);
  }
  layout.weights_bytes = layout.section_bytes;
  place_behind(module, fb::WeightKind::External, layout);
  place_behind(module, fb::WeightKind::Generated, layout);
  for (size_t i = 0; i < module.states.size(); ++i) {
    const uint64_t offset = round_up(layout.states_bytes, kArenaAlignmentBytes);
    layout.states.push_back({.id = StateId{narrow<uint32_t>(i)}, .offset_bytes = offset});
    layout.states_bytes = offset + byte_size(module.states[i].type);
  }
  return layout;
}

}  // namespace rlx
