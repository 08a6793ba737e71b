// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 1: the header page and the table of sections.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "runtime/plan/target_row.h"
#include "runtime/verify/verify_context.h"
#include "schema/plan_regions.h"

namespace rlx {
namespace {

constexpr uint64_t kMebi = uint64_t{1} << 20;
// Of a segment on a device and of the weights in the file: no device addresses more.
constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 48;

struct SectionRow {
  SectionKind kind;
  std::string_view name;
  uint64_t alignment_bytes;
  uint64_t most_bytes;
};

// All but the weights and the text are copied into host memory when a plan is opened. Graphs have
// 2^20 nodes at most, and fewer steps.
constexpr SectionRow kSectionRows[] = {
    {SectionKind::Index, "index", 64, 1024 * kMebi},   // 1 KiB per step
    {SectionKind::Params, "params", 16, 128 * kMebi},  // kMaxParamsBytes per step
    {SectionKind::Code, "code", 256, 1024 * kMebi},    // 10,000 cubins of 100 KiB
    {SectionKind::Weights, "weights", 4096, kMaxSegmentBytes},
    {SectionKind::Debug, "debug", 8, 512 * kMebi},  // 512 bytes per step
    {SectionKind::Text, "text", 8, 256 * kMebi},    // 1 KiB per token
    {static_cast<SectionKind>(kRegionsSection), "regions", 8, sizeof(uint64_t)},
};

const SectionRow* section_row(uint32_t kind) {
  const auto* row = std::find_if(
      std::begin(kSectionRows), std::end(kSectionRows),
      [&](const SectionRow& candidate) { return static_cast<uint32_t>(candidate.kind) == kind; });
  return row == std::end(kSectionRows) ? nullptr : row;
}

std::string place(const PlanHeader& header, uint32_t index) {
  const PlanSection& section = header.sections[index];
  return text_of("section ", index, " (", section_name(section.kind), ")");
}

void verify_section(const PlanHeader& header, uint32_t index, Faults& faults) {
  const PlanSection& section = header.sections[index];
  const SectionRow* row = section_row(section.kind);
  if (row == nullptr && (section.flags & kSectionCritical) != 0) {
    faults.add(VerifyRule::SectionUnknown, "section ", index, " is of kind ", section.kind,
               " and marked critical; this runtime (format ", kPlanMajor, ".", kPlanMinor,
               ") does not know it, the plan has format ", header.major, ".", header.minor);
  }
  if (row != nullptr && section.size_bytes > row->most_bytes) {
    return faults.add(VerifyRule::SectionLimit, place(header, index), " has ", section.size_bytes,
                      " bytes, at most ", row->most_bytes, " can be used");
  }
  if (section.offset_bytes < kPlanHeaderBytes ||
      !range_inside(section.offset_bytes, section.size_bytes, header.file_bytes)) {
    faults.add(VerifyRule::SectionRange, place(header, index), " has offset ", section.offset_bytes,
               " and size ", section.size_bytes, ", which is not inside bytes ", kPlanHeaderBytes,
               " to ", header.file_bytes);
  }
  if (row != nullptr && section.offset_bytes % row->alignment_bytes != 0) {
    faults.add(VerifyRule::SectionAlignment, place(header, index), " has offset ",
               section.offset_bytes, ", wanted a multiple of ", row->alignment_bytes);
  }
}

void verify_sections_together(const PlanHeader& header, Faults& faults) {
  std::vector<uint32_t> order(header.section_count);
  for (uint32_t i = 0; i < header.section_count; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return header.sections[a].offset_bytes < header.sections[b].offset_bytes;
  });
  uint64_t end = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const PlanSection& section = header.sections[order[i]];
    if (section.size_bytes == 0) continue;
    if (section.offset_bytes < end) {
      faults.add(VerifyRule::SectionOverlap, place(header, order[i]), " begins at byte ",
                 section.offset_bytes, ", before the section in front of it ends at ", end);
    }
    end = std::max(end, section.offset_bytes + section.size_bytes);
  }
  for (const SectionRow& row : kSectionRows) {
    const auto count = std::count_if(header.sections, header.sections + header.section_count,
                                     [&](const PlanSection& section) {
                                       return section.kind == static_cast<uint32_t>(row.kind);
                                     });
    if (count > 1)
      faults.add(VerifyRule::SectionDuplicate, "the plan has ", count, " sections of kind ",
                 row.name);
    if (count == 0 && row.kind == SectionKind::Index)
      faults.add(VerifyRule::SectionMissing, "the plan has no index section");
  }
}

// Sums of what passes do not wrap.
void verify_segments(const PlanHeader& header, Faults& faults) {
  for (const uint64_t bytes : {header.weights_bytes, header.state_bytes, header.arena_bytes,
                               header.io_bytes, header.index_error_bytes}) {
    if (bytes < kMaxSegmentBytes) continue;
    faults.add(VerifyRule::SegmentBytes, "the header declares a segment of ", bytes,
               " bytes, fewer than 2^48 are possible");
  }
}

void verify_producer(const PlanHeader& header, Faults& faults) {
  const char* end = std::end(header.producer);
  const char* text_end = std::find(std::begin(header.producer), end, '\0');
  const std::string_view text(header.producer, static_cast<size_t>(text_end - header.producer));
  const bool padded = std::all_of(text_end, end, [](char c) { return c == '\0'; });
  if (text_end != end && padded && is_plain_text(text)) return;
  faults.add(VerifyRule::HeaderProducer,
             "the header's producer is no text of 31 bytes at most: ", quoted(text));
}

void verify_targets(const PlanHeader& header, Faults& faults) {
  if (targets_of(header) == 0) faults.add(VerifyRule::TargetMissing, "the header names no target");
  const uint32_t mark = std::max(header.vulkan.present, header.cuda.present);
  if (mark > 1) {
    faults.add(VerifyRule::TargetFields, "a target's mark of presence is ", mark,
               ", wanted 0 or 1");
  }
  for (const TargetRow& row : target_rows()) {
    if (!row.is_in(header)) continue;
    const std::string fault = row.fault(header);
    if (!fault.empty()) faults.add(VerifyRule::TargetFields, fault);
  }
}

}  // namespace

std::string_view section_name(uint32_t kind) {
  const SectionRow* row = section_row(kind);
  return row == nullptr ? "unknown kind" : row->name;
}

void verify_section_checksum(const PlanSection& section, uint64_t actual, Faults& faults) {
  if (actual == section.checksum) return;
  faults.add(VerifyRule::SectionChecksum, "the ", section_name(section.kind), " section at byte ",
             section.offset_bytes, " was altered: its checksum is ", actual, ", the header says ",
             section.checksum);
}

void verify_header(const PlanHeader& header, uint64_t file_bytes, Faults& faults) {
  if (std::memcmp(header.magic, kPlanMagic, sizeof kPlanMagic) != 0) {
    return faults.add(VerifyRule::Magic, "this is no plan: its first bytes are not RLXPLAN");
  }
  if (header.major != kPlanMajor) {
    return faults.add(
        VerifyRule::MajorVersion, "the plan has format ", header.major, ".", header.minor,
        ", this runtime reads ", kPlanMajor, ".", kPlanMinor, " and older minors; ",
        header.major > kPlanMajor ? "use a newer runtime" : "compile the model again");
  }
  if (header.header_bytes != kPlanHeaderBytes) {
    return faults.add(VerifyRule::HeaderBytes, "the header says that it has ", header.header_bytes,
                      " bytes, wanted ", kPlanHeaderBytes);
  }
  if (header.file_bytes != file_bytes) {
    return faults.add(VerifyRule::FileBytes, "the plan was ",
                      file_bytes < header.file_bytes ? "truncated" : "extended", ": it has ",
                      file_bytes, " bytes, its header says ", header.file_bytes);
  }
  if (header.flags != 0) {
    faults.add(VerifyRule::HeaderFlags, "the header has flags ", header.flags,
               ", none is known to format ", kPlanMajor, ".", kPlanMinor);
  }
  if (header.section_count > kPlanMaxSections) {
    return faults.add(VerifyRule::SectionCount, "the header says ", header.section_count,
                      " sections, at most ", kPlanMaxSections, " have room");
  }
  for (uint32_t i = 0; i < header.section_count; ++i) verify_section(header, i, faults);
  if (!faults.empty()) return;
  verify_sections_together(header, faults);
  verify_targets(header, faults);
  verify_header_profiles(header, faults);
  verify_segments(header, faults);
  verify_producer(header, faults);
}

}  // namespace rlx
