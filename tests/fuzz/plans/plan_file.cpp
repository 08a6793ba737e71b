// SPDX-License-Identifier: Apache-2.0
// Taking plan files apart and putting them together.
#include "tests/fuzz/plans/plan_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "schema/rounding.h"

namespace rlx::test {
namespace {

uint64_t alignment_of(SectionKind kind) {
  switch (kind) {
    case SectionKind::Index:
      return 64;
    case SectionKind::Params:
      return 16;
    case SectionKind::Code:
      return 256;
    case SectionKind::Weights:
      return 4096;
    case SectionKind::Debug:
    case SectionKind::Text:
      break;
  }
  return 8;
}

}  // namespace

const FileSection* PlanFile::section(SectionKind kind) const {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const FileSection& other) { return other.kind == kind; });
  return found == sections.end() ? nullptr : &*found;
}

FileSection* PlanFile::section(SectionKind kind) {
  return const_cast<FileSection*>(std::as_const(*this).section(kind));
}

PlanFile split_plan(std::span<const std::byte> plan) {
  PlanFile file;
  std::memcpy(&file.header, plan.data(), sizeof file.header);
  for (uint32_t i = 0; i < file.header.section_count; ++i) {
    const PlanSection& section = file.header.sections[i];
    const auto bytes = plan.subspan(section.offset_bytes, section.size_bytes);
    file.sections.push_back({.kind = static_cast<SectionKind>(section.kind),
                             .flags = section.flags,
                             .bytes = {bytes.begin(), bytes.end()}});
  }
  return file;
}

std::vector<std::byte> join_plan(const PlanFile& file) {
  PlanHeader header = file.header;
  std::fill(std::begin(header.sections), std::end(header.sections), PlanSection{});
  header.section_count = 0;
  header.host_bytes = 0;
  std::vector<std::byte> plan(kPlanHeaderBytes);
  for (const FileSection& section : file.sections) {
    if (header.section_count == kPlanMaxSections) break;
    const uint64_t alignment = alignment_of(section.kind);
    plan.resize(round_up(plan.size(), alignment));
    header.sections[header.section_count++] = {.kind = static_cast<uint32_t>(section.kind),
                                               .flags = section.flags,
                                               .offset_bytes = plan.size(),
                                               .size_bytes = section.bytes.size(),
                                               .checksum = 0};
    plan.insert(plan.end(), section.bytes.begin(), section.bytes.end());
    const bool on_host = section.kind == SectionKind::Index ||
                         section.kind == SectionKind::Params || section.kind == SectionKind::Code;
    if (on_host) header.host_bytes += section.bytes.size();
  }
  header.file_bytes = plan.size();
  std::memcpy(plan.data(), &header, sizeof header);
  return plan;
}

}  // namespace rlx::test
