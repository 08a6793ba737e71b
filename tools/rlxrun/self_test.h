// SPDX-License-Identifier: Apache-2.0
// The self-test of a plan: inputs and expected outputs that travel in it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/plan_view.h"
#include "tools/npy/npy.h"
#include "tools/rlxrun/compare.h"
#include "tools/rlxrun/opening.h"
#include "tools/rlxrun/options.h"

namespace rlx::tool {

struct ExpectedArray {
  std::string name;
  npy::Array array;  // floats in any width
  Tolerances bound;  // both given
};

struct SelfTestCase {
  std::string entry;
  std::vector<SymbolValue> symbols;  // the free ones
  std::vector<std::pair<std::string, npy::Array>> inputs;
  std::vector<ExpectedArray> outputs;
};

// Empty where the plan has none; refused where the section is not well-formed or names what the
// plan does not have.
Status read_self_test(const std::string& plan_path, const PlanView& plan,
                      std::vector<SelfTestCase>& cases);
// Writes the plan anew with these in place of those that it has had.
Status write_self_test(const std::string& plan_path, const PlanView& plan,
                       const std::vector<SelfTestCase>& cases);

struct JudgedCase {
  std::string entry;
  std::vector<SymbolValue> symbols;
  std::vector<Comparison> comparisons;
};

struct SelfTestReport {
  std::string plan;
  DeviceFacts device;
  std::vector<JudgedCase> cases;

  [[nodiscard]] bool passes() const;
};

// Runs every case on the device that the options name. A Failure where the plan has none.
SelfTestReport run_self_test(const Options& options);

std::string self_test_text(const SelfTestReport& report);
std::string self_test_json(const SelfTestReport& report);

}  // namespace rlx::tool
