// SPDX-License-Identifier: Apache-2.0
// Choices that estimates leave close, and what a tuner says of them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace rlx {

// One way in which a node can be computed: a kernel, or a division of its work.
struct TimedForm {
  std::string name;         // "matmul_mma", "64x96 tiles, 4 warps, 4 stages of 64, 144 workgroups"
  double microseconds = 0;  // expected
  // Names the kernel that steps whose forms name the same one may share; empty: no other does.
  std::string kernel = {};
  auto operator<=>(const TimedForm&) const = default;
};

// A choice that the lowering of a node met.
struct FormChoice {
  std::string entry;
  std::string node;     // its name
  std::string problem;  // the same for all nodes that differ in nothing but names
  std::string chooser;  // tells apart what the lowering of one node chooses
  std::string taken;
  // A tuner's table named the form that was taken.
  bool is_tuned = false;
  // What it is expected to take longer than the fastest one, so that steps share kernels; a factor.
  double share_cost = 1;
  std::vector<TimedForm> close;  // first the one that is expected to be fastest

  // In a table of forms.
  [[nodiscard]] std::string key() const { return chooser + ": " + problem; }
};

// Forms that may share kernels, among which a step's is chosen. Steps of equal keys choose alike.
struct SharedChoice {
  std::string key;  // FormChoice::key()
  size_t taken = 0;
  std::vector<TimedForm> forms;
};

// The forms to take, by FormChoice::key().
using FormTable = std::map<std::string, std::string>;

}  // namespace rlx
