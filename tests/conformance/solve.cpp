// SPDX-License-Identifier: Apache-2.0
// Cases of dense_solve and batched_dense_solve.
#include <cmath>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> solve_cases() {
  std::vector<Case> cases;
  const auto solve = [&cases](const std::string& name, const std::string& op, const CaseTensor& a,
                              const CaseTensor& b) {
    cases.push_back({.name = name, .op = op, .inputs = {a, b}, .tolerance = Tolerance::Sum});
  };
  solve("two right-hand sides, by numpy", "dense_solve",
        tensor(DType::f32, {3, 3})
            .of({-1.0625, 0.125, 2, -1.3125, 1.375, 1.125, 0.375, 0.1875, 0.0625}),
        tensor(DType::f32, {3, 2}).of({-1.5625, 0.25, 1.9375, 0.9375, -0.125, -0.25}));
  cases.back().golden = {
      {-0.92865024, -0.72710555, 1.6498713, 0.21239426, -1.3777124, -0.27454947}};
  const CaseTensor three = tensor(DType::f32, {3, 2, 2}).of({0, 1, 1, 0, 1, 2, 2, 4, 2, 1, 1, 3});
  const double nan = std::nan("");
  solve("T61 rows are exchanged, a singular system is NaN, the others are right",
        "batched_dense_solve", three, tensor(DType::f32, {3, 2}).of({1, 2, 3, 4, 5, 6}));
  cases.back().golden = {{2, 1, nan, nan, 1.8, 1.4}};
  solve("T61 a NaN spoils its own system", "batched_dense_solve",
        tensor(DType::f32, {2, 2, 2}).of({nan, 1, 2, 3, 4, 1, 2, 3}),
        tensor(DType::f32, {2, 2, 1}));
  for (const DType dtype : {DType::f32, DType::f64}) {
    solve("a vector", "dense_solve", tensor(dtype, {33, 33}), tensor(dtype, {33}));
    solve("many columns", "dense_solve", tensor(dtype, {17, 17}), tensor(dtype, {17, 70}));
    solve("a batch", "batched_dense_solve", tensor(dtype, {5, 40, 40}), tensor(dtype, {5, 40, 3}));
  }
  for (const DType dtype : {DType::f16, DType::bf16}) {
    solve("16 bits go through f32", "batched_dense_solve", tensor(dtype, {3, 6, 6}),
          tensor(dtype, {3, 6}));
  }
  solve("more unknowns than threads", "dense_solve", tensor(DType::f32, {300, 300}),
        tensor(DType::f32, {300, 2}));
  solve("one unknown", "dense_solve", tensor(DType::f32, {1, 1}), tensor(DType::f32, {1}));
  solve("T19 no unknowns", "dense_solve", tensor(DType::f32, {0, 0}), tensor(DType::f32, {0, 4}));
  solve("T19 no systems", "batched_dense_solve", tensor(DType::f32, {0, 3, 3}),
        tensor(DType::f32, {0, 3}));
  return cases;
}

}  // namespace rlx::test
