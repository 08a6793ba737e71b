// SPDX-License-Identifier: Apache-2.0
// Plans made to cost their verifier much more than a regular plan of their size.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/verify/verify.h"
#include "tests/runtime/verify_fixture.h"

namespace rlx::test {

struct CraftedPlan {
  std::string what;
  Bytes plan;
  std::optional<VerifyRule> rule;  // by which it is refused; none: it is right
};

// Of about this size, for each way in which records, names or code can be crossed,
// one after another.
void for_each_crafted_plan(size_t bytes, const std::function<void(const CraftedPlan&)>& use);

// A regular plan of about this size.
Bytes long_plan(size_t bytes);

// One whose second half reads what the first half made, the last first. Each step waits for the one
// before it alone.
Bytes skips_plan(size_t bytes);

}  // namespace rlx::test
