// SPDX-License-Identifier: Apache-2.0
// Sections copied from file to file, one of them replaced, checksums renewed.
#include "tools/plan_file/plan_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/base/input_file.h"
#include "runtime/base/output_file.h"
#include "runtime/plan/plan_view.h"
#include "schema/plan_header.h"
#include "schema/plan_signature.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr uint64_t kChunkBytes = uint64_t{4} << 20;
constexpr uint64_t kMostAlignmentBytes = 4096;  // of any kind of section

Status copy_bytes(const InputFile& from, const PlanSection& old, uint64_t offset_bytes,
                  OutputFile& to) {
  std::vector<std::byte> chunk(std::min(old.size_bytes, kChunkBytes));
  for (uint64_t done = 0; done < old.size_bytes;) {
    const std::span<std::byte> part(chunk.data(),
                                    std::min<uint64_t>(chunk.size(), old.size_bytes - done));
    RLX_RETURN_IF_ERROR(from.read(old.offset_bytes + done, part));
    RLX_RETURN_IF_ERROR(to.write_at(offset_bytes + done, part));
    done += part.size();
  }
  return {};
}

// The page of a header whose checksum is 0.
std::array<std::byte, kPlanHeaderBytes> page_of(const PlanHeader& header) {
  std::array<std::byte, kPlanHeaderBytes> page{};
  std::memcpy(page.data(), &header, sizeof header);
  return page;
}

// The header comes last: its checksums cover what was written.
Status write_header(PlanHeader header, OutputFile& to) {
  header.header_checksum = 0;
  std::array<std::byte, kPlanHeaderBytes> page = page_of(header);
  header.header_checksum = XXH3_64bits(page.data(), page.size());
  std::memcpy(page.data(), &header, sizeof header);
  return to.write_at(0, page);
}

// A place in the header for a section that the plan has not had.
Status add_section(uint32_t kind, PlanHeader& header) {
  for (uint32_t i = 0; i < header.section_count; ++i) {
    if (header.sections[i].kind == kind) return {};
  }
  if (header.section_count == kPlanMaxSections)
    return {RLX_INVALID_PLAN, "the plan has no room for another section"};
  header.sections[header.section_count++] = {
      .kind = kind, .flags = 0, .offset_bytes = header.file_bytes, .size_bytes = 0, .checksum = 0};
  return {};
}

void drop_section(uint32_t kind, PlanHeader& header) {
  PlanSection* const end = header.sections + header.section_count;
  PlanSection* const kept = std::remove_if(
      header.sections, end, [&](const PlanSection& section) { return section.kind == kind; });
  std::fill(kept, end, PlanSection{});
  header.section_count = static_cast<uint32_t>(kept - header.sections);
}

// Lays out the sections, and copies all but that of `kind`, which gets room for `size_bytes`.
Status copy_sections(const InputFile& from, PlanHeader& header, uint32_t kind, uint64_t size_bytes,
                     OutputFile& to) {
  std::vector<PlanSection*> sections;
  for (uint32_t i = 0; i < header.section_count; ++i) sections.push_back(&header.sections[i]);
  std::sort(sections.begin(), sections.end(), [](const PlanSection* a, const PlanSection* b) {
    return a->offset_bytes < b->offset_bytes;
  });
  uint64_t end = kPlanHeaderBytes;
  for (PlanSection* section : sections) {
    const PlanSection old = *section;
    section->offset_bytes = round_up(end, kMostAlignmentBytes);
    if (old.kind == kind) {
      section->size_bytes = size_bytes;
      section->checksum = 0;
      if (static_cast<SectionKind>(kind) == SectionKind::Index)
        header.host_bytes += size_bytes - old.size_bytes;
    } else {
      RLX_RETURN_IF_ERROR(copy_bytes(from, old, section->offset_bytes, to));
    }
    end = section->offset_bytes + section->size_bytes;
  }
  header.file_bytes = end;
  return {};
}

// Makes the section that copy_sections left room for.
Status write_made(PlanHeader& header, uint32_t kind, const MakeSection& make, OutputFile& to) {
  PlanSection& section =
      *std::find_if(header.sections, header.sections + header.section_count,
                    [&](const PlanSection& candidate) { return candidate.kind == kind; });
  header.header_checksum = 0;
  std::vector<std::byte> bytes;
  RLX_RETURN_IF_ERROR(make(page_of(header), bytes));
  if (bytes.size() != section.size_bytes) {
    return {RLX_INTERNAL_ERROR, "a section of " + std::to_string(bytes.size()) +
                                    " bytes was made, announced were " +
                                    std::to_string(section.size_bytes)};
  }
  section.checksum = XXH3_64bits(bytes.data(), bytes.size());
  return to.write_at(section.offset_bytes, bytes);
}

Status open_plan_file(const std::string& path, InputFile& file, PlanHeader& header) {
  RLX_RETURN_IF_ERROR(InputFile::open(path, file));
  std::vector<std::byte> page(kPlanHeaderBytes);
  RLX_RETURN_IF_ERROR(file.read(0, page));
  return PlanView::open_header(page, header);
}

}  // namespace

Status write_with_index(const std::string& from, std::span<const std::byte> index,
                        const std::string& to) {
  return write_with_section(from, static_cast<uint32_t>(SectionKind::Index), index, to);
}

Status write_with_section(const std::string& from, uint32_t kind,
                          std::span<const std::byte> section, const std::string& to) {
  const auto copy = [&](std::span<const std::byte>, std::vector<std::byte>& bytes) -> Status {
    bytes.assign(section.begin(), section.end());
    return {};
  };
  return write_with_made_section(from, kind, section.size(), copy, to);
}

Status write_with_made_section(const std::string& from, uint32_t kind, uint64_t size_bytes,
                               const MakeSection& make, const std::string& to) {
  InputFile source;
  PlanHeader header{};
  RLX_RETURN_IF_ERROR(open_plan_file(from, source, header));
  if (kind != kSignatureSection) drop_section(kSignatureSection, header);
  RLX_RETURN_IF_ERROR(add_section(kind, header));
  OutputFile file;
  RLX_RETURN_IF_ERROR(OutputFile::create(to, OutputUse::Result, file));
  RLX_RETURN_IF_ERROR(copy_sections(source, header, kind, size_bytes, file));
  RLX_RETURN_IF_ERROR(write_made(header, kind, make, file));
  RLX_RETURN_IF_ERROR(file.resize(header.file_bytes));  // sections may end in nothing
  RLX_RETURN_IF_ERROR(write_header(header, file));
  std::shared_ptr<const PlanView> view;
  RLX_RETURN_IF_ERROR(PlanView::open_file(file.readable_path(), {}, view));
  return file.commit();
}

Status read_section(const std::string& path, uint32_t kind, uint64_t most_bytes,
                    std::vector<std::byte>& section) {
  InputFile file;
  PlanHeader header{};
  RLX_RETURN_IF_ERROR(open_plan_file(path, file, header));
  section.clear();
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const PlanSection& found = header.sections[i];
    if (found.kind != kind) continue;
    if (found.size_bytes > most_bytes) {
      return {RLX_INVALID_PLAN, path + ": section of kind " + std::to_string(kind) + " has " +
                                    std::to_string(found.size_bytes) + " bytes, at most " +
                                    std::to_string(most_bytes) + " are read"};
    }
    section.resize(found.size_bytes);
    RLX_RETURN_IF_ERROR(file.read(found.offset_bytes, section));
    if (XXH3_64bits(section.data(), section.size()) == found.checksum) return {};
    return {RLX_INVALID_PLAN,
            path + ": the section of kind " + std::to_string(kind) + " was altered"};
  }
  return {};
}

}  // namespace rlx
