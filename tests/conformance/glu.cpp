// SPDX-License-Identifier: Apache-2.0
// Cases of fused_swiglu and glu.
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

// Rows of 64, each half's values meeting every one of the other's over 8 rows. Gates whose silu is
// subnormal in f32 are left out: it may be flushed to zero (ops.md 0.4-8), which makes 0 x inf NaN.
std::vector<double> non_finite_rows() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values = {0.0,     -0.0,     1,        -1,    kInfinity, -kInfinity,
                                      kNan,    0.5,      -2.5,     65504, -10,       100,
                                      0x1p-24, -0x1p-24, -0x1p-14, 20000};
  std::vector<double> rows;
  for (size_t row = 0; row < 8; ++row) {
    for (size_t i = 0; i < 32; ++i) rows.push_back(values[i % 16]);
    for (size_t i = 0; i < 32; ++i) rows.push_back(values[(i + 2 * row + i / 16) % 16]);
  }
  return rows;
}

}  // namespace

std::vector<Case> glu_cases() {
  std::vector<Case> cases;
  const auto swiglu = [&cases](const std::string& name, const CaseTensor& x,
                               const std::string& attributes = "{}") {
    cases.push_back({.name = name,
                     .op = "fused_swiglu",
                     .inputs = {x},
                     .attributes = attributes,
                     .tolerance = Tolerance::Transc});
  };
  const CaseTensor x = tensor(DType::f32, {2, 6})
                           .of({2.25, -0.5, -0.75, -0.8125, -2.625, -1.3125, -1.625, -2.625, 0.25,
                                -0.375, -2.875, -2.0625});
  swiglu("up first, by numpy", x);
  cases.back().golden = {
      {-0.56188887, 0.088655032, 0.20875523, 0.24821879, 0.40302825, -0.058160131}};
  swiglu("T87 gate_first, by numpy", x, R"({"gate_first": true})");
  cases.back().golden = {{-1.6538143, 0.49552213, 0.31580847, 0.10025222, 0.50976643, -0.28987226}};
  swiglu("T87 cast to f16", tensor(DType::f32, {5, 34}), R"({"cast_to": "f16"})");
  swiglu("T87 gate_first and a cast", tensor(DType::bf16, {5, 34}),
         R"({"gate_first": true, "cast_to": "f32"})");
  for (const DType dtype : {DType::f16, DType::bf16}) {
    swiglu("every dtype", tensor(dtype, {3, 2, 16}));
  }
  swiglu("T41 another activation", tensor(DType::f32, {3, 10}), R"({"activation": "gelu_tanh"})");
  swiglu("no activation", tensor(DType::f32, {3, 10}), R"({"activation": "none"})");
  swiglu("rank 1", tensor(DType::f32, {8}));
  swiglu("T19 empty", tensor(DType::f32, {0, 8}));
  swiglu("T14 non-finite values", tensor(DType::f16, {8, 64}).of(non_finite_rows()));
  for (const DType dtype : {DType::f32, DType::f16}) {
    cases.push_back({.name = "two tensors",
                     .op = "glu",
                     .inputs = {tensor(dtype, {7, 33}), tensor(dtype, {7, 33})},
                     .tolerance = Tolerance::Transc});
  }
  cases.push_back({.name = "T87 two tensors, cast",
                   .op = "glu",
                   .inputs = {tensor(DType::f32, {7, 33}), tensor(DType::f32, {7, 33})},
                   .attributes = R"({"activation": "relu", "cast_to": "bf16"})",
                   .tolerance = Tolerance::Transc});
  return cases;
}

}  // namespace rlx::test
