// SPDX-License-Identifier: Apache-2.0
// Structural checks of CUDA code: cubin (ELF) and PTX.
#include "runtime/cuda_code.h"

#include <elf.h>

#include <cctype>
#include <cstring>
#include <optional>

#include "runtime/text.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif

namespace rlx {
namespace {

template <class Record>
std::optional<Record> record_at(std::span<const std::byte> bytes, uint64_t offset) {
  if (sizeof(Record) > bytes.size() || offset > bytes.size() - sizeof(Record)) return std::nullopt;
  Record record;
  std::memcpy(&record, bytes.data() + offset, sizeof record);
  return record;
}

std::optional<Elf64_Shdr> section_at(std::span<const std::byte> code, const Elf64_Ehdr& header,
                                     uint32_t index) {
  const uint64_t distance = uint64_t{index} * sizeof(Elf64_Shdr);
  if (header.e_shoff > code.size() || distance > code.size() - header.e_shoff) return std::nullopt;
  return record_at<Elf64_Shdr>(code, header.e_shoff + distance);
}

// The zero-terminated text at an offset of a string section.
std::optional<std::string_view> string_at(std::span<const std::byte> code,
                                          const Elf64_Shdr& strings, uint64_t offset) {
  if (strings.sh_offset > code.size() || strings.sh_size > code.size() - strings.sh_offset)
    return std::nullopt;
  if (offset >= strings.sh_size) return std::nullopt;
  const char* text = reinterpret_cast<const char*>(code.data() + strings.sh_offset + offset);
  const size_t room = strings.sh_size - offset;
  const size_t length = strnlen(text, room);
  return length == room ? std::nullopt : std::optional(std::string_view(text, length));
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

}  // namespace

std::string check_cubin(std::span<const std::byte> code, uint32_t architecture) {
  const std::optional<Elf64_Ehdr> header = record_at<Elf64_Ehdr>(code, 0);
  if (!header.has_value() || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return "is no 64-bit little-endian ELF";
  }
  if (header->e_machine != EM_CUDA)
    return text_of("is for machine ", header->e_machine, ", wanted CUDA (", EM_CUDA, ")");
  // The architecture stands in the lowest byte of the flags, in the second one since ABI version 8
  // (CUDA 13).
  const uint32_t low = header->e_flags & 0xFF;
  const uint32_t high = header->e_flags >> 8 & 0xFF;
  if (low != architecture && high != architecture) {
    return text_of("has flags ", header->e_flags, ", which do not name sm_", architecture);
  }
  for (uint32_t i = 0; i < header->e_shnum; ++i) {
    const std::optional<Elf64_Shdr> section = section_at(code, *header, i);
    const bool inside =
        section.has_value() && (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL ||
                                (section->sh_offset <= code.size() &&
                                 section->sh_size <= code.size() - section->sh_offset));
    if (!inside) return text_of("has section ", i, " outside its ", code.size(), " bytes");
  }
  return {};
}

bool cubin_has_function(std::span<const std::byte> code, std::string_view name) {
  const std::optional<Elf64_Ehdr> header = record_at<Elf64_Ehdr>(code, 0);
  if (!header.has_value()) return false;
  const std::optional<Elf64_Shdr> names = section_at(code, *header, header->e_shstrndx);
  if (!names.has_value()) return false;
  const std::string wanted = text_of(".text.", name);
  for (uint32_t i = 0; i < header->e_shnum; ++i) {
    const std::optional<Elf64_Shdr> section = section_at(code, *header, i);
    if (section.has_value() && string_at(code, *names, section->sh_name) == wanted) return true;
  }
  return false;
}

std::string check_ptx(std::span<const std::byte> code, std::string_view entry_point,
                      uint32_t architecture) {
  std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  if (text.find('\0') != std::string_view::npos) return "is no text";
  if (text.find(".version ") == std::string_view::npos) return "has no .version";
  static constexpr std::string_view kTarget = ".target sm_";
  const size_t target = text.find(kTarget);
  if (target == std::string_view::npos) return "has no .target";
  uint32_t number = 0;
  for (size_t i = target + kTarget.size();
       i < text.size() && number < 10000 && text[i] >= '0' && text[i] <= '9'; ++i) {
    number = number * 10 + static_cast<uint32_t>(text[i] - '0');
  }
  if (number == 0 || number > architecture)
    return text_of("is for sm_", number, ", recorded is ", architecture);
  static constexpr std::string_view kEntry = ".entry ";
  for (size_t at = text.find(kEntry); at != std::string_view::npos;
       at = text.find(kEntry, at + 1)) {
    const std::string_view rest = text.substr(at + kEntry.size());
    const bool named =
        rest.substr(0, entry_point.size()) == entry_point &&
        (rest.size() == entry_point.size() || !is_name_character(rest[entry_point.size()]));
    if (named) return {};
  }
  return text_of("has no entry point named ", quoted(entry_point));
}

}  // namespace rlx
