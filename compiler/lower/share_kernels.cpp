// SPDX-License-Identifier: Apache-2.0
// Choosing between two ways to lower a graph, step by step.
#include "compiler/lower/share_kernels.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

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
    if (!own.kernel || !other.kernel) continue;
    sharers.try_emplace(*other.kernel, Sharers{.first_step = i, .own = {}})
        .first->second.own.insert(*own.kernel);
  }
  return sharers;
}

// Steps of one may stand among those of the other.
bool are_alike(const Program& program, const Program& worded) {
  const auto same_step = [](const Step& own, const Step& other) {
    return own.kind == other.kind && own.node == other.node;
  };
  const auto same_buffer = [](const Buffer& own, const Buffer& other) {
    return own.type == other.type && own.size_bytes == other.size_bytes &&
           own.segment == other.segment && own.weight == other.weight && own.state == other.state;
  };
  return std::ranges::equal(program.steps, worded.steps, same_step) &&
         std::ranges::equal(program.buffers, worded.buffers, same_buffer);
}

}  // namespace

void share_kernels(Program& program, const Program& worded) {
  if (!are_alike(program, worded)) return;
  const AllSharers all = find_sharers(program, worded);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& other = worded.steps[i];
    if (!other.kernel) continue;
    const Sharers& sharers = all.at(*other.kernel);
    if (sharers.own.size() < 2) continue;
    Step& step = program.steps[i];
    step = other;
    step.kernel = program.intern(worded.kernels.at(index_of(*other.kernel)));
    for (StepForm& form : step.forms)
      form.kernel = program.intern(worded.kernels.at(index_of(form.kernel)));
    if (i == sharers.first_step) continue;
    step.reason += (step.reason.empty() ? "" : ", ") + std::string("shares the kernel of step ") +
                   std::to_string(sharers.first_step);
  }
}

}  // namespace rlx
