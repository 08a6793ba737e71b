// SPDX-License-Identifier: Apache-2.0
// A campaign of mutants in processes of its own, so that a crash, a hang, a leak or a sanitizer's
// report names its mutant, and the campaign goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/fuzz/plans/plan_judge.h"

namespace rlx::test {

struct CampaignOptions {
  uint64_t first = 0;
  uint64_t count = 100000;
  uint32_t jobs = 1;
  double seconds_per_mutant = 10;  // more is a hang
  // No new batch after so many seconds; 0: no limit.
  double seconds = 0;
  std::string log_folder;  // where the processes' standard error goes
};

// What happens in a process; made anew in each.
using MutantJudge = std::function<Judgement(uint64_t number)>;
using MakeJudge = std::function<MutantJudge()>;

struct BadMutant {
  uint64_t number = 0;
  std::string what;
};

struct CampaignResult {
  uint64_t executed = 0;
  uint64_t accepted = 0;
  uint64_t ran = 0;
  uint64_t guarded = 0;
  uint64_t bad = 0;
  std::vector<uint64_t> refused;  // by VerifyRule
  std::vector<BadMutant> list;    // the first of the bad ones, in the order of their numbers
  double seconds = 0;
};

CampaignResult run_campaign(const CampaignOptions& options, const MakeJudge& make_judge);

}  // namespace rlx::test
