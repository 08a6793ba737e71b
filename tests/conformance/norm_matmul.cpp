// SPDX-License-Identifier: Apache-2.0
// Cases of fused_norm_matmul. Models' own nodes are decomposed; at -O2 the passes make them again
// where the target streams them.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> norm_matmul_cases() {
  std::vector<Case> cases;
  enum Part : unsigned { kGated = 1, kGamma = 2, kBias = 4, kResidual = 8 };
  const auto add = [&cases](const std::string& name, DType dtype, Shape lines, int64_t n, int64_t k,
                            unsigned parts, const std::string& attributes) {
    const auto optional = [&](bool present, CaseTensor given) {
      return present ? std::optional(std::move(given)) : std::nullopt;
    };
    const CaseTensor w = tensor(dtype, {n, k}).uniform(-0.2, 0.2).param();
    const CaseTensor vector = tensor(dtype, {n}).param();
    Shape x = lines;
    x.push_back(k);
    Shape y = lines;
    y.push_back(n);
    std::vector<std::optional<CaseTensor>> inputs = {
        tensor(dtype, x),
        w,
        optional((parts & kGated) != 0, w),
        optional((parts & kGamma) != 0, tensor(dtype, {k}).uniform(0.5, 1.5).param()),
        optional((parts & kBias) != 0, vector),
        optional((parts & kBias) != 0 && (parts & kGated) != 0, vector),
        optional((parts & kResidual) != 0, tensor(dtype, y))};
    while (!inputs.back()) inputs.pop_back();
    cases.push_back(
        {.name = name,
         .op = "fused_norm_matmul",
         .inputs = std::move(inputs),
         .attributes = attributes,
         .tolerance = dtype == DType::f32 ? Tolerance::Norm : Tolerance::AttentionHalf});
  };
  const std::string rms = R"({"norm": "rms"})";
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    add("norm and product", dtype, {1}, 96, 128, kGamma, rms);
    add("norm, bias and residual", dtype, {1, 1}, 77, 256, kGamma | kBias | kResidual, rms);
    add("T87 gated pair", dtype, {1}, 50, 512, kGated, R"({"activation": "silu"})");
    add("norm and gated pair", dtype, {1, 1}, 130, 384, kGated | kGamma | kBias,
        R"({"norm": "rms", "activation": "silu"})");
  }
  add("three vectors", DType::f16, {3}, 65, 320, kGated | kGamma,
      R"({"norm": "rms", "activation": "gelu_tanh"})");
  add("eight vectors", DType::bf16, {2, 4}, 40, 192, kGamma | kResidual, rms);
  add("nine vectors, no stream", DType::f32, {9}, 40, 64, kGamma | kResidual, rms);
  add("gated pair with a residual", DType::f32, {2}, 24, 64, kGated | kResidual, "{}");
  add("T65 gamma_offset and eps", DType::f32, {1}, 30, 64, kGamma,
      R"({"norm": "rms", "eps": 0.5, "gamma_offset": 1})");
  add("norm without gamma", DType::f32, {1}, 30, 2048, 0, rms);
  add("rows that are no whole pieces", DType::f16, {1}, 30, 61, kGamma, rms);
  add("T41 an activation with parameters", DType::f32, {1}, 30, 64, 0,
      R"({"activation": "leaky_relu", "alpha": 0.3})");
  // Large tiles where the target has them: odd numbers of tiles, ends that no tile fills.
  for (const DType dtype : {DType::f16, DType::bf16}) {
    add("gated pair in tiles", dtype, {200}, 136, 104, kGated | kBias, R"({"activation": "silu"})");
    add("gated pair in tiles with a residual", dtype, {2, 193}, 264, 72, kGated | kResidual,
        R"({"activation": "gelu"})");
    for (const int64_t lines : {40, 65, 128, 300}) {
      add("gated pair in tiles beside each other", dtype, {lines}, 136, 104, kGated | kBias,
          R"({"activation": "silu"})");
      add("gated pair in tiles beside each other with a residual", dtype, {lines}, 520, 200,
          kGated | kResidual, "{}");
    }
  }
  add("plain rows", DType::bf16, {1}, 9, 4096, 0, "{}");
  add("a long row", DType::f32, {1}, 6, 8192, kGamma, rms);
  return cases;
}

}  // namespace rlx::test
