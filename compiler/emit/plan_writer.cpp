// SPDX-License-Identifier: Apache-2.0
// Sections and header of a plan, to memory or to a file.
#include "compiler/emit/plan_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <span>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compiler/emit/debug_section.h"
#include "compiler/emit/plan_index.h"
#include "compiler/emit/weight_layout.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "runtime/base/output_file.h"
#include "runtime/plan/plan_view.h"
#include "schema/plan_header.h"
#include "schema/plan_regions.h"
#include "schema/rounding.h"
#include "schema/tensor_map.h"

namespace rlx {
namespace {

// Receives bytes at ascending offsets; the header comes last, at 0. Gaps are zero.
using Sink = std::function<void(uint64_t offset_bytes, std::span<const std::byte> bytes)>;

struct HashStateDeleter {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// Checksum of the pieces of a section with zeros between them.
class SectionHash {
 public:
  SectionHash() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }
  void add(std::span<const std::byte> bytes) {
    XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
  }
  void add_zeros(uint64_t count) {
    static constexpr std::array<std::byte, 512> kZeros{};
    while (count > 0) {
      const uint64_t part = std::min<uint64_t>(count, kZeros.size());
      add(std::span(kZeros).first(part));
      count -= part;
    }
  }
  [[nodiscard]] uint64_t digest() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, HashStateDeleter> state_;
};

// Places sections one after another and keeps their records.
class SectionWriter {
 public:
  SectionWriter(PlanHeader& header, const Sink& sink) : header_(&header), sink_(&sink) {}

  void add(SectionKind kind, uint64_t alignment_bytes, uint32_t flags,
           std::span<const std::byte> bytes) {
    const SegmentLayout::Piece whole{.offset_bytes = 0, .bytes = bytes};
    add_pieces(kind, alignment_bytes, flags, {&whole, 1}, bytes.size());
  }

  // A section that is empty is left out.
  void add_pieces(SectionKind kind, uint64_t alignment_bytes, uint32_t flags,
                  std::span<const SegmentLayout::Piece> pieces, uint64_t size_bytes) {
    if (size_bytes == 0) return;
    const uint64_t offset = round_up(end_bytes_, alignment_bytes);
    SectionHash hash;
    uint64_t position = 0;
    for (const SegmentLayout::Piece& piece : pieces) {
      hash.add_zeros(piece.offset_bytes - position);
      hash.add(piece.bytes);
      (*sink_)(offset + piece.offset_bytes, piece.bytes);
      position = piece.offset_bytes + piece.bytes.size();
    }
    RLX_CHECK(position == size_bytes, "pieces of a section");
    header_->sections[header_->section_count++] = {.kind = static_cast<uint32_t>(kind),
                                                   .flags = flags,
                                                   .offset_bytes = offset,
                                                   .size_bytes = size_bytes,
                                                   .checksum = hash.digest()};
    end_bytes_ = offset + size_bytes;
  }

  [[nodiscard]] uint64_t end_bytes() const { return end_bytes_; }

 private:
  PlanHeader* header_;
  const Sink* sink_;
  uint64_t end_bytes_ = kPlanHeaderBytes;
};

// The oldest minor that knows all that the plan has.
uint16_t minor_of(const PlanIndex& index, const SegmentLayout& layout) {
  if (index.has_map_sizes) return kPlanMinorMapSizes;
  if (index.has_together) return kPlanMinorTogether;
  if (index.region_count > 0) return kPlanMinorRegions;
  if (index.has_pixel_window) return kPlanMinorPixelWindow;
  if (!index.profiles.empty()) return kPlanMinorProfiles;
  if (index.has_lines_of_range) return kPlanMinorLinesOfRange;
  return index.has_free_sizes || !layout.files.empty() ? kPlanMinorFree : kPlanMinorPlain;
}

// Writes everything to the sink, the header page last.
PlanFileSummary write_to(const PlanContent& content, const Sink& sink) {
  const SegmentLayout layout = lay_out_segments(content);
  const PlanIndex index = build_plan_index(content, layout);

  PlanHeader header{};
  std::memcpy(header.magic, kPlanMagic, sizeof(kPlanMagic));
  header.major = kPlanMajor;
  header.minor = minor_of(index, layout);
  header.header_bytes = kPlanHeaderBytes;
  header.weights_bytes = layout.weights_bytes;
  header.state_bytes = layout.states_bytes;
  header.arena_bytes = index.arena_bytes;
  header.io_bytes = index.io_bytes;
  header.index_error_bytes = index.index_error_bytes;
  header.host_bytes = index.index.size() + index.params.size() + index.code.size();
  content.producer.copy(header.producer, sizeof(header.producer) - 1);
  header.vulkan = index.vulkan;
  header.cuda = content.compiled->cuda;
  header.profile_count = narrow<uint32_t>(index.profiles.size());
  std::ranges::copy(index.profiles, header.profiles);

  SectionWriter sections(header, sink);
  sections.add(SectionKind::Index, 64, kSectionCritical, index.index);
  sections.add(SectionKind::Params, 16, kSectionCritical, index.params);
  sections.add(SectionKind::Code, 256, kSectionCritical, index.code);
  if (content.debug_section) sections.add(SectionKind::Debug, 8, 0, build_debug_section(content));
  sections.add(SectionKind::Text, 8, 0, content.module->text);
  if (index.region_count > 0) {
    sections.add(static_cast<SectionKind>(kRegionsSection), 8, kSectionCritical,
                 std::as_bytes(std::span(&index.region_count, 1)));
  }
  sections.add_pieces(SectionKind::Weights, 4096, kSectionCritical, layout.pieces,
                      layout.section_bytes);
  header.file_bytes = sections.end_bytes();

  std::array<std::byte, kPlanHeaderBytes> page{};
  std::memcpy(page.data(), &header, sizeof(header));
  header.header_checksum = XXH3_64bits(page.data(), page.size());
  std::memcpy(page.data(), &header, sizeof(header));
  sink(0, page);
  return {.plan_bytes = header.file_bytes, .weights_bytes = header.weights_bytes};
}

void check_verified(const Status& status) {
  RLX_CHECK(status.ok(), "the plan that was just written does not verify: " + status.message());
}

}  // namespace

std::vector<std::byte> plan_bytes(const PlanContent& content) {
  std::vector<std::byte> plan;
  write_to(content, [&](uint64_t offset_bytes, std::span<const std::byte> bytes) {
    if (plan.size() < offset_bytes + bytes.size()) plan.resize(offset_bytes + bytes.size());
    std::copy(bytes.begin(), bytes.end(), plan.begin() + static_cast<std::ptrdiff_t>(offset_bytes));
  });
  std::shared_ptr<const PlanView> view;
  check_verified(PlanView::open_memory(plan, {.check_weights = true}, view));
  return plan;
}

std::optional<PlanFileSummary> write_plan(const PlanContent& content, const std::string& path,
                                          Diagnostics& diagnostics) {
  OutputFile file;
  PlanFileSummary summary;
  Status written = OutputFile::create(path, OutputUse::Result, file);
  if (written.ok()) {
    summary = write_to(content, [&](uint64_t offset_bytes, std::span<const std::byte> bytes) {
      if (written.ok()) written = file.write_at(offset_bytes, bytes);
    });
  }
  if (written.ok()) written = file.resize(summary.plan_bytes);
  if (written.ok()) {
    std::shared_ptr<const PlanView> view;
    check_verified(PlanView::open_file(file.readable_path(), {}, view));
    written = file.commit();
  }
  if (written.ok()) return summary;
  diagnostics.error(DiagCode::FileWrite, {.file = path, .position = {}}, written.message());
  return std::nullopt;
}

}  // namespace rlx
