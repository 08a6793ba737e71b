// SPDX-License-Identifier: Apache-2.0
// Facts of a SPIR-V compute module. Numbers are those of the SPIR-V specification, version 1.6.
#include "runtime/spirv_facts.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "runtime/text.h"

namespace rlx {
namespace {

constexpr uint32_t kMagic = 0x07230203;
constexpr size_t kHeaderWords = 5;
constexpr uint32_t kMaxIdBound = 4194304;  // universal limit of the specification
constexpr uint32_t kMaxTypeDepth = 16;
constexpr uint64_t kTooLarge = uint64_t{1} << 32;

constexpr uint32_t kExecutionModelGlCompute = 5;
constexpr uint32_t kExecutionModeLocalSize = 17;
constexpr uint32_t kStorageClassPushConstant = 9;
constexpr uint32_t kDecorationArrayStride = 6;
constexpr uint32_t kDecorationMatrixStride = 7;
constexpr uint32_t kDecorationBuiltIn = 11;
constexpr uint32_t kDecorationOffset = 35;
constexpr uint32_t kBuiltInWorkgroupSize = 25;
constexpr uint32_t kPointerBytes = 8;

enum Opcode : uint16_t {
  OpEntryPoint = 15,
  OpExecutionMode = 16,
  OpCapability = 17,
  OpTypeInt = 21,
  OpTypeFloat = 22,
  OpTypeVector = 23,
  OpTypeMatrix = 24,
  OpTypeArray = 28,
  OpTypeStruct = 30,
  OpTypePointer = 32,
  OpConstant = 43,
  OpConstantComposite = 44,
  OpSpecConstant = 50,
  OpSpecConstantComposite = 51,
  OpFunction = 54,
  OpVariable = 59,
  OpDecorate = 71,
  OpMemberDecorate = 72,
};

struct Type {
  uint16_t opcode = 0;
  uint32_t element = 0;  // pointee for a pointer
  uint32_t count = 0;    // components, columns; id of the length for an array
  uint32_t bits = 0;
  std::vector<uint32_t> members;
};

struct MemberLayout {
  uint32_t offset = 0;
  uint32_t matrix_stride = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const uint32_t> words) : words_(words) {}

  SpirvReading read() {
    if (words_.size() < kHeaderWords || words_[0] != kMagic)
      return {{}, "it does not begin as SPIR-V does"};
    facts_.version = words_[1];
    if (words_[3] == 0 || words_[3] > kMaxIdBound || words_[4] != 0)
      return {{}, "its header is malformed"};
    size_t position = kHeaderWords;
    bool in_declarations = true;
    while (position < words_.size()) {
      const uint32_t count = words_[position] >> 16;
      const auto opcode = static_cast<uint16_t>(words_[position] & 0xFFFF);
      if (count == 0 || count > words_.size() - position) {
        return {{}, text_of("its instruction at word ", position, " does not fit")};
      }
      in_declarations = in_declarations && opcode != OpFunction;
      if (in_declarations && !instruction(opcode, words_.subspan(position + 1, count - 1))) {
        return {
            {},
            text_of("its instruction at word ", position, " (opcode ", opcode, ") is malformed")};
      }
      position += count;
    }
    if (in_declarations) return {{}, "it has no function"};
    return finish();
  }

 private:
  // Operands without the first word. False where they are too few for the opcode.
  bool instruction(uint16_t opcode, std::span<const uint32_t> operands) {
    const auto has = [&](size_t count) { return operands.size() >= count; };
    switch (opcode) {
      case OpCapability:
        if (!has(1)) return false;
        facts_.capabilities.push_back(operands[0]);
        return true;
      case OpEntryPoint:
        return has(3) && entry_point(operands);
      case OpExecutionMode:
        return has(2) && execution_mode(operands);
      case OpDecorate:
        return has(2) && decorate(operands);
      case OpMemberDecorate:
        return has(3) && member_decorate(operands);
      case OpConstant:
      case OpSpecConstant:
        if (!has(3)) return false;
        constants_[operands[1]] = operands[2];
        return true;
      case OpConstantComposite:
      case OpSpecConstantComposite:
        if (!has(2)) return false;
        if (operands[1] == workgroup_id_)
          workgroup_parts_.assign(operands.begin() + 2, operands.end());
        return true;
      case OpVariable:
        if (!has(3)) return false;
        if (operands[2] == kStorageClassPushConstant)
          push_constant_pointers_.push_back(operands[0]);
        return true;
      default:
        return type(opcode, operands);
    }
  }

  bool type(uint16_t opcode, std::span<const uint32_t> operands) {
    const auto has = [&](size_t count) { return operands.size() >= count; };
    switch (opcode) {
      case OpTypeInt:
      case OpTypeFloat:
        if (!has(2)) return false;
        types_[operands[0]] = {.opcode = opcode, .bits = operands[1]};
        return true;
      case OpTypeVector:
      case OpTypeMatrix:
      case OpTypeArray:
        if (!has(3)) return false;
        types_[operands[0]] = {.opcode = opcode, .element = operands[1], .count = operands[2]};
        return true;
      case OpTypePointer:
        if (!has(3)) return false;
        types_[operands[0]] = {.opcode = opcode, .element = operands[2]};
        return true;
      case OpTypeStruct:
        if (!has(1)) return false;
        types_[operands[0]] = {.opcode = opcode, .members = {operands.begin() + 1, operands.end()}};
        return true;
      default:
        return true;
    }
  }

  bool entry_point(std::span<const uint32_t> operands) {
    const std::span<const uint32_t> name_words = operands.subspan(2);
    const char* name = reinterpret_cast<const char*>(name_words.data());
    const size_t length = strnlen(name, name_words.size_bytes());
    if (length == name_words.size_bytes()) return false;
    if (operands[0] != kExecutionModelGlCompute) return true;
    entry_ids_.push_back(operands[1]);
    facts_.compute_entry_points.push_back({.name = std::string(name, length)});
    return true;
  }

  bool execution_mode(std::span<const uint32_t> operands) {
    if (operands[1] != kExecutionModeLocalSize) return true;
    if (operands.size() < 5) return false;
    for (size_t i = 0; i < entry_ids_.size(); ++i) {
      if (entry_ids_[i] != operands[0]) continue;
      facts_.compute_entry_points[i].local_size = std::array{operands[2], operands[3], operands[4]};
    }
    return true;
  }

  bool decorate(std::span<const uint32_t> operands) {
    if (operands[1] == kDecorationArrayStride) {
      if (operands.size() < 3) return false;
      array_strides_[operands[0]] = operands[2];
    }
    if (operands[1] == kDecorationBuiltIn) {
      if (operands.size() < 3) return false;
      if (operands[2] == kBuiltInWorkgroupSize) workgroup_id_ = operands[0];
    }
    return true;
  }

  bool member_decorate(std::span<const uint32_t> operands) {
    const bool wanted = operands[2] == kDecorationOffset || operands[2] == kDecorationMatrixStride;
    if (!wanted) return true;
    if (operands.size() < 4) return false;
    MemberLayout& layout = members_[uint64_t{operands[0]} << 32 | operands[1]];
    (operands[2] == kDecorationOffset ? layout.offset : layout.matrix_stride) = operands[3];
    return true;
  }

  // Bytes of a type as laid out in the push-constant block; kTooLarge where they are unknown.
  uint64_t type_bytes(uint32_t id, uint32_t matrix_stride, uint32_t depth) {
    const auto found = types_.find(id);
    if (found == types_.end() || depth > kMaxTypeDepth || ++types_visited_ > words_.size())
      return kTooLarge;
    const Type& type = found->second;
    switch (type.opcode) {
      case OpTypeInt:
      case OpTypeFloat:
        return type.bits / 8;
      case OpTypeVector:
        return std::min(kTooLarge, type.count * type_bytes(type.element, 0, depth + 1));
      case OpTypeMatrix:
        return std::min(kTooLarge, uint64_t{type.count} * matrix_stride);
      case OpTypePointer:
        return kPointerBytes;
      case OpTypeArray:
        return array_bytes(id, type, depth);
      case OpTypeStruct:
        return struct_bytes(id, type, depth);
      default:
        return kTooLarge;
    }
  }

  uint64_t array_bytes(uint32_t id, const Type& type, uint32_t depth) {
    const auto count = constants_.find(type.count);
    const auto stride = array_strides_.find(id);
    if (count == constants_.end() || stride == array_strides_.end()) return kTooLarge;
    if (count->second == 0) return 0;
    const uint64_t last = type_bytes(type.element, 0, depth + 1);
    return std::min(kTooLarge, (uint64_t{count->second} - 1) * stride->second + last);
  }

  uint64_t struct_bytes(uint32_t id, const Type& type, uint32_t depth) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < type.members.size(); ++i) {
      const auto layout = members_.find(uint64_t{id} << 32 | i);
      if (layout == members_.end()) return kTooLarge;
      const uint64_t bytes = type_bytes(type.members[i], layout->second.matrix_stride, depth + 1);
      end = std::max(end, layout->second.offset + bytes);
    }
    return std::min(end, kTooLarge);
  }

  SpirvReading finish() {
    for (const uint32_t pointer : push_constant_pointers_) {
      const auto type = types_.find(pointer);
      if (type == types_.end() || type->second.opcode != OpTypePointer)
        return {{}, "a push-constant variable has no pointer type"};
      facts_.push_constant_bytes =
          std::max(facts_.push_constant_bytes, type_bytes(type->second.element, 0, 0));
    }
    if (workgroup_id_ != 0) {
      std::array<uint32_t, 3> size{};
      for (size_t i = 0; i < size.size(); ++i) {
        const auto part =
            i < workgroup_parts_.size() ? constants_.find(workgroup_parts_[i]) : constants_.end();
        if (part == constants_.end())
          return {{}, "its WorkgroupSize is no constant of three parts"};
        size[i] = part->second;
      }
      facts_.workgroup_size = size;
    }
    return {std::move(facts_), {}};
  }

  std::span<const uint32_t> words_;
  SpirvFacts facts_;
  std::vector<uint32_t> entry_ids_;
  std::unordered_map<uint32_t, Type> types_;
  std::unordered_map<uint32_t, uint32_t> constants_;  // low word
  std::unordered_map<uint32_t, uint32_t> array_strides_;
  std::unordered_map<uint64_t, MemberLayout> members_;
  std::vector<uint32_t> push_constant_pointers_;
  std::vector<uint32_t> workgroup_parts_;
  uint32_t workgroup_id_ = 0;
  uint64_t types_visited_ = 0;
};

}  // namespace

SpirvReading read_spirv(std::span<const uint32_t> words) {
  return Reader(words).read();
}

}  // namespace rlx
