// SPDX-License-Identifier: Apache-2.0
// What two plans have in common, and what not: `rlxc diff`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/plan_view.h"

namespace rlx {

// A fact that is not the same in both plans; one of which may lack it.
struct PlanDifference {
  std::string what;  // "entry \"main\" step \"act\": grid"
  std::optional<std::string> a;
  std::optional<std::string> b;
};

struct DifferenceGroup {
  std::string_view title;  // "steps"
  std::vector<PlanDifference> differences;
};

// Groups in a fixed order, each there even where it has no differences. The last one holds the
// sections of the files by size and checksum: nothing in which two plans differ escapes it.
struct PlanDifferences {
  std::vector<DifferenceGroup> groups;

  [[nodiscard]] bool none() const;
};

// Steps belong together by the node that they compute and how many of its steps came before,
// weights, states and kernels by their names. Reads the weights of both where they are not the
// same; what cannot be read is an error.
Status compare_plans(const PlanView& a, const PlanView& b, PlanDifferences& differences);

// "steps: 2 differences" and a line for each, of each group at most `most` ones. Ends in a newline.
std::string differences_text(const PlanDifferences& differences, size_t most);
nlohmann::ordered_json differences_json(const PlanDifferences& differences);

}  // namespace rlx
