// SPDX-License-Identifier: Apache-2.0
// Plan files: header page, sections, checksums. The bytes depend on nothing but the content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/plan_content.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

struct PlanFileSummary {
  uint64_t plan_bytes = 0;
  uint64_t weights_bytes = 0;  // of the segment
};

// The plan in memory. What the runtime's verifier finds wrong with it is an internal error.
std::vector<std::byte> plan_bytes(const PlanContent& content);

// Writes the plan to `path` (as runtime/base/output_file.h says), weights straight from where they
// lie. Verified before it gets its name.
std::optional<PlanFileSummary> write_plan(const PlanContent& content, const std::string& path,
                                          Diagnostics& diagnostics);

}  // namespace rlx
