// SPDX-License-Identifier: Apache-2.0
// Cases of concat and stack.
#include <optional>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> concat_cases() {
  std::vector<Case> cases;
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::i32, DType::u32, DType::i64, DType::bool_}) {
    cases.push_back({.name = "outer axis",
                     .op = "concat",
                     .inputs = {tensor(t, {2, 3}), tensor(t, {4, 3})},
                     .attributes = R"({"axis": 0})"});
    cases.push_back({.name = "inner axis",
                     .op = "concat",
                     .inputs = {tensor(t, {2, 3}), tensor(t, {2, 5})},
                     .attributes = R"({"axis": -1})"});
    cases.push_back({.name = "a new inner axis",
                     .op = "stack",
                     .inputs = {tensor(t, {2, 3}), tensor(t, {2, 3})},
                     .attributes = R"({"axis": -1})"});
  }
  const CaseTensor x = tensor(DType::f32, {3, 4, 5});
  cases.push_back({.name = "T19 empty part",
                   .op = "concat",
                   .inputs = {x, tensor(DType::f32, {3, 0, 5}), x},
                   .attributes = R"({"axis": 1})"});
  cases.push_back(
      {.name = "one input", .op = "concat", .inputs = {x}, .attributes = R"({"axis": 2})"});
  cases.push_back({.name = "T20 rank 8",
                   .op = "concat",
                   .inputs = {tensor(DType::f32, {1, 2, 1, 2, 1, 2, 1, 2}),
                              tensor(DType::f32, {1, 2, 1, 2, 3, 2, 1, 2})},
                   .attributes = R"({"axis": 4})"});
  cases.push_back({.name = "T19 all parts empty",
                   .op = "concat",
                   .inputs = {tensor(DType::f32, {0, 3}), tensor(DType::f32, {0, 3})},
                   .attributes = R"({"axis": 0})"});
  std::vector<std::optional<CaseTensor>> many;
  for (int64_t i = 0; i < 40; ++i) many.emplace_back(tensor(DType::f32, {3, i % 4, 2}));
  cases.push_back(
      {.name = "40 parts", .op = "concat", .inputs = many, .attributes = R"({"axis": 1})"});
  const CaseTensor pair = tensor(DType::f32, {2}).of({1, 2});
  const CaseTensor other = tensor(DType::f32, {2}).of({3, 4});
  cases.push_back({.name = "a new outer axis",
                   .op = "stack",
                   .inputs = {pair, other},
                   .attributes = R"({"axis": 0})",
                   .golden = {{1, 2, 3, 4}}});
  cases.push_back({.name = "a new last axis",
                   .op = "stack",
                   .inputs = {pair, other},
                   .attributes = R"({"axis": 1})",
                   .golden = {{1, 3, 2, 4}}});
  cases.push_back({.name = "scalars",
                   .op = "stack",
                   .inputs = {tensor(DType::i64, {}), tensor(DType::i64, {})},
                   .attributes = R"({"axis": 0})"});
  cases.push_back({.name = "T20 to rank 8",
                   .op = "stack",
                   .inputs = {tensor(DType::f32, {1, 2, 1, 2, 1, 2, 3}),
                              tensor(DType::f32, {1, 2, 1, 2, 1, 2, 3})},
                   .attributes = R"({"axis": 3})"});
  cases.push_back({.name = "T19 nothing",
                   .op = "stack",
                   .inputs = {tensor(DType::f32, {0}), tensor(DType::f32, {0})},
                   .attributes = R"({"axis": 0})"});
  return cases;
}

}  // namespace rlx::test
