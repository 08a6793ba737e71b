// SPDX-License-Identifier: Apache-2.0
// What becomes of a hostile plan: refused by a rule, or accepted, and then every call on it gives a
// status. Anything else is bad.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "runtime/include/rlx.h"
#include "runtime/verify/verify.h"
#include "tests/support/guarded_run.h"

namespace rlx::test {

struct Judgement {
  std::optional<VerifyRule> refused_by;
  bool ran = false;      // on the null device
  bool guarded = false;  // on lavapipe
  std::string bad;       // empty: nothing is
};

struct JudgeOptions {
  bool guards = false;  // run what is accepted on lavapipe too
};

class PlanJudge {
 public:
  explicit PlanJudge(const JudgeOptions& options);
  ~PlanJudge();
  PlanJudge(const PlanJudge&) = delete;
  PlanJudge& operator=(const PlanJudge&) = delete;

  // Why there are no guarded runs though they were asked for.
  [[nodiscard]] const std::string& no_guards() const { return no_guards_; }
  // Code and its record as in this plan are such that guarded runs of other plans may use them.
  // Without, a plan's code is not run: code is trusted, and only with the record that it came with.
  void trust(std::span<const std::byte> plan);

  Judgement judge(std::span<const std::byte> plan, uint64_t number);

 private:
  void look_at(const PlanView& view, Judgement& verdict);
  void run_guards(const PlanView& view, Judgement& verdict);
  // The plan with its free symbols at their minimum, their maximum and between: a binding that is
  // refused is fine, one that is not is a program like any other.
  void judge_bindings(const PlanView& view, uint64_t number, bool small, uint64_t most_nanoseconds,
                      Judgement& verdict);
  [[nodiscard]] bool is_trusted(const PlanView& view) const;

  rlx_device* null_ = nullptr;
  rlx_device* vulkan_ = nullptr;  // with guards: the same device without them
  std::unique_ptr<GuardedDevice> guarded_;
  std::string no_guards_;
  std::set<uint64_t> trusted_;
};

}  // namespace rlx::test
