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
  std::vector<TimedForm> close;  // first the one that is expected to be fastest

  // In a table of forms.
  [[nodiscard]] std::string key() const { return chooser + ": " + problem; }
};

// The forms that were measured to be fastest, by FormChoice::key().
using FormTable = std::map<std::string, std::string>;

}  // namespace rlx
