// SPDX-License-Identifier: Apache-2.0
// SPV_NV_cooperative_matrix to SPV_KHR_cooperative_matrix, instruction by instruction.
#include "compiler/emit/spirv_matrices.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <spirv/unified1/spirv.hpp>
#include <string_view>

#include "compiler/emit/spirv_words.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

// Numbers of SPV_KHR_cooperative_matrix and SPV_KHR_bfloat16 (SPIR-V registry), newer than the
// headers of SPIR-V 1.6.1.
enum KhrOp : uint16_t {
  kTypeMatrix = 4456,
  kLoad = 4457,
  kStore = 4458,
  kMulAdd = 4459,
};
constexpr uint32_t kCapabilityMatrixKhr = 6022;
constexpr uint32_t kCapabilityBf16 = 5116;
constexpr uint32_t kCapabilityBf16Matrix = 5118;
constexpr uint32_t kEncodingBf16 = 0;
constexpr uint32_t kRightRowsSpecId = 0;
constexpr std::string_view kNvExtension = "SPV_NV_cooperative_matrix";

enum class Use : uint8_t { Left, Right, Sum };  // numbered as CooperativeMatrixUse
constexpr uint32_t kUses = 3;

using Words = std::vector<uint32_t>;

void append(Words& words, uint32_t op, std::span<const uint32_t> operands) {
  words.push_back(static_cast<uint32_t>(operands.size() + 1) << spv::WordCountShift | op);
  words.insert(words.end(), operands.begin(), operands.end());
}

// Literal text, nul-terminated and padded to whole words.
Words text_words(std::string_view text) {
  Words words(text.size() / sizeof(uint32_t) + 1, 0);
  std::memcpy(words.data(), text.data(), text.size());
  return words;
}

// What the rewriting asks of the module before it starts.
struct Facts {
  bool has_matrices = false;
  std::set<uint32_t> right_rows;          // ids of specialization constant 0
  std::map<uint32_t, bool> booleans;      // constants
  std::map<uint32_t, uint32_t> types;     // of matrix values
  std::map<uint32_t, Use> uses;           // of matrix types
  std::set<uint32_t> conflicts;           // types with two uses
  std::map<uint32_t, uint32_t> pointees;  // of pointer types of functions' variables
  std::optional<uint32_t> u32;
};

void note_use(Facts& facts, uint32_t value, Use use) {
  const auto type = facts.types.find(value);
  if (type == facts.types.end()) return;
  const auto [known, is_new] = facts.uses.try_emplace(type->second, use);
  if (!is_new && known->second != use) facts.conflicts.insert(type->second);
}

Facts facts_of(std::span<const uint32_t> words) {
  Facts facts;
  for_each_instruction(words, [&](const Instruction& instruction) {
    const std::span<const uint32_t> operands = instruction.operands;
    switch (instruction.op) {
      case spv::OpDecorate:
        if (operands[1] == spv::DecorationSpecId && operands[2] == kRightRowsSpecId)
          facts.right_rows.insert(operands[0]);
        break;
      case spv::OpTypeInt:
        if (operands[1] == 32 && operands[2] == 0) facts.u32 = operands[0];
        break;
      case spv::OpConstantTrue:
      case spv::OpConstantFalse:
        facts.booleans[operands[1]] = instruction.op == spv::OpConstantTrue;
        break;
      case spv::OpTypeCooperativeMatrixNV:
        facts.has_matrices = true;
        break;
      case spv::OpTypePointer:
        if (operands[1] == spv::StorageClassFunction) facts.pointees[operands[0]] = operands[2];
        break;
      case spv::OpVariable:
        if (const auto type = facts.pointees.find(operands[0]); type != facts.pointees.end())
          facts.types[operands[1]] = type->second;
        break;
      case spv::OpLoad:
      case spv::OpPhi:
      case spv::OpCompositeExtract:
      case spv::OpCompositeInsert:
      case spv::OpCooperativeMatrixLoadNV:
      case spv::OpCooperativeMatrixMulAddNV:
        facts.types[operands[1]] = operands[0];
        break;
      default:
        break;
    }
    if (instruction.op != spv::OpCooperativeMatrixMulAddNV) return;
    note_use(facts, operands[2], Use::Left);
    note_use(facts, operands[3], Use::Right);
    note_use(facts, operands[1], Use::Sum);
  });
  return facts;
}

class Rewriter {
 public:
  Rewriter(std::span<const uint32_t> words, Facts facts, MatrixElement element)
      : words_(words), facts_(std::move(facts)), element_(element), next_id_(words[3]) {}

  std::variant<Words, std::string> run() {
    out_.assign(words_.begin(), words_.begin() + kHeaderWords);
    for_each_instruction(words_, [&](const Instruction& instruction) { rewrite(instruction); });
    if (!fault_.empty()) return fault_;
    out_[3] = next_id_;
    return std::move(out_);
  }

 private:
  void rewrite(const Instruction& instruction) {
    const std::span<const uint32_t> operands = instruction.operands;
    switch (instruction.op) {
      case spv::OpCapability:
        return capability(operands);
      case spv::OpExtension:
        return extension(operands);
      case spv::OpDecorate:
        if (facts_.right_rows.contains(operands[0]) && operands[1] == spv::DecorationSpecId) return;
        return append(out_, instruction.op, operands);
      case spv::OpSpecConstant:
        return append(
            out_, facts_.right_rows.contains(operands[1]) ? spv::OpConstant : spv::OpSpecConstant,
            operands);
      case spv::OpTypeCooperativeMatrixNV:
        return matrix_type(operands);
      case spv::OpCooperativeMatrixLoadNV:
        // type, result, pointer, stride, column major, memory operands
        return access(kLoad, operands.first(3), operands[3], operands[4], operands.subspan(5));
      case spv::OpCooperativeMatrixStoreNV:
        // pointer, object, stride, column major, memory operands
        return access(kStore, operands.first(2), operands[2], operands[3], operands.subspan(4));
      case spv::OpCooperativeMatrixMulAddNV:
        return append(out_, kMulAdd, operands);
      case spv::OpAccessChain:
        return is_bf16_matrix(type_of(operands[2])) ? point_at_bf16(operands)
                                                    : append(out_, instruction.op, operands);
      case spv::OpLoad:
        return bf16_pointers_.contains(operands[2]) ? read_bf16(spv::OpLoad, operands)
                                                    : append(out_, instruction.op, operands);
      case spv::OpStore:
        return bf16_pointers_.contains(operands[0]) ? store_bf16(operands)
                                                    : append(out_, instruction.op, operands);
      case spv::OpCompositeExtract:
        return is_bf16_matrix(type_of(operands[2])) ? read_bf16(spv::OpCompositeExtract, operands)
                                                    : append(out_, instruction.op, operands);
      case spv::OpCompositeInsert:
        return is_bf16_matrix(operands[0]) ? insert_bf16(operands)
                                           : append(out_, instruction.op, operands);
      case spv::OpCooperativeMatrixLengthNV:
        fault_ = "asks for the length of a cooperative matrix";
        return;
      default:
        return append(out_, instruction.op, operands);
    }
  }

  void capability(std::span<const uint32_t> operands) {
    if (operands[0] != spv::CapabilityCooperativeMatrixNV)
      return append(out_, spv::OpCapability, operands);
    append(out_, spv::OpCapability, std::array{kCapabilityMatrixKhr});
    if (element_ != MatrixElement::Bf16) return;
    append(out_, spv::OpCapability, std::array{kCapabilityBf16});
    append(out_, spv::OpCapability, std::array{kCapabilityBf16Matrix});
  }

  void extension(std::span<const uint32_t> operands) {
    const Words nv = text_words(kNvExtension);
    if (!std::ranges::equal(operands, nv)) return append(out_, spv::OpExtension, operands);
    append(out_, spv::OpExtension, text_words("SPV_KHR_cooperative_matrix"));
    if (element_ == MatrixElement::Bf16)
      append(out_, spv::OpExtension, text_words("SPV_KHR_bfloat16"));
  }

  void matrix_type(std::span<const uint32_t> operands) {
    const uint32_t id = operands[0];
    const auto use = facts_.uses.find(id);
    if (use == facts_.uses.end() || facts_.conflicts.contains(id)) {
      fault_ = "has a type of cooperative matrices that is " +
               std::string(use == facts_.uses.end() ? "in no product"
                                                    : "for more than one operand of products");
      return;
    }
    declare_constants();
    const bool is_operand = use->second != Use::Sum;
    const uint32_t component =
        is_operand && element_ == MatrixElement::Bf16 ? bf16_type() : operands[1];
    append(out_, kTypeMatrix,
           std::array{id, component, operands[2], operands[3], operands[4],
                      use_ids_[static_cast<size_t>(use->second)]});
  }

  // Numbers 0 to 2, which name uses and, the first two, row-major and column-major layouts.
  void declare_constants() {
    if (use_ids_[0] != 0) return;
    RLX_CHECK(facts_.u32.has_value(), "matrix dimensions without a 32-bit type");
    for (uint32_t i = 0; i < kUses; ++i) {
      use_ids_[i] = next_id_++;
      append(out_, spv::OpConstant, std::array{*facts_.u32, use_ids_[i], i});
    }
  }

  uint32_t bf16_type() {
    if (bf16_type_ == 0) {
      bf16_type_ = next_id_++;
      append(out_, spv::OpTypeFloat, std::array{bf16_type_, 16u, kEncodingBf16});
      bf16_pointer_type_ = next_id_++;
      append(out_, spv::OpTypePointer,
             std::array{bf16_pointer_type_, uint32_t{spv::StorageClassFunction}, bf16_type_});
    }
    return bf16_type_;
  }

  [[nodiscard]] std::optional<uint32_t> type_of(uint32_t value) const {
    const auto type = facts_.types.find(value);
    return type == facts_.types.end() ? std::nullopt : std::optional(type->second);
  }

  [[nodiscard]] bool is_bf16_matrix(std::optional<uint32_t> type) const {
    if (element_ != MatrixElement::Bf16 || !type) return false;
    const auto use = facts_.uses.find(*type);
    return use != facts_.uses.end() && use->second != Use::Sum;
  }

  // Elements of such matrices are halves in the NV form, whose bits they keep.
  uint32_t as_bf16(uint32_t half) {
    const uint32_t element = next_id_++;
    append(out_, spv::OpBitcast, std::array{bf16_type(), element, half});
    return element;
  }

  // type, result, then where the element stands
  void read_bf16(uint32_t op, std::span<const uint32_t> operands) {
    Words read = {bf16_type(), next_id_++};
    read.insert(read.end(), operands.begin() + 2, operands.end());
    append(out_, op, read);
    append(out_, spv::OpBitcast, std::array{operands[0], operands[1], read[1]});
  }

  // type, result, element, matrix, index
  void insert_bf16(std::span<const uint32_t> operands) {
    const uint32_t element = as_bf16(operands[2]);
    append(out_, spv::OpCompositeInsert,
           std::array{operands[0], operands[1], element, operands[3], operands[4]});
  }

  // pointer, element, memory operands
  void store_bf16(std::span<const uint32_t> operands) {
    Words store(operands.begin(), operands.end());
    store[1] = as_bf16(operands[1]);
    append(out_, spv::OpStore, store);
  }

  // type, result, variable, index
  void point_at_bf16(std::span<const uint32_t> operands) {
    Words pointer(operands.begin(), operands.end());
    pointer[0] = bf16_pointer_type_;
    append(out_, spv::OpAccessChain, pointer);
    bf16_pointers_.insert(operands[1]);
  }

  void access(uint32_t op, std::span<const uint32_t> first, uint32_t stride, uint32_t column_major,
              std::span<const uint32_t> memory) {
    const auto layout = facts_.booleans.find(column_major);
    if (layout == facts_.booleans.end()) {
      fault_ = "moves a cooperative matrix whose layout is no constant";
      return;
    }
    Words operands(first.begin(), first.end());
    operands.push_back(use_ids_[layout->second ? 1 : 0]);
    operands.push_back(stride);
    operands.insert(operands.end(), memory.begin(), memory.end());
    append(out_, op, operands);
  }

  std::span<const uint32_t> words_;
  Facts facts_;
  MatrixElement element_;
  uint32_t next_id_;
  Words out_;
  std::array<uint32_t, kUses> use_ids_{};
  uint32_t bf16_type_ = 0;
  uint32_t bf16_pointer_type_ = 0;
  std::set<uint32_t> bf16_pointers_;  // to elements of matrices
  std::string fault_;
};

}  // namespace

std::variant<std::vector<uint32_t>, std::string> with_khr_matrices(std::span<const uint32_t> words,
                                                                   MatrixElement element) {
  Facts facts = facts_of(words);
  if (!facts.has_matrices) return Words(words.begin(), words.end());
  return Rewriter(words, std::move(facts), element).run();
}

}  // namespace rlx
