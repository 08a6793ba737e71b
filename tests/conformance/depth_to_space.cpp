// SPDX-License-Identifier: Apache-2.0
// Cases of depth_to_space and space_to_depth.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> depth_to_space_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& op, const std::string& law, const CaseTensor& x,
                            const std::string& attributes, std::vector<double> golden = {}) {
    cases.push_back({.name = law, .op = op, .inputs = {x}, .attributes = attributes});
    if (!golden.empty()) cases.back().golden = {std::move(golden)};
  };
  // Channel c of pixel 0 is 2 c, of pixel 1 it is 2 c + 1; golden values by NumPy.
  const CaseTensor deep =
      tensor(DType::f32, {1, 8, 1, 2}).of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  add("depth_to_space", "dcr: blocks before channels", deep, R"({"block": 2})",
      {0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15});
  add("depth_to_space", "crd: channels before blocks", deep, R"({"block": 2, "mode": "crd"})",
      {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15});
  add("space_to_depth", "blocks before channels",
      tensor(DType::f32, {1, 2, 2, 2}).of({1, 2, 3, 4, 5, 6, 7, 8}), R"({"block": 2})",
      {1, 5, 2, 6, 3, 7, 4, 8});
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::i32, DType::u32, DType::i64, DType::bool_}) {
    add("depth_to_space", "every dtype", tensor(t, {2, 12, 3, 5}), R"({"block": 2})");
    add("space_to_depth", "every dtype", tensor(t, {2, 3, 4, 6}), R"({"block": 2})");
  }
  add("depth_to_space", "pixel shuffle by 3", tensor(DType::f16, {2, 27, 8, 9}),
      R"({"block": 3, "mode": "crd"})");
  add("space_to_depth", "by 4", tensor(DType::f32, {1, 3, 32, 40}), R"({"block": 4})");
  add("depth_to_space", "block 1", tensor(DType::f32, {1, 3, 2, 2}), R"({"block": 1})");
  add("depth_to_space", "T19 no pixels", tensor(DType::f32, {1, 4, 0, 2}), R"({"block": 2})");
  add("space_to_depth", "T19 no images", tensor(DType::f32, {0, 4, 2, 2}), R"({"block": 2})");
  return cases;
}

}  // namespace rlx::test
