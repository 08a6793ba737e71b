// SPDX-License-Identifier: Apache-2.0
// lrn (ops.md 4).
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> lrn_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& name, const CaseTensor& x,
                            const std::string& attributes) {
    cases.push_back({.name = name + ", " + to_string(x.type),
                     .op = "lrn",
                     .inputs = {x},
                     .attributes = "{" + attributes + "}",
                     .tolerance = Tolerance::Norm});
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64})
    add("five channels", tensor(dtype, {2, 7, 5, 3}), R"("size": 5, "alpha": 0.5)");
  const DType f32 = DType::f32;
  add("an even size looks further behind", tensor(f32, {1, 6, 4}), R"("size": 4, "alpha": 1.0)");
  add("one channel", tensor(f32, {2, 3, 4}), R"("size": 1, "alpha": 2.0)");
  add("more neighbours than channels", tensor(f32, {2, 3, 4}), R"("size": 9, "alpha": 2.0)");
  add("beta by logarithm", tensor(f32, {2, 6, 4}), R"("size": 3, "alpha": 1.0, "beta": 0.6)");
  add("beta by logarithm", tensor(DType::f64, {2, 6, 4}),
      R"("size": 3, "alpha": 1.0, "beta": 0.6)");
  add("beta 2, bias 3", tensor(f32, {2, 6, 4}), R"("size": 3, "alpha": 1.0, "beta": 2, "bias": 3)");
  add("beta 1.5", tensor(DType::f64, {2, 6, 4}), R"("size": 3, "alpha": 1.0, "beta": 1.5)");
  add("no spatial dims", tensor(f32, {4, 9}), R"("size": 3)");
  add("T19 empty", tensor(f32, {2, 0, 3}), R"("size": 3)");
  Case golden{.name = "against the formula",
              .op = "lrn",
              .inputs = {tensor(f32, {1, 3}).of({1, 2, 3})},
              .attributes = R"({"size": 2, "alpha": 2.0, "beta": 1.0})",
              .tolerance = Tolerance::Norm};
  golden.golden = {{1.0 / 6, 2.0 / 14, 3.0 / 10}};
  cases.push_back(golden);
  return cases;
}

}  // namespace rlx::test
