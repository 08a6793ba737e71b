// SPDX-License-Identifier: Apache-2.0
// Cases of reverse_sequence.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> reverse_sequence_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& law, const CaseTensor& x, const CaseTensor& lens,
                            int64_t batch, int64_t time, std::vector<double> golden = {}) {
    cases.push_back({.name = law,
                     .op = "reverse_sequence",
                     .inputs = {x, lens},
                     .attributes = R"({"batch_axis": )" + std::to_string(batch) +
                                   R"(, "time_axis": )" + std::to_string(time) + "}"});
    if (!golden.empty()) cases.back().golden = {std::move(golden)};
  };
  add("the rest stays", tensor(DType::f32, {2, 4}).of({1, 2, 3, 4, 5, 6, 7, 8}),
      tensor(DType::i64, {2}).of({3, 2}), 0, 1, {3, 2, 1, 4, 6, 5, 7, 8});
  add("time first", tensor(DType::f32, {3, 2}).of({1, 2, 3, 4, 5, 6}),
      tensor(DType::i32, {2}).of({3, 1}), 1, 0, {5, 2, 3, 4, 1, 6});
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i16,
                  DType::i32, DType::u32, DType::i64, DType::bool_}) {
    add("every dtype", tensor(t, {3, 5, 4}), tensor(DType::i32, {3}).range(0, 5), 0, 1);
  }
  for (DType t :
       {DType::i8, DType::u8, DType::i16, DType::i32, DType::u32, DType::f32, DType::f16}) {
    add("lengths of any type, of 0 and of all", tensor(DType::f32, {4, 6, 8}),
        tensor(t, {4}).of({0, 6, 1, 5}), 0, 1);
  }
  add("lengths below 0 and beyond the axis", tensor(DType::f32, {3, 5}),
      tensor(DType::i32, {3}).of({-2, 9, 5}), 0, 1);
  add("a length beyond 32 bits", tensor(DType::f32, {1, 5}),
      tensor(DType::i64, {1}).of_integers({int64_t{1} << 40}), 0, 1);
  add("axes apart, words of 16 bytes", tensor(DType::f32, {2, 3, 4, 8}),
      tensor(DType::i32, {4}).of({1, 0, 2, 2}), 2, 0);
  add("negative axes, inner time", tensor(DType::f16, {2, 3, 9}),
      tensor(DType::i32, {3}).of({9, 4, 2}), -2, -1);
  add("T20 rank 8", tensor(DType::f32, {1, 2, 1, 3, 1, 2, 4, 2}),
      tensor(DType::i64, {3}).of({4, 3, 0}), 3, 6);
  add("T19 no times", tensor(DType::f32, {3, 0}), tensor(DType::i32, {3}), 0, 1);
  add("T19 no batches", tensor(DType::f32, {0, 3}), tensor(DType::i32, {0}), 0, 1);
  add("T21 above 65535 groups", tensor(DType::u8, {2, 8400000}),
      tensor(DType::i32, {2}).of({8400000, 4200001}), 0, 1);
  return cases;
}

}  // namespace rlx::test
