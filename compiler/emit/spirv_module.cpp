// SPDX-License-Identifier: Apache-2.0
// Walks over SPIR-V instructions. Numbers of opcodes, capabilities and modes come from the
// registry's header.
#include "compiler/emit/spirv_module.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <spirv/unified1/spirv.hpp>

#include "compiler/emit/spirv_words.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"
#include "schema/spirv_capabilities.h"

namespace rlx {
namespace {

// OpTypeCooperativeMatrixKHR, newer than the headers of SPIR-V 1.6.1.
constexpr uint32_t kTypeMatrixKhr = 4456;
// Of a matrix of sums, or a right operand, that Feature::NarrowMatrix stands for.
constexpr uint32_t kNarrowColumns = 8;

std::string literal_text(std::span<const uint32_t> words) {
  const char* text = reinterpret_cast<const char*>(words.data());
  return std::string(text, strnlen(text, words.size_bytes()));
}

// Sizes of the types of a module, for shared memory and push constants.
class TypeTable {
 public:
  void read(const Instruction& instruction) {
    const std::span<const uint32_t> operands = instruction.operands;
    switch (instruction.op) {
      case spv::OpTypeBool:
        plain(operands[0], 4);
        break;  // as drivers lay it out
      case spv::OpTypeInt:
      case spv::OpTypeFloat:
        plain(operands[0], operands[1] / 8);
        break;
      case spv::OpTypePointer:
        pointees_[operands[0]] = operands[2];
        plain(operands[0], 8);
        break;
      case spv::OpTypeVector:
        repeated(operands[0], operands[1], operands[2]);
        break;
      case spv::OpTypeMatrix:
        repeated(operands[0], operands[1], operands[2]);
        break;
      case spv::OpTypeArray:
        repeated(operands[0], operands[1], constants_.at(operands[2]));
        break;
      case spv::OpTypeStruct:
        structure(operands[0], operands.subspan(1));
        break;
      case spv::OpConstant:
        constants_[operands[1]] = operands[2];
        break;
      case spv::OpMemberDecorate:
        if (operands[2] == spv::DecorationOffset) offsets_[operands[0]][operands[1]] = operands[3];
        break;
      default:
        break;
    }
  }

  // Of an integer constant that went before.
  [[nodiscard]] uint32_t constant(uint32_t id) const { return constants_.at(id); }

  // Natural size of what a pointer type points to.
  [[nodiscard]] uint64_t pointee_bytes(uint32_t pointer) const {
    return layouts_.at(pointees_.at(pointer)).size_bytes;
  }
  [[nodiscard]] uint64_t pointee_alignment(uint32_t pointer) const {
    return layouts_.at(pointees_.at(pointer)).alignment_bytes;
  }

 private:
  struct Layout {
    uint64_t size_bytes = 0;
    uint64_t alignment_bytes = 1;
  };

  void plain(uint32_t id, uint32_t bytes) {
    layouts_[id] = {.size_bytes = bytes, .alignment_bytes = bytes};
  }
  void repeated(uint32_t id, uint32_t element, uint32_t count) {
    const auto layout = layouts_.find(element);
    if (layout == layouts_.end()) return;  // cooperative matrices live in registers alone
    layouts_[id] = {.size_bytes = layout->second.size_bytes * count,
                    .alignment_bytes = layout->second.alignment_bytes};
  }
  // Declared offsets where there are any (blocks), otherwise members one after another at their
  // alignment.
  void structure(uint32_t id, std::span<const uint32_t> members) {
    Layout layout;
    const auto declared = offsets_.find(id);
    for (uint32_t i = 0; i < members.size(); ++i) {
      const auto member = layouts_.find(members[i]);
      if (member == layouts_.end()) continue;  // a runtime array ends its block
      uint64_t offset = round_up(layout.size_bytes, member->second.alignment_bytes);
      if (declared != offsets_.end()) offset = declared->second.at(i);
      layout.size_bytes = std::max(layout.size_bytes, offset + member->second.size_bytes);
      layout.alignment_bytes = std::max(layout.alignment_bytes, member->second.alignment_bytes);
    }
    layouts_[id] = layout;
  }

  std::map<uint32_t, Layout> layouts_;
  std::map<uint32_t, uint32_t> pointees_;
  std::map<uint32_t, uint32_t> constants_;
  std::map<uint32_t, std::map<uint32_t, uint32_t>> offsets_;  // struct -> member -> bytes
};

}  // namespace

ModuleFacts reflect_spirv(std::span<const uint32_t> words) {
  ModuleFacts facts;
  facts.features = mask_of(Feature::BufferAddress) | mask_of(Feature::ScalarLayout);
  TypeTable types;
  uint64_t shared_bytes = 0;
  for_each_instruction(words, [&](const Instruction& instruction) {
    const std::span<const uint32_t> operands = instruction.operands;
    types.read(instruction);
    if (instruction.op == spv::OpCapability) {
      if (const SpirvCapability* row = find_spirv_capability(operands[0]))
        facts.features |= row->features;
      else
        facts.unknown_capabilities.push_back(operands[0]);
    } else if (static_cast<uint32_t>(instruction.op) == kTypeMatrixKhr) {
      // type, component, scope, rows, columns, use
      if (types.constant(operands[4]) == kNarrowColumns)
        facts.features |= mask_of(Feature::NarrowMatrix);
    } else if (instruction.op == spv::OpEntryPoint) {
      facts.entry_point = literal_text(operands.subspan(2));
    } else if (instruction.op == spv::OpExecutionMode &&
               operands[1] == spv::ExecutionModeLocalSize) {
      facts.workgroup = {.x = operands[2], .y = operands[3], .z = operands[4]};
    } else if (instruction.op == spv::OpVariable && operands[2] == spv::StorageClassWorkgroup) {
      shared_bytes = round_up(shared_bytes, types.pointee_alignment(operands[0])) +
                     types.pointee_bytes(operands[0]);
    } else if (instruction.op == spv::OpVariable && operands[2] == spv::StorageClassPushConstant) {
      facts.params_bytes = narrow<uint32_t>(types.pointee_bytes(operands[0]));
    }
  });
  facts.shared_bytes = narrow<uint32_t>(shared_bytes);
  return facts;
}

namespace {

struct FloatMode {
  spv::Capability capability;
  spv::ExecutionMode mode;
};

// The module with the modes declared for floats of `bits`, or as it is where it has none. A
// capability that is there already is not declared again.
std::vector<uint32_t> with_modes(std::span<const uint32_t> words, uint32_t bits,
                                 std::span<const FloatMode> wanted) {
  bool has_floats = false;
  std::vector<uint32_t> declared;
  uint32_t entry_point = 0;
  size_t capability_position = kHeaderWords;  // behind the last capability
  size_t mode_position = 0;                   // behind the entry point
  for_each_instruction(words, [&](const Instruction& instruction) {
    const size_t end = instruction.position + 1 + instruction.operands.size();
    if (instruction.op == spv::OpCapability) {
      capability_position = end;
      declared.push_back(instruction.operands[0]);
    } else if (instruction.op == spv::OpEntryPoint) {
      entry_point = instruction.operands[1];
      mode_position = end;
    } else if (instruction.op == spv::OpTypeFloat && instruction.operands[1] == bits) {
      has_floats = true;
    }
  });
  std::vector<uint32_t> amended(words.begin(), words.end());
  if (!has_floats) return amended;
  std::vector<uint32_t> modes;
  std::vector<uint32_t> capabilities;
  for (const FloatMode& mode : wanted) {
    modes.insert(modes.end(), {(4u << spv::WordCountShift) | spv::OpExecutionMode, entry_point,
                               static_cast<uint32_t>(mode.mode), bits});
    if (std::ranges::find(declared, static_cast<uint32_t>(mode.capability)) != declared.end())
      continue;
    capabilities.insert(capabilities.end(), {(2u << spv::WordCountShift) | spv::OpCapability,
                                             static_cast<uint32_t>(mode.capability)});
  }
  // From back to front, so that the positions stay right. SPIR-V 1.4 made the extension's
  // declaration unnecessary.
  amended.insert(amended.begin() + static_cast<std::ptrdiff_t>(mode_position), modes.begin(),
                 modes.end());
  amended.insert(amended.begin() + static_cast<std::ptrdiff_t>(capability_position),
                 capabilities.begin(), capabilities.end());
  return amended;
}

constexpr FloatMode kKeepSpecials = {spv::CapabilitySignedZeroInfNanPreserve,
                                     spv::ExecutionModeSignedZeroInfNanPreserve};

}  // namespace

std::vector<uint32_t> with_float_controls(std::span<const uint32_t> words) {
  return with_modes(words, 32, std::array{kKeepSpecials});
}

std::vector<uint32_t> with_half_controls(std::span<const uint32_t> words) {
  return with_modes(
      words, 16,
      std::array{kKeepSpecials,
                 FloatMode{spv::CapabilityRoundingModeRTE, spv::ExecutionModeRoundingModeRTE},
                 FloatMode{spv::CapabilityDenormPreserve, spv::ExecutionModeDenormPreserve}});
}

std::vector<uint32_t> with_calls(std::span<const uint32_t> words,
                                 std::span<const std::string_view> functions) {
  std::set<uint32_t> called;
  std::vector<uint32_t> result(words.begin(), words.end());
  for_each_instruction(words, [&](const Instruction& instruction) {
    if (instruction.op == spv::OpName) {
      // The name of a function goes on with its operands' types: "rlx_sin(f1;".
      const std::string name = literal_text(instruction.operands.subspan(1));
      const std::string_view stem = std::string_view(name).substr(0, name.find('('));
      if (std::ranges::find(functions, stem) != functions.end())
        called.insert(instruction.operands[0]);
    }
    // Words: instruction, result's type, result, control, function's type.
    if (instruction.op == spv::OpFunction && called.contains(instruction.operands[1]))
      result[instruction.position + 3] |= spv::FunctionControlDontInlineMask;
  });
  return result;
}

}  // namespace rlx
