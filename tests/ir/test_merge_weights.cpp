// SPDX-License-Identifier: Apache-2.0
// One table of weights for several targets.
#include "compiler/ir/merge_weights.h"
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

TEST_CASE("weights_of_equal_bytes_are_one_wherever_the_bytes_lie") {
  const auto weight = [](const std::string& name, const std::vector<std::byte>& bytes) {
    const auto owner = std::make_shared<const std::vector<std::byte>>(bytes);
    return Weight{.name = name,
                  .type = {DType::u8, {static_cast<int64_t>(bytes.size())}},
                  .data = HostBytes{.owner = owner, .bytes = *owner}};
  };
  const std::vector<std::byte> a = {std::byte{1}, std::byte{2}};
  const std::vector<std::byte> b = {std::byte{1}, std::byte{3}};
  Module first;
  first.weights = {weight("a", a), weight("none", {})};
  Module second;
  second.weights = {weight("b", b), weight("a", a), weight("none", {})};
  const std::vector<WeightId> ids = merge_weights(first, second, "@second");
  CHECK(ids == std::vector<WeightId>{WeightId{2}, WeightId{0}, WeightId{1}});
}

}  // namespace rlx::test
