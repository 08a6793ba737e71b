// SPDX-License-Identifier: Apache-2.0
// Conformance of rope (ops.md 5.2).
#include "tests/support/case.h"

namespace rlx::test {

namespace {

Case rope_case(const std::string& law, std::vector<std::optional<CaseTensor>> inputs,
               const std::string& attributes, std::vector<std::vector<double>> golden = {}) {
  return {.name = law + " " + to_string(inputs[0]->type),
          .op = "rope",
          .inputs = std::move(inputs),
          .attributes = attributes,
          .tolerance = Tolerance::Sum,
          .golden = std::move(golden)};
}

CaseTensor table(Shape shape, DType dtype = DType::f32) {
  return tensor(dtype, std::move(shape)).uniform(-1, 1);
}

}  // namespace

std::vector<Case> rope_cases() {
  std::vector<Case> cases;
  const CaseTensor x = tensor(DType::f32, {1, 1, 1, 6}).of({1, 2, 3, 4, 5, 6});
  const CaseTensor cos = tensor(DType::f32, {1, 2}).of({-0.9899925, 0.9553365});
  const CaseTensor sin = tensor(DType::f32, {1, 2}).of({0.14112, 0.2955202});
  cases.push_back(rope_case("T82 golden neox", {x, cos, sin}, R"({"head_dim": 6, "n_rot": 4})",
                            {{-1.413353, 0.7285922, -2.828857, 4.412386, 5, 6}}));
  cases.push_back(rope_case("T82 golden gptj", {x, cos, sin},
                            R"({"head_dim": 6, "n_rot": 4, "style": "gptj"})",
                            {{-1.272233, -1.838865, 1.683929, 4.707907, 5, 6}}));
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const char* style : {"neox", "gptj"}) {
      const std::string attributes = R"({"head_dim": 10, "style": ")" + std::string(style) + "\"";
      cases.push_back(rope_case("T83 bshd",
                                {tensor(dtype, {2, 7, 3, 10}), table({7, 5}), table({7, 5})},
                                attributes + "}"));
      cases.push_back(rope_case("bhsd",
                                {tensor(dtype, {2, 3, 7, 10}), table({7, 5}), table({7, 5})},
                                attributes + R"(, "layout": "bhsd"})"));
      cases.push_back(rope_case("T83 bsd with heads",
                                {tensor(dtype, {2, 7, 30}), table({7, 5}), table({7, 5})},
                                attributes + R"(, "layout": "bsd", "inverse": true})"));
    }
  }
  const CaseTensor f32 = tensor(DType::f32, {2, 5, 3, 8});
  cases.push_back(rope_case("shd", {tensor(DType::f32, {5, 3, 8}), table({5, 4}), table({5, 4})},
                            R"({"head_dim": 8, "layout": "shd"})"));
  cases.push_back(rope_case("T69 tokens equal heads",
                            {tensor(DType::f32, {2, 8, 8, 8}), table({8, 4}), table({8, 4})},
                            R"({"head_dim": 8, "layout": "bhsd"})"));
  cases.push_back(rope_case("T82 n_rot 0 copies", {f32, table({5, 4}), table({5, 4})},
                            R"({"head_dim": 8, "n_rot": 0})"));
  cases.push_back(rope_case("T84 table wider than n_rot / 2", {f32, table({5, 4}), table({5, 4})},
                            R"({"head_dim": 8, "n_rot": 4})"));
  cases.push_back(rope_case("T84 rank 3 table", {f32, table({2, 5, 4}), table({2, 5, 4})},
                            R"({"head_dim": 8})"));
  cases.push_back(rope_case("T84 table by token", {f32, table({10, 4}), table({10, 4})},
                            R"({"head_dim": 8, "table": "token"})"));
  cases.push_back(rope_case("T84 table by position with as many rows as tokens",
                            {f32, table({10, 4}), table({10, 4})},
                            R"({"head_dim": 8, "position_offset": 3})"));
  cases.push_back(rope_case("T83 position_offset 17",
                            {tensor(DType::f32, {2, 1, 3, 8}), table({30, 4}), table({30, 4})},
                            R"({"head_dim": 8, "position_offset": 17})"));
  cases.push_back(rope_case("rows outside the table are clamped",
                            {f32, table({4, 4}), table({4, 4})},
                            R"({"head_dim": 8, "position_offset": -2})"));
  cases.push_back(rope_case("tables of another dtype",
                            {f32, table({5, 4}, DType::f16), table({5, 4}, DType::bf16)},
                            R"({"head_dim": 8})"));
  const CaseTensor wide = table({30, 4});
  const std::string attributes = R"({"head_dim": 8, "position_offset": 2})";
  cases.push_back(rope_case("T83 positions per batch",
                            {f32, wide, wide, tensor(DType::i32, {2, 5}).range(0, 27)},
                            attributes));
  cases.push_back(rope_case("positions outside the table are clamped",
                            {f32, wide, wide, tensor(DType::i32, {2, 5}).range(-40, 80)},
                            attributes));
  cases.push_back(rope_case("positions per token",
                            {f32, wide, wide, tensor(DType::i64, {5}).range(0, 27)}, attributes));
  cases.push_back(rope_case("scalar position counts on",
                            {f32, wide, wide, tensor(DType::u32, {}).range(3, 9)}, attributes));
  cases.push_back(rope_case("T8 legacy positions in f32",
                            {f32, wide, wide, tensor(DType::f32, {5}).range(0, 27)}, attributes));
  cases.push_back(
      rope_case("T20 more threads than a grid axis times a group",
                {tensor(DType::f16, {1, 70001, 1, 2}), table({70001, 1}), table({70001, 1})},
                R"({"head_dim": 2})"));
  cases.push_back(rope_case("T19 empty",
                            {tensor(DType::f32, {2, 0, 3, 8}), table({5, 4}), table({5, 4})},
                            R"({"head_dim": 8})"));
  return cases;
}

}  // namespace rlx::test
