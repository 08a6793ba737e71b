// SPDX-License-Identifier: Apache-2.0
// Cases of fused_dequant_matmul. Norms of models' own nodes are decomposed; at -O2 fuse-norm joins
// them again where there are few vectors.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

enum Part : unsigned {
  kSecond = 1,
  kThird = 2,
  kGamma = 4,
  kBias = 8,
  kResidual = 16,
  kGated = 32
};

struct Sizes {
  Shape lines;
  int64_t n;
  int64_t k;
};

Case fused(const std::string& name, DType dtype, DType w, const Sizes& s, unsigned parts,
           const std::string& attributes = "") {
  const auto optional = [](bool present, CaseTensor given) {
    return present ? std::optional(std::move(given)) : std::nullopt;
  };
  const auto has = [parts](unsigned part) { return (parts & part) != 0; };
  const CaseTensor matrix = tensor(w, {s.n, s.k}).param();
  const int64_t third = has(kThird) ? s.n + 3 : 0;
  const int64_t all = s.n * (has(kSecond) ? 2 : 1) + third;
  Shape x = s.lines;
  x.push_back(s.k);
  Shape y = s.lines;
  y.push_back(has(kGated) ? all / 2 : all);
  std::vector<std::optional<CaseTensor>> inputs = {
      tensor(dtype, x),
      matrix,
      optional(has(kSecond), matrix),
      optional(has(kThird), tensor(w, {third, s.k}).param()),
      optional(has(kGamma), tensor(DType::f32, {s.k}).uniform(0.5, 1.5).param()),
      optional(has(kBias), tensor(DType::f32, {all}).param()),
      optional(has(kResidual), tensor(DType::f32, y))};
  while (!inputs.back()) inputs.pop_back();
  return {.name = name,
          .op = "fused_dequant_matmul",
          .inputs = std::move(inputs),
          .attributes = R"({"scheme": ")" + std::string(name_of(w)) + "\"" +
                        (has(kGated) ? R"(, "gated": true)" : "") +
                        (has(kGamma) ? R"(, "norm": "rms")" : "") + attributes + "}",
          .tolerance = dtype == DType::f32 ? Tolerance::Norm : Tolerance::AttentionHalf};
}

}  // namespace

std::vector<Case> fused_dequant_cases() {
  std::vector<Case> cases;
  const std::string silu = R"(, "activation": "silu")";
  // One and three vectors in teams, 40 in tiles.
  for (const int64_t m : {1, 3, 40}) {
    const Shape lines = {1, m};
    for (const DType w : {DType::q4_1, DType::q8_0}) {
      cases.push_back(
          fused("three matrices, bias", DType::f32, w, {lines, 37, 288}, kSecond | kThird | kBias));
      cases.push_back(fused("gated pair", DType::f32, w, {lines, 45, 288}, kSecond | kGated, silu));
      cases.push_back(fused("norm before a gated pair with bias and residual", DType::f32, w,
                            {lines, 45, 288}, kSecond | kGated | kGamma | kBias | kResidual, silu));
      cases.push_back(fused("bias, activation and residual", DType::f32, w, {lines, 70, 288},
                            kBias | kResidual, R"(, "activation": "leaky_relu", "alpha": 0.3)"));
    }
    cases.push_back(fused("norm of halves before two matrices", DType::f16, DType::q6_k,
                          {lines, 33, 512}, kSecond | kGamma));
    cases.push_back(fused("halves, gated, f32 result", DType::f16, DType::q4_0, {lines, 66, 256},
                          kSecond | kGated | kResidual, silu + R"(, "out_dtype": "f32")"));
  }
  cases.push_back(fused("eight rows of halves, three matrices and bias", DType::f16, DType::q6_k,
                        {{1, 8}, 37, 768}, kSecond | kThird | kBias));
  cases.push_back(fused("five rows of halves, gated pair with bias and residual", DType::f16,
                        DType::q5_0, {{5}, 45, 288}, kSecond | kGated | kBias | kResidual, silu));
  for (const int64_t m : {2, 7, 8}) {
    cases.push_back(fused("norm of few rows of halves before three matrices", DType::f16,
                          DType::q5_0, {{m}, 37, 288}, kSecond | kThird | kGamma | kBias));
    cases.push_back(fused("norm of few rows of halves before a gated pair", DType::f16, DType::q4_k,
                          {{m}, 45, 768}, kSecond | kGated | kGamma | kResidual, silu));
  }
  // Few enough lanes that x stays in registers.
  cases.push_back(fused("x held, norm before three matrices", DType::f32, DType::q4_k,
                        {{1}, 1100, 4096}, kSecond | kThird | kGamma));
  cases.push_back(fused("x held, norm before a gated pair", DType::f32, DType::q4_1,
                        {{1}, 1700, 4096}, kSecond | kGated | kGamma, silu));
  cases.push_back(fused("x held, residual", DType::f16, DType::q4_k, {{1}, 3300, 4096}, kResidual));
  cases.push_back(fused("norm without gamma, eps", DType::f32, DType::q5_0, {{2}, 20, 64}, 0,
                        R"(, "norm": "rms", "eps": 0.5)"));
  cases.push_back(fused("T65 gamma_offset", DType::bf16, DType::q5_1, {{2}, 20, 64}, kGamma,
                        R"(, "gamma_offset": 1)"));
  // Weights decoded by a step of their own, rounded to x's type.
  for (const int64_t m : {1, 40}) {
    const auto rounded = [&](const char* name, DType dtype, DType w, const Sizes& s, unsigned parts,
                             const std::string& more) {
      return fused(name, dtype, w, s, parts,
                   R"(, "round_w": ")" + std::string(name_of(dtype)) + "\"" + more);
    };
    cases.push_back(rounded("rounded weights, three matrices and bias", DType::f16, DType::q4_1,
                            {{1, m}, 40, 288}, kSecond | kThird | kBias, ""));
    cases.push_back(rounded("rounded weights, residual, f32 result", DType::f16, DType::q4_k,
                            {{1, m}, 72, 512}, kResidual, R"(, "out_dtype": "f32")" + silu));
    cases.push_back(rounded("rounded weights, gated pair", DType::bf16, DType::q6_k,
                            {{1, m}, 64, 256}, kSecond | kGated | kBias | kResidual, silu));
  }
  const std::string halves = R"(, "norm": "rms", "round_x": "f16", "out_dtype": "f16")";
  for (const int64_t m : {3, 40}) {
    Case rows = fused("rows rounded behind their norm, gated pair", DType::f32, DType::q4_k,
                      {{m}, 45, 512}, kSecond | kGated | kResidual, halves);
    rows.tolerance = Tolerance::AttentionHalf;
    cases.push_back(std::move(rows));
  }
  cases.push_back(fused("T19 no rows", DType::f32, DType::q4_0, {{0}, 20, 64}, kResidual));
  return cases;
}

}  // namespace rlx::test
