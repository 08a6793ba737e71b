// SPDX-License-Identifier: Apache-2.0
// Weights of a module by name, and those made on the device by how they are made.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/ir/ids.h"

namespace rlx {

struct Weight;

// Follows a list of weights that only grows: each call looks first at what was added since the last
// one.
class WeightIndex {
 public:
  [[nodiscard]] bool has_name(const std::vector<Weight>& weights, const std::string& name);
  // The first weight that is made on the device as `wanted` is, and of its type; names do not
  // matter.
  [[nodiscard]] std::optional<WeightId> made_alike(const std::vector<Weight>& weights,
                                                   const Weight& wanted);

 private:
  void follow(const std::vector<Weight>& weights);

  size_t indexed_ = 0;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::vector<WeightId>> made_;  // by a text of the making
};

}  // namespace rlx
