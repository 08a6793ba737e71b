// SPDX-License-Identifier: Apache-2.0
// unique, compress and masked_select (ops.md 7.5); golden values of NumPy and of ONNX's backend
// tests.
#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case chosen(const std::string& name, const std::string& op, std::vector<CaseTensor> inputs,
            const std::string& attributes, std::vector<std::vector<double>> golden = {}) {
  return {.name = name + " " + to_string(inputs.front().type),
          .op = op,
          .inputs = {inputs.begin(), inputs.end()},
          .attributes = attributes,
          .tolerance = Tolerance::Exact,
          .outputs = op == "unique" ? size_t{5} : size_t{2},
          .golden = std::move(golden)};
}

}  // namespace

std::vector<Case> selection_cases() {
  const DType f32 = DType::f32;
  const CaseTensor six = tensor(f32, {6}).of({2, 1, 1, 3, 4, 3});
  const CaseTensor rows = tensor(f32, {4, 3}).of({1, 0, 0, 1, 0, 0, 2, 3, 4, 1, 0, -1});
  const CaseTensor three = tensor(f32, {3, 2}).of({1, 2, 3, 4, 5, 6});
  std::vector<Case> cases = {
      chosen(
          "sorted", "unique", {six}, "{}",
          {{1, 2, 3, 4, 0, 0}, {4}, {1, 0, 3, 4, -1, -1}, {1, 0, 0, 2, 3, 2}, {2, 1, 2, 1, 0, 0}}),
      chosen("in order of appearance", "unique", {six}, R"({"sorted": false, "max_count": 4})",
             {{2, 1, 3, 4}, {4}, {0, 1, 3, 4}, {0, 1, 1, 2, 3, 2}, {1, 2, 2, 1}}),
      chosen("cut off", "unique", {six}, R"({"max_count": 2})",
             {{1, 2}, {4}, {1, 0}, {1, 0, 0, 2, 3, 2}, {2, 1}}),
      chosen("more rows than elements", "unique", {tensor(f32, {2}).of({5, 5})},
             R"({"max_count": 3})", {{5, 0, 0}, {1}, {0, -1, -1}, {0, 0}, {2, 0, 0}}),
      chosen("consecutive", "unique", {tensor(f32, {6}).of({1, 1, 2, 2, 1, 3})},
             R"({"consecutive": true, "max_count": 5})",
             {{1, 2, 1, 3, 0}, {4}, {0, 2, 4, 5, -1}, {0, 0, 1, 1, 2, 3}, {2, 2, 1, 1, 0}}),
      chosen(
          "rows", "unique", {rows}, R"({"axis": 0})",
          {{1, 0, -1, 1, 0, 0, 2, 3, 4, 0, 0, 0}, {3}, {3, 0, 2, -1}, {1, 1, 2, 0}, {1, 2, 1, 0}}),
      chosen("columns", "unique", {tensor(DType::i32, {2, 3}).of({1, 1, 0, 2, 2, 5})},
             R"({"axis": 1, "max_count": 2, "index_dtype": "i64"})",
             {{0, 1, 5, 2}, {2}, {2, 0}, {1, 1, 0}, {1, 2}}),
      chosen("NaN", "unique", {tensor(f32, {4}).of({kNan, 1, kNan, 1})}, R"({"max_count": 3})",
             {{1, kNan, kNan}, {3}, {1, 0, 2}, {1, 0, 2, 0}, {2, 1, 1}}),
      chosen("T19 empty", "unique", {tensor(f32, {0})}, R"({"max_count": 2})",
             {{0, 0}, {0}, {-1, -1}, {}, {0, 0}}),
      chosen("many", "unique", {tensor(DType::i64, {50, 37}).range(0, 700)}, "{}"),
      chosen("along axis 0", "compress", {three, tensor(DType::bool_, {3}).of({0, 1, 1})},
             R"({"axis": 0})", {{3, 4, 5, 6, 0, 0}, {2}}),
      chosen("along axis 1", "compress", {three, tensor(DType::bool_, {2}).of({0, 1})},
             R"({"axis": 1, "max_count": 1})", {{2, 4, 6}, {1}}),
      chosen("flattened, a short condition", "compress",
             {three, tensor(DType::bool_, {5}).of({0, 1, 0, 0, 1})}, R"({"index_dtype": "i64"})",
             {{2, 5, 0, 0, 0}, {2}}),
      chosen("cut off", "compress", {three, tensor(DType::bool_, {3}).of({1, 1, 1})},
             R"({"axis": 0, "max_count": 2})", {{1, 2, 3, 4}, {3}}),
      chosen("a mask that broadcasts", "masked_select",
             {three, tensor(DType::bool_, {2}).of({0, 1})}, R"({"max_count": 4})",
             {{2, 4, 6, 0}, {3}}),
      chosen("many", "masked_select",
             {tensor(DType::f16, {70, 90}), tensor(DType::u8, {70, 90}).range(0, 2)},
             R"({"max_count": 5000})"),
  };
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                            DType::u32, DType::bool_}) {
    cases.push_back(chosen("dtypes", "unique", {tensor(dtype, {5, 11}).range(0, 1)}, "{}"));
    cases.push_back(chosen("dtypes", "compress",
                           {tensor(dtype, {5, 11}).range(0, 1), tensor(DType::bool_, {5})},
                           R"({"axis": 0})"));
  }
  return cases;
}

}  // namespace rlx::test
