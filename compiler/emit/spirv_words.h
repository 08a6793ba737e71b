// SPDX-License-Identifier: Apache-2.0
// The instructions of a SPIR-V module, one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <spirv/unified1/spirv.hpp>

#include "compiler/support/check.h"

namespace rlx {

inline constexpr size_t kHeaderWords = 5;

struct Instruction {
  spv::Op op;
  std::span<const uint32_t> operands;  // the words behind the first
  size_t position;                     // of the first word in the module
};

// Calls visit(instruction) for each instruction in order.
template <typename Visit>
void for_each_instruction(std::span<const uint32_t> words, Visit visit) {
  RLX_CHECK(words.size() > kHeaderWords && words[0] == spv::MagicNumber, "SPIR-V header");
  for (size_t position = kHeaderWords; position < words.size();) {
    const size_t length = words[position] >> spv::WordCountShift;
    RLX_CHECK(length >= 1 && length <= words.size() - position, "SPIR-V instruction length");
    visit(Instruction{.op = static_cast<spv::Op>(words[position] & spv::OpCodeMask),
                      .operands = words.subspan(position + 1, length - 1),
                      .position = position});
    position += length;
  }
}

}  // namespace rlx
