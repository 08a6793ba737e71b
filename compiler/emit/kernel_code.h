// SPDX-License-Identifier: Apache-2.0
// Compiled code of one kernel instance, with what the plan records about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "compiler/dispatch/program.h"

namespace rlx {

struct KernelCode {
  std::vector<std::byte> bytes;  // SPIR-V words
  std::string entry_point;
  Extent3 workgroup;
  uint32_t shared_bytes = 0;
  uint64_t features = 0;  // mask of features.def
  bool operator==(const KernelCode&) const = default;
};

// Why a kernel did not compile, with the compiler's own lines.
struct KernelFault {
  std::string message;
};

using KernelResult = std::variant<KernelCode, KernelFault>;

struct KernelCodeOptions {
  bool float_controls = true;  // keep NaN, infinities and signed zeros (ops.md 0.9)
  bool optimize = true;
};

}  // namespace rlx
