// SPDX-License-Identifier: Apache-2.0
// resample by tables: absent taps, combinations, wide tables. Its use is covered by resize and
// adaptive_pool.
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> resample_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& combine, DType dtype, const CaseTensor& x) {
    // Along axis 1, three outputs of up to two taps; the last one has none.
    cases.push_back(
        {.name = combine + " of taps that are there, " + to_string(x.type),
         .op = "resample",
         .inputs = {x, tensor(DType::i32, {6}).of({4, 0, 2, -1, -1, -1}),
                    tensor(DType::f32, {6}).of({0.5, 2, 3, 0, 0, 0})},
         .attributes = R"({"axes": [1], "sizes": [3], "counts": [2], "combine": ")" + combine +
                       R"(", "to": ")" + std::string(name_of(dtype)) + "\"}",
         .tolerance = combine == "sum" || combine == "prod" ? Tolerance::Sum : Tolerance::Exact});
  };
  add("sum", DType::f32, tensor(DType::f16, {2, 5, 3}));
  add("sum", DType::f16, tensor(DType::f32, {2, 5}));
  add("prod", DType::f32, tensor(DType::f32, {2, 5, 3}).uniform(0.5, 1.5));
  for (const char* combine : {"max", "min"}) {
    for (const DType dtype : {DType::f32, DType::i8, DType::u32, DType::i64})
      add(combine, dtype, tensor(dtype, {2, 5, 3}));
  }
  add("max", DType::f32, tensor(DType::f32, {3, 5, 4}).edges());
  return cases;
}

}  // namespace rlx::test
