// SPDX-License-Identifier: Apache-2.0
// Conformance of nonzero (ops.md 7.5).
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {

namespace {

Case nonzero(const std::string& law, const CaseTensor& x, int64_t max_count,
             std::vector<std::vector<double>> golden = {}, const std::string& index_dtype = "i32") {
  return {.name = law + " " + to_string(x.type),
          .op = "nonzero",
          .inputs = {x},
          .attributes = R"({"max_count": )" + std::to_string(max_count) + R"(, "index_dtype": ")" +
                        index_dtype + "\"}",
          .tolerance = Tolerance::Exact,
          .outputs = 2,
          .golden = std::move(golden)};
}

}  // namespace

std::vector<Case> nonzero_cases() {
  const CaseTensor matrix = tensor(DType::f32, {2, 3}).of({0, -0.0, 2, kNan, 0, -1});
  std::vector<Case> cases = {
      nonzero("T101 max_count above the hits", matrix, 5,
              {{0, 2, 1, 0, 1, 2, -1, -1, -1, -1}, {3}}),
      nonzero("T101 max_count below the hits", matrix, 2, {{0, 2, 1, 0}, {3}}),
      nonzero("T101 max_count 0", matrix, 0, {{}, {3}}),
      nonzero("rank 0", tensor(DType::f32, {}).of({4}), 3, {{}, {1}}),
      nonzero("T19 empty", tensor(DType::f32, {0, 3}), 2, {{-1, -1, -1, -1}, {0}}),
      nonzero("nothing found", tensor(DType::i32, {7}).range(0, 0), 2, {{-1, -1}, {0}}),
      nonzero("many more rows than hits", tensor(DType::bool_, {100}), 300000),
      nonzero("in chunks", tensor(DType::bool_, {300, 1001}), 300300),
      nonzero("in chunks, cut off", tensor(DType::u8, {1000003}).range(0, 1), 250000),
      nonzero("T20 rank 8", tensor(DType::i32, {2, 1, 3, 2, 1, 2, 3, 2}).range(0, 2), 200),
  };
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                            DType::u32, DType::i64}) {
    cases.push_back(nonzero("dtypes", tensor(dtype, {5, 7, 11}).range(0, 2), 400));
  }
  for (const char* index_dtype : {"i64", "u32", "f32"}) {
    cases.push_back(
        nonzero("index dtypes", tensor(DType::f32, {3, 50}).edges(), 180, {}, index_dtype));
  }
  return cases;
}

}  // namespace rlx::test
