// SPDX-License-Identifier: Apache-2.0
// One table of weights for several targets.
#include "compiler/lower/merge_weights.h"
#include "tests/support/catch.h"

namespace rlx::test {

TEST_CASE("equal_weights_of_two_targets_are_one_and_equal_weights_of_one_target_stay_two") {
  const auto splat = [](const std::string& name, double value) {
    return Weight{.name = name, .type = {DType::f32, {4}}, .data = SplatData{value}};
  };
  Module first;
  first.weights = {splat("keys", 1), splat("values", 1)};
  Module second;
  second.weights = {splat("keys", 1), splat("values", 1), splat("values", 2)};
  const std::vector<WeightId> ids = merge_weights(first, second, "@cuda");
  CHECK(ids == std::vector<WeightId>{WeightId{0}, WeightId{1}, WeightId{2}});
  REQUIRE(first.weights.size() == 3);
  CHECK(first.weights[2].name == "values@cuda");
}

}  // namespace rlx::test
