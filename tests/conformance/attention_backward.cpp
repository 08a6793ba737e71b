// SPDX-License-Identifier: Apache-2.0
// Conformance of attention_backward (ops.md 16.4).
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> attention_backward_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](std::string name, std::vector<std::optional<CaseTensor>> inputs,
                            const std::string& attributes, size_t outputs = 3) {
    cases.push_back({.name = std::move(name),
                     .op = "attention_backward",
                     .inputs = std::move(inputs),
                     .attributes = "{" + attributes + "}",
                     .tolerance = Tolerance::Norm,
                     .outputs = outputs});
  };
  const auto f32 = [](const Shape& shape) { return tensor(DType::f32, shape); };
  const std::string two = R"("num_heads": 2, "head_dim": 8)";
  const CaseTensor x = f32({2, 9, 2, 8});
  add("plain", {x, x, x, x}, two);
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    const CaseTensor h = tensor(dtype, {2, 9, 2, 8});
    add("T81 causal", {h, h, h, h}, two + R"(, "causal": true)");
  }
  const CaseTensor q = f32({2, 4, 7, 8});
  const CaseTensor k = f32({2, 2, 11, 8});
  const CaseTensor v = f32({2, 2, 11, 5});
  const CaseTensor dy = f32({2, 4, 7, 5});
  const std::string shared =
      R"("num_heads": 4, "num_kv_heads": 2, "head_dim": 8, "v_head_dim": 5, "q_layout": "bhsd", "kv_layout": "bhsd")";
  add("T81 shared heads, Sq below Sk", {q, k, v, dy}, shared);
  add("T81 windows from a start", {q, k, v, dy},
      shared + R"(, "causal": true, "window_left": 2, "causal_align": "start")");
  add("T81 T78 soft cap and scale", {q, k, v, dy}, shared + R"(, "softcap": 2, "scale": 0.7)");
  add("T76 bias that broadcasts", {q, k, v, dy, std::nullopt, f32({1, 4, 1, 11})}, shared, 4);
  add("T79 T81 mask with rows of no key", {q, k, v, dy, tensor(DType::bool_, {2, 1, 7, 11})},
      shared);
  add("T80 T81 keys behind kv_len",
      {q, k, v, dy, std::nullopt, std::nullopt, tensor(DType::i32, {2}).of_integers({6, 0})},
      shared + R"(, "causal": true)");
  add("T81 starts by batch",
      {q, k, v, dy, std::nullopt, std::nullopt, std::nullopt,
       tensor(DType::i64, {2}).of_integers({3, -2})},
      shared + R"(, "causal": true)");
  add("T81 S of 513", {f32({1, 513, 8}), f32({1, 513, 8}), f32({1, 513, 8}), f32({1, 513, 8})},
      R"("num_heads": 1, "head_dim": 8, "q_layout": "bsd", "kv_layout": "bsd", "causal": true)");
  add("T81 head_dim of 192",
      {f32({1, 5, 1, 192}), f32({1, 6, 1, 192}), f32({1, 6, 1, 192}), f32({1, 5, 1, 192})},
      R"("num_heads": 1, "head_dim": 192)");
  return cases;
}

}  // namespace rlx::test
