// SPDX-License-Identifier: Apache-2.0
// Conformance of reduce_to_shape and the gradients of cumsum, gather and rope (ops.md 16.4, 16.5).
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> movement_backward_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](std::string name, std::string op,
                            std::vector<std::optional<CaseTensor>> inputs, std::string attributes,
                            Tolerance tolerance = Tolerance::Sum,
                            std::vector<std::vector<double>> golden = {}) {
    cases.push_back({.name = std::move(name),
                     .op = std::move(op),
                     .inputs = std::move(inputs),
                     .attributes = std::move(attributes),
                     .tolerance = tolerance,
                     .golden = std::move(golden)});
  };
  const std::string reduce = "reduce_to_shape";
  for (const DType dtype : {DType::f32, DType::f16, DType::f64})
    add("leading and inner axes", reduce, {tensor(dtype, {3, 4, 5, 6})}, R"({"shape": [4, 1, 6]})");
  add("a scalar", reduce, {tensor(DType::f32, {13, 7})}, R"({"shape": []})");
  add("nothing to do", reduce, {tensor(DType::f32, {3, 5})}, R"({"shape": [3, 5]})");
  add("integers", reduce, {tensor(DType::i32, {3, 5})}, R"({"shape": [1, 5]})", Tolerance::Exact);

  for (const char* exclusive : {"false", "true"}) {
    for (const char* reverse : {"false", "true"}) {
      add(std::string("exclusive ") + exclusive + ", reverse " + reverse, "cumsum_backward",
          {tensor(DType::f32, {3, 17, 5})},
          std::string(R"({"axis": 1, "exclusive": )") + exclusive + R"(, "reverse": )" + reverse +
              "}");
    }
  }
  add("golden", "cumsum_backward", {tensor(DType::f32, {3}).of({1, 2, 4})}, R"({"axis": 0})",
      Tolerance::Sum, {{7, 6, 4}});

  const std::string gather = "gather_backward";
  add("T162 rank 1 on axis 1", gather,
      {tensor(DType::f32, {3, 9, 4}), tensor(DType::i64, {9}).range(-5, 4)},
      R"({"axis": 1, "dim": 5})");
  add("T162 rank 2 on axis 1", gather,
      {tensor(DType::f32, {3, 4, 5, 2}), tensor(DType::i32, {4, 5}).range(-6, 9)},
      R"({"axis": 1, "dim": 6})");
  add("T162 what is outside drops", gather,
      {tensor(DType::f32, {3, 4, 5, 2}), tensor(DType::i32, {4, 5}).range(-12, 12)},
      R"({"axis": 1, "dim": 6, "oob": "zero"})");
  add("T162 a scalar index", gather,
      {tensor(DType::f32, {3, 4}), tensor(DType::i64, {}).of_integers({2})},
      R"({"axis": 1, "dim": 5})");
  for (const DType dtype : {DType::f16, DType::bf16}) {
    add("T162 an embedding's padding", gather,
        {tensor(dtype, {2, 7, 16}), tensor(DType::i32, {2, 7}).range(0, 3)},
        R"({"dim": 4, "padding_idx": 1})");
  }
  add("T162 golden", gather,
      {tensor(DType::f32, {4}).of({1, 2, 4, 8}), tensor(DType::u8, {4}).of_integers({2, 0, 2, 9})},
      R"({"dim": 3})", Tolerance::Sum, {{2, 0, 13}});

  const CaseTensor table = tensor(DType::f32, {9, 3});
  for (const char* style : {"neox", "gptj"}) {
    add(std::string("T82 n_rot below head_dim, ") + style, "rope_backward",
        {tensor(DType::f32, {2, 5, 2, 8}), table, table},
        std::string(R"({"head_dim": 8, "n_rot": 6, "style": ")") + style + R"("})",
        Tolerance::Norm);
  }
  return cases;
}

}  // namespace rlx::test
