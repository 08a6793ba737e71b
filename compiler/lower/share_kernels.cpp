// SPDX-License-Identifier: Apache-2.0
// Choosing between two ways to lower a graph, step by step.
#include "compiler/lower/share_kernels.h"

#include <map>
#include <set>
#include <string>

#include "compiler/support/check.h"

namespace rlx {
namespace {

// The steps that would run one kernel, and the kernels that they run now.
struct Sharers {
  size_t first_step = 0;
  std::set<KernelInstanceId> own;
};

using AllSharers = std::map<KernelInstanceId, Sharers>;  // by the kernel that they would run

AllSharers find_sharers(const Program& program, const Program& worded) {
  AllSharers sharers;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& own = program.steps[i];
    const Step& other = worded.steps[i];
    RLX_CHECK(own.kind == other.kind && own.node == other.node, "a graph lowered twice");
    if (!own.kernel || !other.kernel) continue;
    sharers.try_emplace(*other.kernel, Sharers{.first_step = i, .own = {}})
        .first->second.own.insert(*own.kernel);
  }
  return sharers;
}

}  // namespace

void share_kernels(Program& program, const Program& worded) {
  RLX_CHECK(program.steps.size() == worded.steps.size() &&
                program.buffers.size() == worded.buffers.size(),
            "a graph lowered twice");
  const AllSharers all = find_sharers(program, worded);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& other = worded.steps[i];
    if (!other.kernel) continue;
    const Sharers& sharers = all.at(*other.kernel);
    if (sharers.own.size() < 2) continue;
    Step& step = program.steps[i];
    step = other;
    step.kernel = program.intern(worded.kernels.at(index_of(*other.kernel)));
    if (i == sharers.first_step) continue;
    step.reason += (step.reason.empty() ? "" : ", ") + std::string("shares the kernel of step ") +
                   std::to_string(sharers.first_step);
  }
}

}  // namespace rlx
