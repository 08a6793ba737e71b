// SPDX-License-Identifier: Apache-2.0
// A small writer of ELF files as ptxas makes them.
#include "tests/support/cubin.h"

#include <elf.h>

#include <cstring>

#include "runtime/plan/cuda_code.h"

namespace rlx::test {
namespace {

using Bytes = std::vector<std::byte>;

template <class Record>
void append(Bytes& bytes, const Record& record) {
  const auto* first = reinterpret_cast<const std::byte*>(&record);
  bytes.insert(bytes.end(), first, first + sizeof record);
}

class ElfWriter {
 public:
  ElfWriter() { add("", SHT_NULL, {}); }

  // Returns the section's number.
  uint16_t add(const std::string& name, uint32_t type, Bytes content) {
    return add(name, type, std::move(content), 0);
  }
  uint16_t add_nobits(const std::string& name, uint64_t size_bytes) {
    return add(name, SHT_NOBITS, {}, size_bytes);
  }

  // Symbols stand in a table that finish() adds; returns the symbol's number.
  uint32_t add_symbol(const std::string& name, uint16_t section, uint64_t value) {
    Elf64_Sym symbol{};
    symbol.st_name = add_name(name);
    symbol.st_shndx = section;
    symbol.st_value = value;
    append(symbols_, symbol);
    return static_cast<uint32_t>(symbols_.size() / sizeof symbol - 1);
  }

  Bytes finish(uint32_t flags) {
    const uint16_t symbols = add(".symtab", SHT_SYMTAB, std::move(symbols_));
    const uint32_t strings_name = add_name(".strtab");
    const auto strings = static_cast<uint16_t>(sections_.size());
    sections_[symbols].sh_link = strings;
    Elf64_Shdr record{};
    record.sh_name = strings_name;
    record.sh_type = SHT_STRTAB;
    record.sh_size = names_.size();
    sections_.push_back(record);
    Bytes texts;
    for (const char c : names_) texts.push_back(static_cast<std::byte>(c));
    contents_.push_back(std::move(texts));

    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = 190;  // EM_CUDA
    header.e_flags = flags;
    header.e_shnum = static_cast<uint16_t>(sections_.size());
    header.e_shstrndx = strings;
    Bytes body(sizeof header);
    for (size_t i = 0; i < sections_.size(); ++i) {
      sections_[i].sh_offset = body.size();
      body.insert(body.end(), contents_[i].begin(), contents_[i].end());
    }
    header.e_shoff = body.size();
    for (const Elf64_Shdr& section : sections_) append(body, section);
    std::memcpy(body.data(), &header, sizeof header);
    return body;
  }

 private:
  uint16_t add(const std::string& name, uint32_t type, Bytes content, uint64_t nobits_bytes) {
    Elf64_Shdr record{};
    record.sh_name = add_name(name);
    record.sh_type = type;
    record.sh_size = type == SHT_NOBITS ? nobits_bytes : content.size();
    sections_.push_back(record);
    contents_.push_back(std::move(content));
    return static_cast<uint16_t>(sections_.size() - 1);
  }
  uint32_t add_name(const std::string& name) {
    const auto offset = static_cast<uint32_t>(names_.size());
    names_ += name + '\0';
    return offset;
  }

  std::string names_;
  Bytes symbols_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<Bytes> contents_;
};

// A record of an info section; its words follow where there are some.
void append_attribute(Bytes& info, uint8_t id, const std::vector<uint32_t>& words) {
  append(info, uint8_t{4});  // EIFMT_SVAL
  append(info, id);
  append(info, static_cast<uint16_t>(words.size() * sizeof(uint32_t)));
  for (const uint32_t word : words) append(info, word);
}

}  // namespace

std::vector<std::byte> make_cubin(const CubinOptions& options) {
  ElfWriter elf;
  const uint16_t text = elf.add(".text." + options.function, SHT_PROGBITS, Bytes(16));
  const uint32_t function = elf.add_symbol(options.function, text, 0);
  Bytes constants;
  const uint16_t constants_section = text + 1;
  if (options.dynamic_shared_bytes) {
    elf.add_symbol("rlx_dynamic_shared_bytes", constants_section, constants.size());
    append(constants, *options.dynamic_shared_bytes);
  }
  if (options.cluster_x) {
    elf.add_symbol("rlx_cluster_x", constants_section, constants.size());
    append(constants, *options.cluster_x);
  }
  if (options.runs_together) {
    elf.add_symbol("rlx_together", constants_section, constants.size());
    append(constants, uint32_t{1});
  }
  if (options.has_contract) {
    elf.add_symbol(std::string(kCudaContractName), constants_section, constants.size());
    append(constants, Sha256Digest{});
  }
  elf.add(".nv.global.init", SHT_PROGBITS, std::move(constants));

  Bytes info;
  append_attribute(info, 0x2F, {function, options.registers});
  append_attribute(info, 0x11, {function, options.local_bytes});
  elf.add(".nv.info", SHT_LOPROC, std::move(info));
  Bytes own_info;
  append(own_info, uint8_t{3});  // EIFMT_HVAL
  append(own_info, uint8_t{0x19});
  append(own_info, static_cast<uint16_t>(options.params_bytes));
  append_attribute(own_info, 0x05, {options.max_threads, 1, 1});
  elf.add(".nv.info." + options.function, SHT_LOPROC, std::move(own_info));
  // From sm_90 on the system's part of a workgroup's shared memory stands in front.
  const uint32_t reserved = options.architecture < 90 ? 0 : 1024;
  if (options.static_shared_bytes > 0)
    elf.add_nobits(".nv.shared." + options.function, reserved + options.static_shared_bytes);
  return elf.finish(options.architecture);
}

std::string ptx_contract_line() {
  return ".const .align 1 .b8 " + std::string(kCudaContractName) + "[32] = {0};\n";
}

std::vector<std::byte> make_ptx(const std::string& target, const std::string& function) {
  const std::string text = ".version 8.0\n.target " + target + "\n.address_size 64\n" +
                           ptx_contract_line() + ".visible .entry " + function + "()\n{ ret; }\n";
  const auto* first = reinterpret_cast<const std::byte*>(text.c_str());
  return {first, first + text.size() + 1};
}

}  // namespace rlx::test
