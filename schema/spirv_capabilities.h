// SPDX-License-Identifier: Apache-2.0
// The rows of spirv_capabilities.def.
#pragma once

#include <cstdint>
#include <string_view>

#include "schema/features.h"

namespace rlx {

struct SpirvCapability {
  uint32_t number;
  std::string_view name;
  uint64_t features;  // a mask of features.def
};

inline constexpr SpirvCapability kSpirvCapabilities[] = {
#define RLX_SPIRV_CAPABILITY(number, name, features) {number, name, features},
#include "schema/spirv_capabilities.def"
#undef RLX_SPIRV_CAPABILITY
};

// Null for a capability that code of a plan may not declare.
constexpr const SpirvCapability* find_spirv_capability(uint32_t number) {
  for (const SpirvCapability& row : kSpirvCapabilities) {
    if (row.number == number) return &row;
  }
  return nullptr;
}

}  // namespace rlx
