// SPDX-License-Identifier: Apache-2.0
// Cases of gather and embedding.
#include <cmath>
#include <cstdint>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> gather_cases() {
  std::vector<Case> cases;
  const auto gather = [&cases](const std::string& name, const CaseTensor& x,
                               const CaseTensor& index, const std::string& attributes = "{}") {
    cases.push_back({.name = name, .op = "gather", .inputs = {x, index}, .attributes = attributes});
  };
  const CaseTensor x = tensor(DType::f32, {10, 5});
  for (DType i : {DType::i32, DType::i64, DType::u32, DType::u8, DType::i8, DType::i16, DType::f32,
                  DType::f16}) {
    gather("every index dtype", x, tensor(i, {3}).of({7, 0, 3}));
  }
  for (DType t : {DType::f16, DType::bf16, DType::f64, DType::u8, DType::i64, DType::bool_}) {
    gather("every payload dtype", tensor(t, {6, 3}), tensor(DType::i32, {4}).of({5, 5, 0, 2}));
  }
  gather("T24 index 99 of 10 takes the last row", x, tensor(DType::i32, {2}).of({99, -99}));
  gather("T24 index 99 of 10 gives zeros", x, tensor(DType::i32, {3}).of({99, 1, -11}),
         R"({"oob": "zero"})");
  gather("T25 -1 is the last row", x, tensor(DType::i64, {2}).of({-1, -10}));
  gather("T102 axis 1 keeps the leading dim", tensor(DType::f32, {3, 4, 5}),
         tensor(DType::i32, {2, 2}).of({3, 0, 1, 1}), R"({"axis": 1})");
  gather("T102 rank-0 index removes the axis", x, tensor(DType::i32, {}).of({4}),
         R"({"axis": -1})");
  gather("rows of 16 bytes", tensor(DType::f32, {7, 8}),
         tensor(DType::i32, {5}).of({6, 5, 1, 1, 0}));
  gather("T19 no indices", x, tensor(DType::i32, {0}));
  gather("zeros from an empty axis", tensor(DType::f32, {0, 2}), tensor(DType::i32, {2}).of({0, 1}),
         R"({"oob": "zero"})");
  gather("wide offsets",
         tensor(DType::i64, {4}).of_integers({1, -9223372036854775807, 3, 9007199254740993}),
         tensor(DType::i32, {3}).of({3, 1, 0}));
  gather("T8 legacy float indices: toward zero, NaN is 0, far ones clamp", x,
         tensor(DType::f32, {6}).of({2.9, -1.5, NAN, 1e30, -1e30, -0.9}));
  gather("T24 i64 indices beyond 32 bits", x,
         tensor(DType::i64, {4}).of_integers({4294967297, -4294967295, INT64_MAX, INT64_MIN}),
         R"({"oob": "zero"})");
  gather("T24 u32 indices are never negative", x,
         tensor(DType::u32, {2}).of_integers({4294967295, 9}), R"({"oob": "zero"})");
  gather("middle axis of rank 8", tensor(DType::f16, {2, 1, 3, 1, 5, 1, 2, 2}),
         tensor(DType::i32, {3}).of({4, -1, 0}), R"({"axis": 4})");
  gather("rank 1 of 16-bit elements", tensor(DType::bf16, {9}),
         tensor(DType::i8, {5}).of({8, -9, 3, 3, 1}));
  gather("T21 rows of many words, 4 words per thread", tensor(DType::f32, {5, 70000}),
         tensor(DType::i32, {61}).range(-5, 4));
  cases.push_back({.name = "T102 golden of NumPy take over axis 1",
                   .op = "gather",
                   .inputs = {tensor(DType::f32, {2, 3}).of({1, 2, 3, 4, 5, 6}),
                              tensor(DType::i32, {2, 1}).of({2, -3})},
                   .attributes = R"({"axis": 1})",
                   .golden = {{3, 1, 6, 4}}});
  cases.push_back({.name = "ids of rank 2, repeated",
                   .op = "embedding",
                   .inputs = {tensor(DType::f32, {11, 12}).param(),
                              tensor(DType::i64, {2, 3}).of({0, 10, 10, 4, 1, 0})}});
  cases.push_back(
      {.name = "padding_idx changes nothing forward",
       .op = "embedding",
       .inputs = {tensor(DType::f16, {5, 4}).param(), tensor(DType::i32, {3}).of({0, 1, 4})},
       .attributes = R"({"padding_idx": 0})"});
  const auto table = [&cases](const std::string& name, const std::string& op, DType dtype,
                              const CaseTensor& ids, const std::string& attributes) {
    cases.push_back({.name = name,
                     .op = op,
                     .inputs = {tensor(dtype, {9, 256}).param(), ids},
                     .attributes = attributes,
                     .tolerance = Tolerance::Arith});
  };
  const CaseTensor ids = tensor(DType::i64, {2, 3}).of({7, 0, 7, 3, -1, 99});
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::q8_0, DType::mxfp4}) {
    table("T103 rows of blocks, out of order and repeated", "embedding", dtype, ids, "{}");
  }
  table("T103 rows of blocks, zeros outside, f16", "gather", DType::q5_k, ids,
        R"({"oob": "zero", "out_dtype": "f16"})");
  return cases;
}

}  // namespace rlx::test
