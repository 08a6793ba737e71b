// SPDX-License-Identifier: Apache-2.0
// Facts of a SPIR-V compute module that the plan's records must agree with. Reads the module's
// declarations only, each once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/sha256.h"

namespace rlx {

// An OpModuleProcessed of these words and 64 hexadecimal digits names the module's contract
// (runtime/plan/contract.h).
inline constexpr std::string_view kSpirvContractPrefix = "rlx contract ";

struct SpirvFacts {
  uint32_t version = 0;                // 0x00010300 for 1.3
  std::vector<uint32_t> capabilities;  // each once
  bool has_entry_point = false;        // a compute entry point of the name asked for
  std::optional<std::array<uint32_t, 3>>
      workgroup_size;  // of a constant decorated WorkgroupSize, else the entry point's own
  uint64_t push_constant_bytes = 0;      // end of the last member; 0 without a push-constant block
  std::optional<Sha256Digest> contract;  // that it names
};

struct SpirvReading {
  std::optional<SpirvFacts> facts;
  std::string error;  // why there are none
};

SpirvReading read_spirv(std::span<const uint32_t> words, std::string_view entry_point);

}  // namespace rlx
