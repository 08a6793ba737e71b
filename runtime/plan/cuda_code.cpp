// SPDX-License-Identifier: Apache-2.0
// Structural checks of CUDA code, cubin (ELF) and PTX, and what a cubin says about its kernel.
#include "runtime/plan/cuda_code.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstring>
#include <limits>

#include "runtime/base/text.h"

#ifndef EM_CUDA
#define EM_CUDA 190
#endif

namespace rlx {
namespace {

// Bounds-checked view of an ELF. Constants and formats of NVIDIA's sections are as ptxas 11 to 13
// write them and `cuobjdump -elf` prints them.
class Elf {
 public:
  explicit Elf(std::span<const std::byte> bytes) : bytes_(bytes), header_(at<Elf64_Ehdr>(0)) {}

  [[nodiscard]] const std::optional<Elf64_Ehdr>& header() const { return header_; }
  [[nodiscard]] uint32_t section_count() const { return header_ ? header_->e_shnum : 0; }

  [[nodiscard]] std::optional<Elf64_Shdr> section(uint32_t index) const {
    if (index >= section_count()) return std::nullopt;
    const uint64_t distance = uint64_t{index} * sizeof(Elf64_Shdr);
    if (header_->e_shoff > bytes_.size() || distance > bytes_.size() - header_->e_shoff)
      return std::nullopt;
    return at<Elf64_Shdr>(header_->e_shoff + distance);
  }

  [[nodiscard]] std::optional<uint32_t> find(std::string_view name) const {
    const std::optional<Elf64_Shdr> names = header_ ? section(header_->e_shstrndx) : std::nullopt;
    if (!names.has_value()) return std::nullopt;
    for (uint32_t i = 0; i < section_count(); ++i) {
      const std::optional<Elf64_Shdr> candidate = section(i);
      if (candidate.has_value() && stands_at(*names, candidate->sh_name, name)) return i;
    }
    return std::nullopt;
  }

  // Bytes of a section; none where it lies outside the file or has none.
  [[nodiscard]] std::span<const std::byte> content(const Elf64_Shdr& section) const {
    const bool inside = section.sh_type != SHT_NOBITS && section.sh_offset <= bytes_.size() &&
                        section.sh_size <= bytes_.size() - section.sh_offset;
    return inside ? bytes_.subspan(section.sh_offset, section.sh_size)
                  : std::span<const std::byte>();
  }
  [[nodiscard]] std::span<const std::byte> content(std::string_view name) const {
    const std::optional<uint32_t> index = find(name);
    const std::optional<Elf64_Shdr> found = index ? section(*index) : std::nullopt;
    return found ? content(*found) : std::span<const std::byte>();
  }

  // A symbol with its number in the table.
  struct Symbol {
    uint32_t index;
    Elf64_Sym record;
  };
  [[nodiscard]] std::optional<Symbol> symbol(std::string_view name) const {
    const std::optional<uint32_t> table_index = find(".symtab");
    if (!table_index.has_value()) return std::nullopt;
    const Elf64_Shdr table = *section(*table_index);
    const std::optional<Elf64_Shdr> names = section(table.sh_link);
    if (!names.has_value()) return std::nullopt;
    const std::span<const std::byte> records = content(table);
    for (uint32_t i = 0; i < records.size() / sizeof(Elf64_Sym); ++i) {
      Elf64_Sym record;
      std::memcpy(&record, records.data() + i * sizeof record, sizeof record);
      if (stands_at(*names, record.st_name, name)) return Symbol{.index = i, .record = record};
    }
    return std::nullopt;
  }

  // The first bytes of a variable's initial value; none where it does not have so many.
  [[nodiscard]] std::span<const std::byte> variable(std::string_view name,
                                                    size_t size_bytes) const {
    const std::optional<Symbol> variable = symbol(name);
    if (!variable.has_value()) return {};
    const std::optional<Elf64_Shdr> home = section(variable->record.st_shndx);
    if (!home.has_value()) return {};
    const std::span<const std::byte> bytes = content(*home);
    const uint64_t offset = variable->record.st_value;
    if (bytes.size() < size_bytes || offset > bytes.size() - size_bytes) return {};
    return bytes.subspan(offset, size_bytes);
  }

  // The 32-bit constant that a variable of this name holds.
  [[nodiscard]] std::optional<uint32_t> constant(std::string_view name) const {
    uint32_t value = 0;
    const std::span<const std::byte> bytes = variable(name, sizeof value);
    if (bytes.empty()) return std::nullopt;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

 private:
  template <class Record>
  [[nodiscard]] std::optional<Record> at(uint64_t offset) const {
    if (sizeof(Record) > bytes_.size() || offset > bytes_.size() - sizeof(Record))
      return std::nullopt;
    Record record;
    std::memcpy(&record, bytes_.data() + offset, sizeof record);
    return record;
  }

  // Whether this zero-terminated text stands at an offset of a string section. Looks no further
  // than the text is long: what stands there may be endless.
  [[nodiscard]] bool stands_at(const Elf64_Shdr& strings, uint64_t offset,
                               std::string_view text) const {
    const std::span<const std::byte> texts = content(strings);
    if (offset >= texts.size() || texts.size() - offset <= text.size()) return false;
    const char* found = reinterpret_cast<const char*>(texts.data() + offset);
    return std::memcmp(found, text.data(), text.size()) == 0 && found[text.size()] == '\0';
  }

  std::span<const std::byte> bytes_;
  std::optional<Elf64_Ehdr> header_;
};

// Attributes of .nv.info (about functions, by symbol) and .nv.info.<function>.
constexpr uint8_t kMaxThreads = 0x05;     // EIATTR_MAX_THREADS: x, y, z
constexpr uint8_t kFrameBytes = 0x11;     // EIATTR_FRAME_SIZE: symbol, bytes
constexpr uint8_t kStackBytes = 0x12;     // EIATTR_MIN_STACK_SIZE: symbol, bytes; with callees
constexpr uint8_t kParamsBytes = 0x19;    // EIATTR_CBANK_PARAM_SIZE: 16 bits
constexpr uint8_t kRegisterCount = 0x2F;  // EIATTR_REGCOUNT: symbol, count
constexpr uint8_t kWordsFormat = 0x04;    // EIFMT_SVAL: a 16-bit size and so many bytes
// A shared section of sm_90 and later begins with what the system keeps of each workgroup's memory;
// neither ptxas' messages nor launches count it.
constexpr uint32_t kFirstWithReserved = 90;
constexpr uint32_t kReservedSharedBytes = 1024;

struct Attribute {
  uint8_t id = 0;
  uint16_t value = 0;               // where it has no words
  std::array<uint32_t, 3> words{};  // the first ones
  uint32_t word_count = 0;
};

// Calls visit(attribute) for each record of an info section; false where one is cut short.
template <class Visit>
bool for_each_attribute(std::span<const std::byte> info, const Visit& visit) {
  constexpr size_t kHeadBytes = 4;  // format, id, 16 bits of value or size
  while (!info.empty()) {
    if (info.size() < kHeadBytes) return false;
    Attribute attribute{.id = std::to_integer<uint8_t>(info[1])};
    std::memcpy(&attribute.value, info.data() + 2, sizeof attribute.value);
    const bool has_words = std::to_integer<uint8_t>(info[0]) == kWordsFormat;
    info = info.subspan(kHeadBytes);
    if (has_words) {
      if (attribute.value > info.size()) return false;
      attribute.word_count = attribute.value / sizeof(uint32_t);
      const size_t kept =
          std::min<size_t>(attribute.word_count, attribute.words.size()) * sizeof(uint32_t);
      std::memcpy(attribute.words.data(), info.data(), kept);
      info = info.subspan(attribute.value);
    }
    visit(attribute);
  }
  return true;
}

uint32_t saturated_product(const std::array<uint32_t, 3>& factors) {
  uint64_t product = 1;
  for (const uint32_t factor : factors) {
    product = std::min<uint64_t>(product * factor, std::numeric_limits<uint32_t>::max());
  }
  return static_cast<uint32_t>(product);
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

struct PtxFacts {
  bool has_version = false;
  std::optional<uint32_t> architecture;
  bool has_entry_point = false;
};

// The number that a text begins with, 0 where there is none; digits past the fourth are left out.
uint32_t number_at(std::string_view text) {
  uint32_t number = 0;
  for (size_t i = 0; i < text.size() && number < 10000 && text[i] >= '0' && text[i] <= '9'; ++i)
    number = number * 10 + static_cast<uint32_t>(text[i] - '0');
  return number;
}

// Reads each character once: a search per directive would start anew at each of its points.
PtxFacts read_ptx(std::string_view text, std::string_view entry_point) {
  static constexpr std::string_view kVersion = ".version ";
  static constexpr std::string_view kTarget = ".target sm_";
  static constexpr std::string_view kEntry = ".entry ";
  PtxFacts facts;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '.') continue;
    const char letter = text[i + 1];
    if (letter != 'v' && letter != 't' && letter != 'e') continue;
    const std::string_view rest = text.substr(i);
    if (rest.starts_with(kVersion)) facts.has_version = true;
    if (rest.starts_with(kTarget) && !facts.architecture.has_value())
      facts.architecture = number_at(rest.substr(kTarget.size()));
    if (!rest.starts_with(kEntry) || facts.has_entry_point) continue;
    const std::string_view name = rest.substr(kEntry.size());
    facts.has_entry_point =
        name.starts_with(entry_point) &&
        (name.size() == entry_point.size() || !is_name_character(name[entry_point.size()]));
  }
  return facts;
}

}  // namespace

std::string check_cubin(std::span<const std::byte> code, uint32_t architecture) {
  const Elf elf(code);
  const std::optional<Elf64_Ehdr>& header = elf.header();
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
  for (uint32_t i = 0; i < elf.section_count(); ++i) {
    const std::optional<Elf64_Shdr> section = elf.section(i);
    const bool inside =
        section.has_value() && (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL ||
                                (section->sh_offset <= code.size() &&
                                 section->sh_size <= code.size() - section->sh_offset));
    if (!inside) return text_of("has section ", i, " outside its ", code.size(), " bytes");
  }
  return {};
}

std::optional<CubinFacts> read_cubin(std::span<const std::byte> code, std::string_view function,
                                     uint32_t architecture) {
  const Elf elf(code);
  const std::optional<Elf::Symbol> symbol = elf.symbol(function);
  if (!symbol.has_value() || !elf.find(text_of(".text.", function)).has_value())
    return std::nullopt;
  CubinFacts facts;
  bool counted = false;
  const bool whole = for_each_attribute(elf.content(".nv.info"), [&](const Attribute& attribute) {
    if (attribute.word_count != 2 || attribute.words[0] != symbol->index) return;
    const uint32_t value = attribute.words[1];
    if (attribute.id == kRegisterCount) {
      facts.registers = value;
      counted = true;
    }
    if (attribute.id == kFrameBytes || attribute.id == kStackBytes)
      facts.local_bytes = std::max(facts.local_bytes, value);
  });
  const bool own_whole = for_each_attribute(
      elf.content(text_of(".nv.info.", function)), [&](const Attribute& attribute) {
        if (attribute.id == kParamsBytes) facts.params_bytes = attribute.value;
        if (attribute.id == kMaxThreads && attribute.word_count == 3)
          facts.max_threads = saturated_product(attribute.words);
      });
  if (!whole || !own_whole || !counted) return std::nullopt;

  if (const std::optional<uint32_t> shared = elf.find(text_of(".nv.shared.", function))) {
    const uint64_t size_bytes = elf.section(*shared)->sh_size;
    const uint32_t reserved = architecture < kFirstWithReserved ? 0 : kReservedSharedBytes;
    if (size_bytes < reserved || size_bytes > std::numeric_limits<uint32_t>::max())
      return std::nullopt;
    facts.static_shared_bytes = static_cast<uint32_t>(size_bytes) - reserved;
  }
  facts.dynamic_shared_bytes = elf.constant("rlx_dynamic_shared_bytes").value_or(0);
  facts.cluster_x = elf.constant("rlx_cluster_x").value_or(1);
  facts.runs_together = elf.constant("rlx_together").value_or(0) != 0;
  if (const auto contract = elf.variable(kCudaContractName, sizeof(Sha256Digest));
      !contract.empty())
    std::copy(contract.begin(), contract.end(), facts.contract.emplace().begin());
  return facts;
}

bool takes_arguments(const CubinFacts& facts, uint32_t params_bytes, uint32_t map_count) {
  constexpr uint32_t kMapAlignmentBytes = 64;
  constexpr uint32_t kMapBytes = 128;
  const uint32_t least = params_bytes + map_count * kMapBytes;
  if (map_count == 0) return facts.params_bytes == least;
  return facts.params_bytes >= least && facts.params_bytes < least + kMapAlignmentBytes;
}

std::string check_ptx(std::span<const std::byte> code, std::string_view entry_point,
                      uint32_t architecture) {
  std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
  // The driver takes it as a C string, from where it lies in the plan.
  if (text.empty() || text.back() != '\0') return "does not end with a zero byte";
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  if (text.find('\0') != std::string_view::npos) return "is no text";
  const PtxFacts facts = read_ptx(text, entry_point);
  if (!facts.has_version) return "has no .version";
  if (!facts.architecture.has_value()) return "has no .target";
  if (*facts.architecture == 0 || *facts.architecture > architecture)
    return text_of("is for sm_", *facts.architecture, ", recorded is ", architecture);
  if (facts.has_entry_point) return {};
  return text_of("has no entry point named ", quoted(entry_point));
}

std::span<const std::byte> cubin_contract(std::span<const std::byte> code) {
  return Elf(code).variable(kCudaContractName, sizeof(Sha256Digest));
}

std::string_view ptx_contract(std::span<const std::byte> code) {
  const std::string_view text(reinterpret_cast<const char*>(code.data()), code.size());
  const std::string definition =
      text_of(" ", kCudaContractName, "[", sizeof(Sha256Digest), "] = {");
  const size_t at = text.find(definition);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + definition.size());
  return rest.substr(0, std::min(rest.find('}'), rest.size()));
}

std::optional<Sha256Digest> read_ptx_contract(std::span<const std::byte> code) {
  std::string_view numbers = ptx_contract(code);
  Sha256Digest contract{};
  for (std::byte& byte : contract) {
    uint8_t number = 0;
    const auto [end, error] =
        std::from_chars(numbers.data(), numbers.data() + numbers.size(), number);
    if (error != std::errc()) return std::nullopt;
    byte = std::byte{number};
    numbers.remove_prefix(static_cast<size_t>(end - numbers.data()));
    if (numbers.starts_with(", ")) numbers.remove_prefix(2);
  }
  return contract;
}

}  // namespace rlx
