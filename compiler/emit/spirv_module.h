// SPDX-License-Identifier: Apache-2.0
// Reading and amending SPIR-V words: what a compute module needs of a device, and the
// float-controls execution mode.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/dispatch/program.h"
#include "schema/features.h"

namespace rlx {

struct ModuleFacts {
  std::string entry_point;
  Extent3 workgroup;
  uint64_t features = 0;      // features.def; BufferAddress and ScalarLayout always
  uint32_t shared_bytes = 0;  // all Workgroup variables
  uint32_t params_bytes =
      0;  // end of the last member of the push-constant block; 0 where there is none
  std::vector<uint32_t> unknown_capabilities;  // no row of features.def stands for them
};

// Reads a module made by our own compile step: precondition, it is well-formed and has one compute
// entry point.
ModuleFacts reflect_spirv(std::span<const uint32_t> words);

// The module with SignedZeroInfNanPreserve declared for 32-bit floats, so that neither optimiser
// nor driver assumes that NaN, infinities and signed zeros do not occur. Modules without 32-bit
// floats come back unchanged.
std::vector<uint32_t> with_float_controls(std::span<const uint32_t> words);

// The module with conversions to halves declared to round to nearest even and to keep subnormals,
// NaN, infinities and signed zeros. Modules without 16-bit floats come back unchanged.
std::vector<uint32_t> with_half_controls(std::span<const uint32_t> words);

// The module with those functions that have one of these names declared to be called, and not to be
// put in place by the optimiser. Precondition: the module has names.
std::vector<uint32_t> with_calls(std::span<const uint32_t> words,
                                 std::span<const std::string_view> functions);

}  // namespace rlx
