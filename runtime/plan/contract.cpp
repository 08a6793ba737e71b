// SPDX-License-Identifier: Apache-2.0
// The bytes of a contract, and its digest's place in code.
#include "runtime/plan/contract.h"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "runtime/base/text.h"
#include "runtime/plan/cuda_code.h"
#include "runtime/plan/spirv_facts.h"

namespace rlx {
namespace {

constexpr std::string_view kVersion = "rlx contract 1";

class ContractBytes {
 public:
  template <class Number>
  requires std::integral<Number> || std::is_enum_v<Number>
  void add(Number number) {
    const auto* first = reinterpret_cast<const std::byte*>(&number);
    bytes_.insert(bytes_.end(), first, first + sizeof number);
  }
  void add(const flatbuffers::String* text) {
    add(text->size());
    const auto* first = reinterpret_cast<const std::byte*>(text->Data());
    bytes_.insert(bytes_.end(), first, first + text->size());
  }
  // A list that may be absent, which is as good as empty.
  template <class Vector, class AddItem>
  void add_list(const Vector* list, const AddItem& add_item) {
    const uint32_t count = list == nullptr ? 0 : list->size();
    add(count);
    for (uint32_t i = 0; i < count; ++i) add_item(list->Get(i));
  }
  template <class Number>
  void add_numbers(const flatbuffers::Vector<Number>* list) {
    add_list(list, [this](Number number) { add(number); });
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

KernelContract::KernelContract(const fb::Kernel& kernel) {
  ContractBytes contract;
  contract.add(kernel.name());
  contract.add(kernel.params_bytes());
  contract.add_list(kernel.accesses(), [&](const fb::KernelAccess* access) {
    contract.add(access->position());
    contract.add(access->alignment());
    contract.add(access->min_bytes());
    contract.add(access->mode());
  });
  contract.add(kernel.order_dependent());
  contract.add_list(kernel.maps(), [&](const fb::TensorMap* map) {
    contract.add(map->position());
    contract.add(map->dtype());
    contract.add_numbers(map->dims());
    contract.add_numbers(map->strides());
    contract.add_numbers(map->box());
    contract.add(map->swizzle_bytes());
    if (const fb::PixelWindow* window = map->window()) {
      contract.add(window->begin_w());
      contract.add(window->begin_h());
      contract.add(window->end_w());
      contract.add(window->end_h());
      contract.add(window->stride_w());
      contract.add(window->stride_h());
    }
    if (map->sizes() == nullptr) return;
    contract.add_list(map->sizes(), [&](const fb::MapSize* size) {
      contract.add(size->dim());
      contract.add(size->size());
    });
  });
  contract.add_list(kernel.counts(), [&](const fb::ParamsCount* count) {
    contract.add(count->position());
    contract.add(count->words());
    contract.add(count->unit_bytes());
    contract.add(count->pointer());
  });
  contract.add_numbers(kernel.plain_words());
  contract.add_list(kernel.addends(), [&](const fb::PointerAddend* row) {
    contract.add(row->position());
    contract.add(row->addend());
  });
  // Kernels of fixed sizes have the contract that they always had.
  if (kernel.sizes() != nullptr || kernel.reaches() != nullptr) {
    contract.add_list(kernel.sizes(), [&](const fb::SizeTerm* term) {
      contract.add(term->value());
      contract.add(term->a());
      contract.add(term->b());
      contract.add(term->op());
    });
    contract.add_list(kernel.reaches(), [&](const fb::KernelReach* reach) {
      contract.add(reach->pointer());
      contract.add(reach->size());
    });
  }
  kernel_.update(bytes_of(kVersion));
  kernel_.update(contract.bytes());
  size_bytes_ = contract.bytes().size();
}

Sha256Digest KernelContract::of(const fb::Variant& variant) const {
  ContractBytes contract;
  contract.add(variant.target());
  contract.add(variant.format());
  contract.add(variant.architecture());
  contract.add(variant.entry_point());
  contract.add(variant.workgroup_x());
  contract.add(variant.workgroup_y());
  contract.add(variant.workgroup_z());
  contract.add(variant.subgroup_size());
  contract.add(variant.shared_bytes());
  contract.add(variant.features());
  contract.add(variant.dynamic_shared_bytes());
  contract.add(variant.cluster_x());
  contract.add(variant.waits_for_predecessors());
  if (variant.runs_together()) contract.add(true);
  Sha256 whole = kernel_;
  whole.update(contract.bytes());
  return whole.finish();
}

Sha256Digest code_digest(const Sha256Digest& contract, std::span<const std::byte> code) {
  Sha256 hash;
  hash.update(contract);
  hash.update(code);
  return hash.finish();
}

namespace {

using Bytes = std::vector<std::byte>;

// Opcodes of what may stand before an OpModuleProcessed, and that itself (SPIR-V 1.6, section 2.4).
constexpr uint16_t kOpModuleProcessed = 330;
constexpr uint16_t kHeadOpcodes[] = {2, 3, 4, 5, 6, 7, 10, 11, 14, 15, 16, 17, 331, 330};
constexpr size_t kSpirvHeaderWords = 5;

Bytes spirv_instruction(const Sha256Digest& contract) {
  const std::string text = std::string(kSpirvContractPrefix) + hex_text(contract);
  std::vector<uint32_t> words(1 + text.size() / sizeof(uint32_t) + 1);
  words[0] = static_cast<uint32_t>(words.size()) << 16 | kOpModuleProcessed;
  std::memcpy(words.data() + 1, text.data(), text.size());
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

std::optional<Bytes> spirv_with_contract(std::span<const std::byte> code,
                                         const Sha256Digest& contract) {
  std::vector<uint32_t> words(code.size() / sizeof(uint32_t));
  if (words.empty()) return std::nullopt;
  std::memcpy(words.data(), code.data(), words.size() * sizeof(uint32_t));
  size_t place = kSpirvHeaderWords;
  size_t replaced_words = 0;
  for (size_t at = kSpirvHeaderWords; at < words.size();) {
    const auto opcode = static_cast<uint16_t>(words[at] & 0xFFFF);
    const size_t count = words[at] >> 16;
    if (count == 0 || count > words.size() - at) return std::nullopt;
    if (std::find(std::begin(kHeadOpcodes), std::end(kHeadOpcodes), opcode) ==
        std::end(kHeadOpcodes))
      break;
    place = at + count;
    const std::string_view text(reinterpret_cast<const char*>(words.data() + at + 1),
                                (count - 1) * sizeof(uint32_t));
    if (opcode == kOpModuleProcessed && text.starts_with(kSpirvContractPrefix)) {
      place = at;
      replaced_words = count;
      break;
    }
    at = place;
  }
  if (place >= words.size()) return std::nullopt;
  const Bytes instruction = spirv_instruction(contract);
  Bytes result(code.begin(), code.begin() + static_cast<ptrdiff_t>(place * sizeof(uint32_t)));
  result.insert(result.end(), instruction.begin(), instruction.end());
  result.insert(result.end(),
                code.begin() + static_cast<ptrdiff_t>((place + replaced_words) * sizeof(uint32_t)),
                code.end());
  return result;
}

// `code` with the bytes of `part`, which lies in it, replaced.
Bytes replaced(std::span<const std::byte> code, std::span<const std::byte> part,
               std::span<const std::byte> by) {
  const auto begin = static_cast<size_t>(part.data() - code.data());
  Bytes result(code.begin(), code.begin() + static_cast<ptrdiff_t>(begin));
  result.insert(result.end(), by.begin(), by.end());
  result.insert(result.end(), code.begin() + static_cast<ptrdiff_t>(begin + part.size()),
                code.end());
  return result;
}

std::optional<Bytes> cubin_with_contract(std::span<const std::byte> code,
                                         const Sha256Digest& contract) {
  const std::span<const std::byte> place = cubin_contract(code);
  if (place.size() != contract.size()) return std::nullopt;
  return replaced(code, place, contract);
}

std::optional<Bytes> ptx_with_contract(std::span<const std::byte> code,
                                       const Sha256Digest& contract) {
  const std::string_view place = ptx_contract(code);
  if (place.empty()) return std::nullopt;
  std::string numbers;
  for (const std::byte byte : contract)
    numbers += text_of(numbers.empty() ? "" : ", ", std::to_integer<uint32_t>(byte));
  return replaced(code, bytes_of(place), bytes_of(numbers));
}

}  // namespace

std::optional<std::vector<std::byte>> with_contract(fb::CodeFormat format,
                                                    std::span<const std::byte> code,
                                                    const Sha256Digest& contract) {
  switch (format) {
    case fb::CodeFormat::SpirV:
      return spirv_with_contract(code, contract);
    case fb::CodeFormat::Cubin:
      return cubin_with_contract(code, contract);
    case fb::CodeFormat::Ptx:
      return ptx_with_contract(code, contract);
  }
  return std::nullopt;
}

}  // namespace rlx
