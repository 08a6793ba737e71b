// SPDX-License-Identifier: Apache-2.0
// The plan verifier: proves that a plan can be replayed without any further check. The rules are
// listed in verify_rules.def. PlanView runs it on every open; the compiler runs it before it
// writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trust/trust_policy.h"

namespace rlx {

enum class VerifyRule : uint8_t {
#define RLX_VERIFY_RULE(name, code, law) name,
#include "runtime/verify/verify_rules.def"
#undef RLX_VERIFY_RULE
};

struct VerifyRuleText {
  std::string_view name;
  std::string_view code;  // "V4.1"
  std::string_view law;
};

const VerifyRuleText& rule_text(VerifyRule rule);
std::span<const VerifyRuleText> all_verify_rules();

struct VerifyFault {
  VerifyRule rule{};
  std::string message;  // "V4.1: value 3 \"h\" ...", without the file's name
};

struct VerifyOptions {
  uint32_t max_faults = 1;  // stops after so many; rule groups build on each other, so a group with
                            // faults is the last one run
  bool check_weights = false;
  std::string weights_folder = {};  // as in PlanOptions
  TrustPolicy trust = {};
};

// Work of a verification, in units of about a sixteenth of a nanosecond on a core of 2024. What is
// allowed grows with the bytes that are read (see verify_work.h); more is a fault of its own
// (WorkBudget), so that no plan takes long.
struct VerifyWork {
  uint64_t used = 0;
  uint64_t allowed = 0;
};

struct VerifyReport {
  std::vector<VerifyFault> faults;  // none if the plan is right
  VerifyWork work;
};

// Of a plan in memory.
VerifyReport verify_plan_report(std::span<const std::byte> plan, const VerifyOptions& options = {});
// Its faults alone.
std::vector<VerifyFault> verify_plan(std::span<const std::byte> plan,
                                     const VerifyOptions& options = {});

}  // namespace rlx
