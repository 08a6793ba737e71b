// SPDX-License-Identifier: Apache-2.0
// Facts of a SPIR-V compute module. Numbers are those of the SPIR-V specification, version 1.6.
#include "runtime/plan/spirv_facts.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <utility>

#include "runtime/base/text.h"

namespace rlx {
namespace {

constexpr uint32_t kMagic = 0x07230203;
constexpr size_t kHeaderWords = 5;
constexpr uint32_t kMaxIdBound = 4194304;  // universal limit of the specification
constexpr size_t kLeastWordsPerId = 2;     // of the instruction that makes it
constexpr uint32_t kMaxTypeDepth = 16;
constexpr uint32_t kMaxTypesVisited = 1024;  // params have 128 bytes
constexpr size_t kMaxCapability = 8192;      // above all that are registered
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
  OpModuleProcessed = 330,
};

struct MemberLayout {
  uint32_t structure = 0;  // id
  uint32_t member = 0;
  uint32_t decoration = 0;
  uint32_t number = 0;
};

// What is said of an id.
struct Declaration {
  uint32_t position = 0;      // of the instruction that defines the type or constant; 0: none
  uint32_t array_stride = 0;  // 0: none
  uint32_t first_layout = 0;  // of its members, in layouts_, from 1 on; 0: none
  uint32_t layout_count = 0;
};

// Reads each word once. Ids index a table, which is no longer than the module: hashing them would
// let a module choose its collisions.
class Reader {
 public:
  Reader(std::span<const uint32_t> words, std::string_view entry_point)
      : words_(words), entry_name_(entry_point) {}

  SpirvReading read() {
    if (words_.size() < kHeaderWords || words_[0] != kMagic)
      return {{}, "it does not begin as SPIR-V does"};
    facts_.version = words_[1];
    const uint32_t bound = words_[3];
    if (bound == 0 || bound > kMaxIdBound || words_[4] != 0) return {{}, "its header is malformed"};
    if (bound > words_.size() / kLeastWordsPerId) {
      return {{},
              text_of("its header says ids up to ", bound, ", which its ", words_.size(),
                      " words cannot make")};
    }
    declarations_.resize(bound);
    size_t position = kHeaderWords;
    bool in_declarations = true;
    while (position < words_.size()) {
      const uint32_t count = words_[position] >> 16;
      const auto opcode = static_cast<uint16_t>(words_[position] & 0xFFFF);
      if (count == 0 || count > words_.size() - position) {
        return {{}, text_of("its instruction at word ", position, " does not fit")};
      }
      in_declarations = in_declarations && opcode != OpFunction;
      if (in_declarations && !instruction(static_cast<uint32_t>(position), opcode)) {
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
  // Words behind the first one of the instruction at a position.
  [[nodiscard]] std::span<const uint32_t> operands_at(uint32_t position) const {
    return words_.subspan(position + 1, (words_[position] >> 16) - 1);
  }

  // False where the operands are too few for the opcode, or name an id past the bound.
  bool instruction(uint32_t position, uint16_t opcode) {
    const std::span<const uint32_t> operands = operands_at(position);
    const auto has = [&](size_t count) { return operands.size() >= count; };
    switch (opcode) {
      case OpCapability:
        return has(1) && capability(operands[0]);
      case OpEntryPoint:
        return has(3) && entry_point(operands);
      case OpExecutionMode:
        return has(2) && execution_mode(operands);
      case OpModuleProcessed:
        return module_processed(operands);
      case OpDecorate:
        return has(2) && decorate(operands);
      case OpMemberDecorate:
        return has(3) && member_decorate(operands);
      case OpConstant:
      case OpSpecConstant:
        return has(3) && define(operands[1], position);
      case OpConstantComposite:
      case OpSpecConstantComposite:
        return has(2) && define(operands[1], position);
      case OpVariable:
        if (!has(3)) return false;
        if (operands[2] == kStorageClassPushConstant)
          push_constant_pointers_.push_back(operands[0]);
        return true;
      case OpTypeStruct:
        return has(1) && define(operands[0], position);
      case OpTypeInt:
      case OpTypeFloat:
        return has(2) && define(operands[0], position);
      case OpTypeVector:
      case OpTypeMatrix:
      case OpTypeArray:
      case OpTypePointer:
        return has(3) && define(operands[0], position);
      default:
        return true;
    }
  }

  bool define(uint32_t id, uint32_t position) {
    if (id >= declarations_.size()) return false;
    declarations_[id].position = position;
    return true;
  }

  bool capability(uint32_t number) {
    if (number >= kMaxCapability) return false;
    if (!seen_capabilities_[number]) facts_.capabilities.push_back(number);
    seen_capabilities_[number] = true;
    return true;
  }

  // A literal string at the begin of some words; nullopt where it does not end in them.
  static std::optional<std::string_view> literal(std::span<const uint32_t> words) {
    const char* text = reinterpret_cast<const char*>(words.data());
    const size_t length = strnlen(text, words.size_bytes());
    if (length == words.size_bytes()) return std::nullopt;
    return std::string_view(text, length);
  }

  bool entry_point(std::span<const uint32_t> operands) {
    const std::optional<std::string_view> name = literal(operands.subspan(2));
    if (!name.has_value()) return false;
    if (operands[0] != kExecutionModelGlCompute || facts_.has_entry_point || *name != entry_name_)
      return true;
    entry_id_ = operands[1];
    facts_.has_entry_point = true;
    return true;
  }

  bool module_processed(std::span<const uint32_t> operands) {
    const std::optional<std::string_view> text = literal(operands);
    if (!text.has_value()) return false;
    if (!facts_.contract.has_value() && text->starts_with(kSpirvContractPrefix))
      facts_.contract = digest_of_hex(text->substr(kSpirvContractPrefix.size()));
    return true;
  }

  // Modes stand behind the entry points that they are about.
  bool execution_mode(std::span<const uint32_t> operands) {
    if (operands[1] != kExecutionModeLocalSize) return true;
    if (operands.size() < 5) return false;
    if (facts_.has_entry_point && operands[0] == entry_id_)
      facts_.workgroup_size = std::array{operands[2], operands[3], operands[4]};
    return true;
  }

  bool decorate(std::span<const uint32_t> operands) {
    if (operands[0] >= declarations_.size()) return false;
    if (operands[1] == kDecorationArrayStride) {
      if (operands.size() < 3) return false;
      declarations_[operands[0]].array_stride = operands[2];
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
    if (operands.size() < 4 || operands[0] >= declarations_.size()) return false;
    layouts_.push_back({.structure = operands[0],
                        .member = operands[1],
                        .decoration = operands[2],
                        .number = operands[3]});
    ++declarations_[operands[0]].layout_count;
    return true;
  }

  // Brings the layouts of each struct together, in the order of the struct's first one.
  void group_layouts() {
    std::vector<MemberLayout> grouped(layouts_.size());
    uint32_t next = 1;
    for (const MemberLayout& layout : layouts_) {
      Declaration& owner = declarations_[layout.structure];
      if (owner.first_layout == 0) {
        owner.first_layout = next;
        next += std::exchange(owner.layout_count, 0);
      }
      grouped[owner.first_layout - 1 + owner.layout_count++] = layout;
    }
    layouts_ = std::move(grouped);
  }

  [[nodiscard]] uint16_t opcode_of(uint32_t id) const {
    const bool defined = id < declarations_.size() && declarations_[id].position != 0;
    return defined ? static_cast<uint16_t>(words_[declarations_[id].position] & 0xFFFF)
                   : uint16_t{0};
  }
  // Low word of a scalar constant.
  [[nodiscard]] std::optional<uint32_t> constant(uint32_t id) const {
    const uint16_t opcode = opcode_of(id);
    if (opcode != OpConstant && opcode != OpSpecConstant) return std::nullopt;
    return operands_at(declarations_[id].position)[2];
  }

  // Bytes of a type as laid out in the push-constant block; kTooLarge where they are unknown.
  // Params have few members, so types that refer to one another more often than that are unknown.
  uint64_t type_bytes(uint32_t id, uint32_t matrix_stride, uint32_t depth) {
    const uint16_t opcode = opcode_of(id);
    if (opcode == 0 || depth > kMaxTypeDepth || ++types_visited_ > kMaxTypesVisited)
      return kTooLarge;
    const std::span<const uint32_t> operands = operands_at(declarations_[id].position);
    switch (opcode) {
      case OpTypeInt:
      case OpTypeFloat:
        return operands[1] / 8;
      case OpTypeVector:
        return std::min(kTooLarge, operands[2] * type_bytes(operands[1], 0, depth + 1));
      case OpTypeMatrix:
        return matrix_stride == 0 ? kTooLarge
                                  : std::min(kTooLarge, uint64_t{operands[2]} * matrix_stride);
      case OpTypePointer:
        return kPointerBytes;
      case OpTypeArray:
        return array_bytes(declarations_[id], operands, depth);
      case OpTypeStruct:
        return struct_bytes(declarations_[id], operands.subspan(1), depth);
      default:
        return kTooLarge;
    }
  }

  uint64_t array_bytes(const Declaration& array, std::span<const uint32_t> operands,
                       uint32_t depth) {
    const std::optional<uint32_t> count = constant(operands[2]);
    if (!count.has_value() || array.array_stride == 0) return kTooLarge;
    if (*count == 0) return 0;
    const uint64_t last = type_bytes(operands[1], 0, depth + 1);
    return std::min(kTooLarge, (uint64_t{*count} - 1) * array.array_stride + last);
  }

  uint64_t struct_bytes(const Declaration& structure, std::span<const uint32_t> members,
                        uint32_t depth) {
    if (members.empty()) return 0;
    if (members.size() > kMaxTypesVisited || structure.layout_count > 2 * members.size())
      return kTooLarge;
    std::vector<std::optional<uint32_t>> offsets(members.size());
    std::vector<uint32_t> strides(members.size(), 0);
    for (uint32_t i = 0; i < structure.layout_count; ++i) {
      const MemberLayout& layout = layouts_[structure.first_layout - 1 + i];
      if (layout.member >= members.size()) return kTooLarge;
      if (layout.decoration == kDecorationOffset) offsets[layout.member] = layout.number;
      if (layout.decoration == kDecorationMatrixStride) strides[layout.member] = layout.number;
    }
    uint64_t end = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      if (!offsets[i].has_value()) return kTooLarge;
      end = std::max(end, *offsets[i] + type_bytes(members[i], strides[i], depth + 1));
    }
    return std::min(end, kTooLarge);
  }

  SpirvReading finish() {
    group_layouts();
    for (const uint32_t pointer : push_constant_pointers_) {
      if (opcode_of(pointer) != OpTypePointer)
        return {{}, "a push-constant variable has no pointer type"};
      const uint32_t block = operands_at(declarations_[pointer].position)[2];
      facts_.push_constant_bytes = std::max(facts_.push_constant_bytes, type_bytes(block, 0, 0));
    }
    if (workgroup_id_ == 0) return {std::move(facts_), {}};
    const uint16_t opcode = opcode_of(workgroup_id_);
    const bool composite = opcode == OpConstantComposite || opcode == OpSpecConstantComposite;
    const std::span<const uint32_t> operands =
        composite ? operands_at(declarations_[workgroup_id_].position)
                  : std::span<const uint32_t>();
    std::array<uint32_t, 3> size{};
    for (size_t i = 0; i < size.size(); ++i) {
      const std::optional<uint32_t> part =
          operands.size() > i + 2 ? constant(operands[i + 2]) : std::nullopt;
      if (!part.has_value()) return {{}, "its WorkgroupSize is no constant of three parts"};
      size[i] = *part;
    }
    facts_.workgroup_size = size;
    return {std::move(facts_), {}};
  }

  std::span<const uint32_t> words_;
  std::string_view entry_name_;
  SpirvFacts facts_;
  std::bitset<kMaxCapability> seen_capabilities_;
  std::vector<Declaration> declarations_;  // by id
  std::vector<MemberLayout> layouts_;
  std::vector<uint32_t> push_constant_pointers_;
  uint32_t entry_id_ = 0;
  uint32_t workgroup_id_ = 0;
  uint32_t types_visited_ = 0;
};

}  // namespace

SpirvReading read_spirv(std::span<const uint32_t> words, std::string_view entry_point) {
  return Reader(words, entry_point).read();
}

}  // namespace rlx
