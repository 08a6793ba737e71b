// SPDX-License-Identifier: Apache-2.0
// Sections copied from file to file, the index replaced, checksums renewed.
#include "tools/tune/plan_file.h"

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
#include "schema/rounding.h"

namespace rlx::tune {
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

// The header comes last: its checksums cover what was written.
Status write_header(PlanHeader header, OutputFile& to) {
  std::array<std::byte, kPlanHeaderBytes> page{};
  header.header_checksum = 0;
  std::memcpy(page.data(), &header, sizeof header);
  header.header_checksum = XXH3_64bits(page.data(), page.size());
  std::memcpy(page.data(), &header, sizeof header);
  return to.write_at(0, page);
}

Status write_sections(const InputFile& from, PlanHeader& header, std::span<const std::byte> index,
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
    if (static_cast<SectionKind>(old.kind) == SectionKind::Index) {
      section->size_bytes = index.size();
      section->checksum = XXH3_64bits(index.data(), index.size());
      header.host_bytes += index.size() - old.size_bytes;
      RLX_RETURN_IF_ERROR(to.write_at(section->offset_bytes, index));
    } else {
      RLX_RETURN_IF_ERROR(copy_bytes(from, old, section->offset_bytes, to));
    }
    end = section->offset_bytes + section->size_bytes;
  }
  header.file_bytes = end;
  return {};
}

}  // namespace

Status write_with_index(const std::string& from, std::span<const std::byte> index,
                        const std::string& to) {
  InputFile source;
  RLX_RETURN_IF_ERROR(InputFile::open(from, source));
  std::vector<std::byte> page(kPlanHeaderBytes);
  RLX_RETURN_IF_ERROR(source.read(0, page));
  PlanHeader header{};
  RLX_RETURN_IF_ERROR(PlanView::open_header(page, header));
  OutputFile file;
  RLX_RETURN_IF_ERROR(OutputFile::create(to, OutputUse::Result, file));
  RLX_RETURN_IF_ERROR(write_sections(source, header, index, file));
  RLX_RETURN_IF_ERROR(file.resize(header.file_bytes));  // sections may end in nothing
  RLX_RETURN_IF_ERROR(write_header(header, file));
  std::shared_ptr<const PlanView> view;
  RLX_RETURN_IF_ERROR(PlanView::open_file(file.readable_path(), {}, view));
  return file.commit();
}

}  // namespace rlx::tune
