// SPDX-License-Identifier: Apache-2.0
// Cases of dot_general.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> dot_general_cases() {
  std::vector<Case> cases;
  const auto dot = [&cases](const std::string& name, const CaseTensor& a, const CaseTensor& b,
                            const std::string& attributes, Tolerance tolerance = Tolerance::Sum) {
    cases.push_back({.name = name,
                     .op = "dot_general",
                     .inputs = {a, b},
                     .attributes = attributes,
                     .tolerance = tolerance});
  };
  dot("bij,jbk->bik, by numpy",
      tensor(DType::f32, {2, 3, 4}).of({-0.5,   0.8125, 0.75,    -0.75,   -0.5625, 0.3125,
                                        0.625,  0.9375, -0.9375, -0.625,  -0.125,  0.125,
                                        0.5625, 0.125,  0.0625,  -0.5,    0.3125,  0.1875,
                                        0.875,  -0.625, -0.75,   -0.3125, -0.375,  -0.125}),
      tensor(DType::f32, {4, 2, 3}).of({-0.6875, 0.4375,  0.625,  -1,      0.8125,  -0.8125,
                                        -0.375,  -0,      -0.125, -0.5625, 0.4375,  0.6875,
                                        -0.5625, -0.6875, 0.0625, -0.6875, 0.875,   0.6875,
                                        0.6875,  -0.1875, 0.5625, -0.1875, -0.0625, -0.8125}),
      R"({"lhs_contracting": [2], "rhs_contracting": [0], "lhs_batch": [0], "rhs_batch": [1]})");
  cases.back().golden = {{-0.8984375, -0.59375, -0.7890625, 0.5625, -0.8515625, 0.17578125,
                          1.0351562, -0.34765625, -0.4453125, -0.58203125, 0.59765625, 0.078125,
                          -0.90234375, 1.140625, 0.984375, 1.2070312, -1.0664062, 0.23828125}};
  dot("outer product, by numpy",
      tensor(DType::f32, {2, 3}).of({-1, -0.5625, -0.0625, -0.6875, -0.4375, 0.5}),
      tensor(DType::f32, {2}).of({-0.25, -0.3125}),
      R"({"lhs_contracting": [], "rhs_contracting": []})");
  cases.back().golden = {{0.25, 0.3125, 0.140625, 0.17578125, 0.015625, 0.01953125, 0.171875,
                          0.21484375, 0.109375, 0.13671875, -0.125, -0.15625}};
  const CaseTensor x = tensor(DType::f32, {3, 4, 5, 6});
  const CaseTensor y = tensor(DType::f32, {6, 7, 4, 3});
  dot("two contracting dims in different orders", x, y,
      R"({"lhs_contracting": [1, -1], "rhs_contracting": [2, 0]})");
  dot("two batch dims, order of lhs_batch", x, y,
      R"({"lhs_contracting": [3], "rhs_contracting": [0], "lhs_batch": [1, 0],
          "rhs_batch": [2, 3]})");
  dot("everything is summed", tensor(DType::f32, {4, 5}), tensor(DType::f32, {5, 4}),
      R"({"lhs_contracting": [0, 1], "rhs_contracting": [1, 0]})");
  dot("batch dims alone", tensor(DType::f32, {4, 5}), tensor(DType::f32, {4, 5}),
      R"({"lhs_contracting": [], "rhs_contracting": [], "lhs_batch": [0, 1], "rhs_batch": [0, 1]})");
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    dot("every dtype", tensor(dtype, {2, 9, 33}), tensor(dtype, {2, 17, 33}),
        R"({"lhs_contracting": [2], "rhs_contracting": [2], "lhs_batch": [0], "rhs_batch": [0]})");
  }
  dot("bytes are exact", tensor(DType::i8, {5, 40}), tensor(DType::u8, {40, 3}),
      R"({"lhs_contracting": [1], "rhs_contracting": [0]})", Tolerance::Exact);
  dot("T39 K = 0 gives zeros", tensor(DType::f32, {5, 0}), tensor(DType::f32, {0, 3}),
      R"({"lhs_contracting": [1], "rhs_contracting": [0]})");
  dot("T19 an empty free dim", tensor(DType::f32, {0, 4}), tensor(DType::f32, {4, 3}),
      R"({"lhs_contracting": [1], "rhs_contracting": [0]})");
  return cases;
}

}  // namespace rlx::test
