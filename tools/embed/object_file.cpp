// SPDX-License-Identifier: Apache-2.0
// A relocatable ELF file of one section of data and two symbols, by the structs of <elf.h>.
#include <elf.h>

#include <array>
#include <cstring>
#include <string_view>

#include "schema/rounding.h"
#include "tools/embed/embed.h"

namespace rlx {
namespace {

#if defined(__x86_64__)
constexpr std::optional<uint16_t> kMachine = EM_X86_64;
#elif defined(__aarch64__) && defined(__AARCH64EL__)
constexpr std::optional<uint16_t> kMachine = EM_AARCH64;
#else
constexpr std::optional<uint16_t> kMachine = std::nullopt;
#endif

constexpr uint64_t kPlanAlignment = 64;
constexpr uint64_t kTableAlignment = 8;

enum Section : uint16_t { Null, Data, Symbols, Names, SectionNames, Stack, SectionCount };
constexpr std::array<std::string_view, SectionCount> kSectionNames = {
    "", ".rodata", ".symtab", ".strtab", ".shstrtab", ".note.GNU-stack"};

// Appends to a file that is built in memory.
class Builder {
 public:
  // Where the bytes went.
  uint64_t add(std::span<const std::byte> bytes, uint64_t alignment) {
    bytes_.resize(round_up(bytes_.size(), alignment));
    const uint64_t offset_bytes = bytes_.size();
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return offset_bytes;
  }
  template <class Record>
  uint64_t add_records(std::span<const Record> records) {
    return add(std::as_bytes(records), kTableAlignment);
  }
  template <class Record>
  void put(uint64_t offset_bytes, const Record& record) {
    std::memcpy(bytes_.data() + offset_bytes, &record, sizeof record);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Strings one after another, each ending in a zero, the first of them empty.
class StringTable {
 public:
  uint32_t add(std::string_view text) {
    const auto at = static_cast<uint32_t>(text_.size());
    text_ += text;
    text_ += '\0';
    return at;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(text_.data(), text_.size()));
  }

 private:
  std::string text_ = std::string(1, '\0');
};

Elf64_Sym symbol(uint32_t name, uint64_t offset_bytes, uint64_t size_bytes) {
  Elf64_Sym made = {};
  made.st_name = name;
  made.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  made.st_shndx = Section::Data;
  made.st_value = offset_bytes;
  made.st_size = size_bytes;
  return made;
}

Elf64_Shdr section(uint32_t type, uint64_t offset_bytes, uint64_t size_bytes, uint64_t alignment) {
  Elf64_Shdr made = {};
  made.sh_type = type;
  made.sh_offset = offset_bytes;
  made.sh_size = size_bytes;
  made.sh_addralign = alignment;
  return made;
}

Elf64_Ehdr file_header(uint64_t sections_offset_bytes) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = kMachine.value_or(EM_NONE);
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_shoff = sections_offset_bytes;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = SectionCount;
  header.e_shstrndx = Section::SectionNames;
  return header;
}

}  // namespace

Status make_object(std::span<const std::byte> plan, const std::string& name,
                   std::vector<std::byte>& object) {
  if (!kMachine)
    return {RLX_INVALID_ARGUMENT, "object files are not written for this machine; write a .c"};
  Builder file;
  const Elf64_Ehdr blank = {};
  file.add_records(std::span(&blank, 1));

  std::array<Elf64_Shdr, SectionCount> sections = {};
  const uint64_t data_offset_bytes = file.add(plan, kPlanAlignment);
  const uint64_t plan_bytes = plan.size();
  const uint64_t size_offset_bytes = file.add_records(std::span(&plan_bytes, 1));
  sections[Data] =
      section(SHT_PROGBITS, data_offset_bytes,
              size_offset_bytes + sizeof plan_bytes - data_offset_bytes, kPlanAlignment);
  sections[Data].sh_flags = SHF_ALLOC;

  StringTable names;
  const std::array<Elf64_Sym, 3> symbols = {
      Elf64_Sym{}, symbol(names.add(name + "_plan"), 0, plan_bytes),
      symbol(names.add(name + "_plan_bytes"), size_offset_bytes - data_offset_bytes,
             sizeof plan_bytes)};
  const uint64_t symbols_offset_bytes = file.add_records(std::span<const Elf64_Sym>(symbols));
  sections[Symbols] = section(SHT_SYMTAB, symbols_offset_bytes, sizeof symbols, kTableAlignment);
  sections[Symbols].sh_link = Section::Names;
  sections[Symbols].sh_info = 1;  // the first global one
  sections[Symbols].sh_entsize = sizeof(Elf64_Sym);
  sections[Names] = section(SHT_STRTAB, file.add(names.bytes(), 1), names.bytes().size(), 1);

  StringTable section_names;
  for (uint16_t i = Data; i < SectionCount; ++i)
    sections.at(i).sh_name = section_names.add(kSectionNames.at(i));
  const uint64_t section_names_offset_bytes = file.add(section_names.bytes(), 1);
  const auto fill = [&](Section which, uint32_t type, uint64_t size_bytes) {
    const uint32_t kept = sections.at(which).sh_name;
    sections.at(which) = section(type, section_names_offset_bytes, size_bytes, 1);
    sections.at(which).sh_name = kept;
  };
  fill(SectionNames, SHT_STRTAB, section_names.bytes().size());
  fill(Stack, SHT_PROGBITS, 0);  // its presence says that no code runs on the stack
  file.put(0, file_header(file.add_records(std::span<const Elf64_Shdr>(sections))));
  object = file.take();
  return {};
}

}  // namespace rlx
