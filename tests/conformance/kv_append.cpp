// SPDX-License-Identifier: Apache-2.0
// Cases of kv_append. In place or not, and many runs: tests/compile/test_caches.cpp.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> kv_append_cases() {
  std::vector<Case> cases;
  const auto append = [&cases](const std::string& name, const CaseTensor& cache,
                               const CaseTensor& added, const CaseTensor& position,
                               const std::string& attributes = "{}") {
    cases.push_back({.name = name,
                     .op = "kv_append",
                     .inputs = {cache, added, position},
                     .attributes = attributes});
  };
  const auto scalar = [](int64_t value, DType dtype = DType::i32) {
    return tensor(dtype, {}).of_integers({value});
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::u8, DType::i16,
                            DType::i64, DType::bool_}) {
    append("every payload dtype", tensor(dtype, {2, 3, 7, 5}), tensor(dtype, {2, 3, 2, 5}),
           scalar(4));
  }
  const CaseTensor cache = tensor(DType::f32, {3, 6, 4});
  const CaseTensor rows = tensor(DType::f32, {3, 2, 4});
  for (const DType dtype : {DType::i32, DType::i64, DType::u32, DType::u8, DType::i8, DType::i16}) {
    append("every position dtype", cache, rows, scalar(3, dtype));
  }
  for (const auto& [to, from] :
       {std::pair(DType::f16, DType::f32), std::pair(DType::bf16, DType::f32),
        std::pair(DType::f32, DType::bf16), std::pair(DType::bf16, DType::f16)}) {
    append("rows of another float dtype are rounded", tensor(to, {2, 3, 7, 6}),
           tensor(from, {2, 3, 2, 6}), scalar(4));
  }
  append("legacy float position", cache, rows, tensor(DType::f32, {}).of({2}));
  append("T155 a position for each of 3 batch entries, axis 1", cache, rows,
         tensor(DType::i32, {3}).of({0, 4, 2}), R"({"axis": 1})");
  append("T155 positions for each of 3 batch entries, axis 2", tensor(DType::bf16, {3, 4, 9, 8}),
         tensor(DType::bf16, {3, 4, 1, 8}), tensor(DType::i64, {3}).of({8, 0, 5}),
         R"({"axis": 2})");
  append("last axis", tensor(DType::f32, {2, 3, 5}), tensor(DType::f32, {2, 3, 2}), scalar(1),
         R"({"axis": -1})");
  append("rows of 16-byte words", tensor(DType::f16, {2, 5, 3, 64}),
         tensor(DType::f16, {2, 5, 2, 64}), scalar(1));
  append("T155 rows beyond the capacity are dropped", cache, rows,
         tensor(DType::i32, {3}).of({5, 6, 100}));
  append("positions below 0 count from the end", cache, rows,
         tensor(DType::i32, {3}).of({-1, -6, -7}));
  append(
      "far positions drop everything", cache, rows,
      tensor(DType::i64, {3}).of_integers({9223372036854775807, -9223372036854775807, 4294967296}));
  append("T155 circular wraps", cache, rows, tensor(DType::i32, {3}).of({5, 11, 3}),
         R"({"mode": "circular"})");
  append("circular positions below 0", cache, rows, tensor(DType::i32, {3}).of({-1, -6, -8}),
         R"({"mode": "circular"})");
  append("T155 circular with more rows than capacity keeps the last", tensor(DType::f32, {2, 4, 3}),
         tensor(DType::f32, {2, 11, 3}), tensor(DType::i32, {2}).of({0, 3}),
         R"({"mode": "circular"})");
  append("T155 more rows than capacity", tensor(DType::f32, {2, 4, 3}),
         tensor(DType::f32, {2, 11, 3}), tensor(DType::i32, {2}).of({0, -3}));
  append("T19 no new rows", cache, tensor(DType::f32, {3, 0, 4}), scalar(1));
  append("T19 an empty cache", tensor(DType::f32, {3, 0, 4}), rows, scalar(0));
  append("rank 2", tensor(DType::i32, {4, 9}), tensor(DType::i32, {4, 2}),
         tensor(DType::i32, {4}).of({0, 7, 8, 3}), R"({"axis": 1})");
  return cases;
}

}  // namespace rlx::test
