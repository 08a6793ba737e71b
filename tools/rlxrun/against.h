// SPDX-License-Identifier: Apache-2.0
// `--against`: the first value of a program that differs from what another device, another plan or
// the reference evaluator makes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/rlxrun/compare.h"
#include "tools/rlxrun/opening.h"
#include "tools/rlxrun/options.h"

namespace rlx::tool {

// After this step a value differs, and before it none did that lives.
struct Divergence {
  uint32_t step = 0;
  std::string kernel;
  std::string node;  // "" where the plan has no debug section
  std::string op;
  std::string type;
  Comparison comparison;
  double rtol = 0;  // of the bound, which is atol + rtol * |expected|
  double atol = 0;
  std::string got_path;
  std::string wanted_path;
};

struct AgainstReport {
  std::string plan;
  std::string entry;
  DeviceFacts device;
  std::string other;  // what it was held to
  uint32_t step_count = 0;
  uint32_t value_count = 0;     // that the steps make whole
  uint32_t matched_count = 0;   // of these the ones that the other side has too
  uint32_t compared_count = 0;  // of these the ones that were looked at
  std::optional<Divergence> divergence;
};

// Runs the plan's own kernels, and those of the other side, up to one step after another. Where
// outputs differ, by bisection: of all values that live after a step none differs, and after the
// next one does. Where outputs agree every value is looked at. Throws a Failure where something is
// refused, and where the two sides have no value in common.
AgainstReport run_against(const Options& options);

std::string against_text(const AgainstReport& report);
std::string against_json(const AgainstReport& report);

}  // namespace rlx::tool
