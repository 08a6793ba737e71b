// SPDX-License-Identifier: Apache-2.0
// Edits of sections and of the header, and of the packed index behind the schema's back.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tests/fuzz/plans/mutant_builder.h"

namespace rlx::test {
namespace {

struct HeaderField {
  const char* name;
  uint32_t offset;
  uint32_t bytes;
};

#define RLX_HEADER_FIELD(field)                                    \
  HeaderField {                                                    \
#field, offsetof(PlanHeader, field), sizeof(PlanHeader::field) \
  }
#define RLX_TARGET_FIELD(target, type, field)                                                     \
  HeaderField {                                                                                   \
#target "." #field, offsetof(PlanHeader, target) + offsetof(type, field), sizeof(type::field) \
  }
#define RLX_PROFILE_FIELD(number, field)                                  \
  HeaderField {                                                           \
    "profiles[" #number "]." #field,                                      \
        offsetof(PlanHeader, profiles) + (number) * sizeof(PlanProfile) + \
            offsetof(PlanProfile, field),                                 \
        sizeof(PlanProfile::field)                                        \
  }
constexpr HeaderField kHeaderFields[] = {
    RLX_HEADER_FIELD(magic),
    RLX_HEADER_FIELD(major),
    RLX_HEADER_FIELD(minor),
    RLX_HEADER_FIELD(header_bytes),
    RLX_HEADER_FIELD(file_bytes),
    RLX_HEADER_FIELD(flags),
    RLX_HEADER_FIELD(section_count),
    RLX_HEADER_FIELD(weights_bytes),
    RLX_HEADER_FIELD(state_bytes),
    RLX_HEADER_FIELD(arena_bytes),
    RLX_HEADER_FIELD(io_bytes),
    RLX_HEADER_FIELD(host_bytes),
    RLX_HEADER_FIELD(producer),
    RLX_TARGET_FIELD(vulkan, PlanVulkanTarget, present),
    RLX_TARGET_FIELD(vulkan, PlanVulkanTarget, api_version),
    RLX_TARGET_FIELD(vulkan, PlanVulkanTarget, features),
    RLX_TARGET_FIELD(vulkan, PlanVulkanTarget, max_workgroup_invocations),
    RLX_TARGET_FIELD(vulkan, PlanVulkanTarget, max_shared_bytes),
    RLX_TARGET_FIELD(vulkan, PlanVulkanTarget, max_params_bytes),
    RLX_TARGET_FIELD(vulkan, PlanVulkanTarget, max_grid),
    RLX_TARGET_FIELD(cuda, PlanCudaTarget, present),
    RLX_TARGET_FIELD(cuda, PlanCudaTarget, ptx_architecture),
    RLX_TARGET_FIELD(cuda, PlanCudaTarget, minimum_driver),
    RLX_TARGET_FIELD(cuda, PlanCudaTarget, architecture_count),
    RLX_TARGET_FIELD(cuda, PlanCudaTarget, architectures),
    RLX_HEADER_FIELD(index_error_bytes),
    RLX_HEADER_FIELD(profile_count),
    RLX_HEADER_FIELD(reserved),
    RLX_PROFILE_FIELD(0, name),
    RLX_PROFILE_FIELD(0, target),
    RLX_PROFILE_FIELD(0, vulkan),
    RLX_PROFILE_FIELD(1, name),
    RLX_PROFILE_FIELD(1, target),
    RLX_PROFILE_FIELD(1, device_type),
    RLX_PROFILE_FIELD(1, vulkan),
};
#undef RLX_PROFILE_FIELD
#undef RLX_HEADER_FIELD
#undef RLX_TARGET_FIELD

std::byte* bytes_of(PlanHeader& header) {
  return reinterpret_cast<std::byte*>(&header);
}

}  // namespace

void MutantBuilder::edit_params() {
  FileSection* params = file_.section(SectionKind::Params);
  if (params == nullptr || params->bytes.empty()) return;
  const size_t at = dice_.below(params->bytes.size()) / 4 * 4;
  const size_t bytes = std::min<size_t>(dice_.chance(1, 3) ? 8 : 4, params->bytes.size() - at);
  uint64_t old = 0;
  std::memcpy(&old, params->bytes.data() + at, bytes);
  static constexpr uint64_t kBy[] = {1, 2, 4, 8, 16, 64, 256, 4096};
  const uint64_t by = kBy[dice_.below(std::size(kBy))];
  const uint64_t made[] = {0,          old + by,     old - by, old * 2,
                           UINT64_MAX, dice_.next(), old ^ by, uint64_t{1} << dice_.below(64)};
  const uint64_t bits = made[dice_.below(std::size(made))];
  std::memcpy(params->bytes.data() + at, &bits, bytes);
  note("params at ", at, ": ", old, " becomes ", bits);
}

void MutantBuilder::edit_code() {
  FileSection* code = file_.section(SectionKind::Code);
  if (code == nullptr || code->bytes.empty()) return;
  const size_t at = dice_.below(code->bytes.size()) / 4 * 4;
  const size_t bytes = std::min<size_t>(4, code->bytes.size() - at);
  uint32_t word = 0;
  std::memcpy(&word, code->bytes.data() + at, bytes);
  const uint32_t made[] = {0,
                           UINT32_MAX,
                           word + 1,
                           word - 1,
                           word ^ 1u << dice_.below(32),
                           static_cast<uint32_t>(dice_.next())};
  word = made[dice_.below(std::size(made))];
  std::memcpy(code->bytes.data() + at, &word, bytes);
  note("code at ", at, " becomes ", word);
}

// A section that is longer, shorter, empty, gone, twice there, in another place or of another kind.
void MutantBuilder::edit_section() {
  if (file_.sections.empty()) return;
  const size_t number = dice_.below(file_.sections.size());
  FileSection& section = file_.sections[number];
  switch (dice_.below(8)) {
    case 0:
      section.bytes.resize(section.bytes.size() + 1 + dice_.below(300));
      break;
    case 1:
      section.bytes.resize(dice_.below(section.bytes.size() + 1));
      break;
    case 2:
      section.bytes.clear();
      break;
    case 3:
      file_.sections.erase(file_.sections.begin() + static_cast<ptrdiff_t>(number));
      break;
    case 4:
      file_.sections.push_back(FileSection(section));
      break;
    case 5:
      std::swap(section, file_.sections[dice_.below(file_.sections.size())]);
      break;
    case 6:
      section.kind = static_cast<SectionKind>(dice_.below(9));
      break;
    default:
      section.flags = static_cast<uint32_t>(dice_.below(4));
  }
  note("section ", number, " edited");
}

void MutantBuilder::other_section() {
  const auto kind = static_cast<SectionKind>(1 + dice_.below(7));
  const FileSection* from = donor_.file.section(kind);
  FileSection* to = file_.section(kind);
  if (from == nullptr) return;
  if (to == nullptr) {
    file_.sections.push_back(*from);
  } else {
    to->bytes = from->bytes;
  }
  if (kind == SectionKind::Index) index_ = donor_.index.root;
  if (kind == SectionKind::Debug) debug_ = donor_.debug.root;
  has_debug_ = has_debug_ && !debug_.kids.empty();
  note("section of kind ", static_cast<uint32_t>(kind), " of ", donor_.name);
}

void MutantBuilder::edit_index_bytes() {
  ++index_byte_edits_;
  ++edits_;
}

void MutantBuilder::edit_header() {
  ++header_edits_;
  ++edits_;
}

void MutantBuilder::write_index_bytes(std::vector<std::byte>& index) {
  if (index.size() < 16) return;
  const auto write = [&](size_t at, uint32_t word) {
    std::memcpy(index.data() + at, &word, sizeof word);
    note("index byte ", at, " becomes the word ", word);
  };
  const auto read = [&](size_t at) {
    uint32_t word = 0;
    std::memcpy(&word, index.data() + at, sizeof word);
    return word;
  };
  if (index_byte_edits_ == 1 && dice_.chance(1, 2)) {
    // Offsets, while they are still good: to another's target, or beside their own.
    const std::vector<Reference> references = references_of(all_.plan_schema_, index);
    const Reference& a = references[dice_.below(references.size())];
    const Reference& b = references[dice_.below(references.size())];
    if (dice_.chance(1, 2) && b.target > a.position)
      return write(a.position, b.target - a.position);
    static constexpr uint32_t kBy[] = {1, 2, 4, 8, 16, 64};
    const uint32_t by = kBy[dice_.below(std::size(kBy))];
    const bool length = dice_.chance(1, 2);
    const size_t at = length ? a.target : a.position;
    if (at + sizeof by <= index.size())
      return write(at, dice_.chance(1, 2) ? read(at) + by : read(at) - by);
    return;
  }
  // Most of what matters lies at a multiple of 4.
  const size_t anywhere = dice_.below(index.size() - 4);
  const size_t at = dice_.chance(3, 4) ? anywhere / 4 * 4 : anywhere;
  const uint32_t old = read(at);
  const uint32_t made[] = {0,
                           UINT32_MAX,
                           old + 1,
                           old - 1,
                           old + 4,
                           old - 4,
                           old ^ 1u << dice_.below(32),
                           old << 8,
                           static_cast<uint32_t>(at),
                           static_cast<uint32_t>(index.size()),
                           read(dice_.below(index.size() - 4)),
                           static_cast<uint32_t>(dice_.next())};
  write(at, made[dice_.below(std::size(made))]);
}

void MutantBuilder::write_header_field(PlanHeader& header) {
  // The count may be an edit's already.
  const size_t sections = std::min<size_t>(header.section_count, std::size(header.sections));
  if (dice_.chance(1, 3) && sections > 0) {
    PlanSection& section = header.sections[dice_.below(sections)];
    const uint64_t other = header.sections[dice_.below(sections)].offset_bytes;
    static constexpr uint64_t kBy[] = {1, 4, 8, 16, 64, 256, 4096, uint64_t{1} << 40};
    const uint64_t by = kBy[dice_.below(std::size(kBy))];
    const uint64_t places[] = {section.offset_bytes + by, section.offset_bytes - by, other, 0,
                               UINT64_MAX - by};
    const uint64_t sizes[] = {section.size_bytes + by, section.size_bytes - by, 0, UINT64_MAX - by};
    if (dice_.chance(1, 2))
      section.offset_bytes = places[dice_.below(std::size(places))];
    else
      section.size_bytes = sizes[dice_.below(std::size(sizes))];
    return note("a section of the header moved to ", section.offset_bytes, " + ",
                section.size_bytes);
  }
  const HeaderField& field = kHeaderFields[dice_.below(std::size(kHeaderFields))];
  const uint32_t width = std::min(field.bytes, 8u);
  const uint32_t at =
      field.offset + static_cast<uint32_t>(dice_.below(field.bytes / width)) * width;
  uint64_t old = 0;
  std::memcpy(&old, bytes_of(header) + at, width);
  static constexpr uint64_t kBy[] = {1, 2, 16, 256, 4096};
  const uint64_t by = kBy[dice_.below(std::size(kBy))];
  const uint64_t made[] = {0,
                           1,
                           old + by,
                           old - by,
                           old * 2,
                           UINT64_MAX,
                           dice_.next(),
                           old ^ uint64_t{1} << dice_.below(64),
                           uint64_t{1} << dice_.below(64)};
  const uint64_t bits = made[dice_.below(std::size(made))];
  std::memcpy(bytes_of(header) + at, &bits, width);
  note("header ", field.name, ": ", old, " becomes ", bits);
}

}  // namespace rlx::test
