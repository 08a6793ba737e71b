// SPDX-License-Identifier: Apache-2.0
// Cases of gather_elements and gather_nd; golden values from NumPy. Views:
// tests/compile/test_indexing.cpp.
#include <cmath>
#include <cstdint>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> gather_nd_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& op, const std::string& name, const CaseTensor& x,
                            const CaseTensor& index, const std::string& attributes = "{}",
                            const std::vector<std::vector<double>>& golden = {}) {
    cases.push_back(
        {.name = name, .op = op, .inputs = {x, index}, .attributes = attributes, .golden = golden});
  };
  const auto count = [](Shape shape) {
    CaseTensor x = tensor(DType::f32, shape);
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    return x.of(values);
  };
  add("gather_elements", "T104 index smaller than x off the axis", count({3, 4}),
      tensor(DType::i64, {2, 2}).of({3, 0, 1, 1}), R"({"axis": 1})", {{3, 0, 5, 5}});
  add("gather_elements", "T104 longer than x along the axis", tensor(DType::f16, {2, 3, 4}),
      tensor(DType::i32, {7, 3, 2}).range(-2, 1));
  add("gather_elements", "middle axis", tensor(DType::f32, {3, 5, 4}),
      tensor(DType::i32, {2, 6, 3}).range(-5, 4), R"({"axis": -2})");
  for (DType t : {DType::u8, DType::bf16, DType::i64, DType::f64, DType::bool_}) {
    add("gather_elements", "every payload dtype", tensor(t, {6, 4}),
        tensor(DType::i32, {3, 4}).range(-6, 5));
  }
  for (DType i : {DType::i8, DType::u8, DType::i16, DType::u32, DType::f16, DType::f32}) {
    add("gather_elements", "every index dtype", tensor(DType::f32, {6, 4}),
        tensor(i, {2, 4}).of({0, 5, 3, 1, 2, 4, 5, 0}));
  }
  add("gather_elements", "T24 outside takes the nearest", tensor(DType::f32, {4}),
      tensor(DType::i64, {4}).of_integers({4, -5, INT64_MAX, INT64_MIN}));
  add("gather_elements", "T24 outside gives zeros", tensor(DType::f32, {4}),
      tensor(DType::i64, {4}).of_integers({4, -5, -4, 3}), R"({"oob": "zero"})");
  add("gather_elements", "T19 empty index", tensor(DType::f32, {4, 3}), tensor(DType::i32, {0, 3}));
  add("gather_elements", "many elements", tensor(DType::i32, {300, 257}),
      tensor(DType::i32, {300, 257}).range(-257, 256), R"({"axis": 1})");

  add("gather_nd", "golden of whole tuples", count({3, 4}),
      tensor(DType::i32, {2, 2}).of({2, 1, 0, 3}), "{}", {{9, 3}});
  add("gather_nd", "golden of slices behind one batch dim", count({2, 3, 2}),
      tensor(DType::i32, {2, 2, 1}).of({2, 0, 1, 1}), R"({"batch_dims": 1})",
      {{4, 5, 0, 1, 8, 9, 8, 9}});
  add("gather_nd", "slices of 16-byte words", tensor(DType::f16, {3, 4, 16}),
      tensor(DType::i32, {5, 2}).range(-3, 2));
  add("gather_nd", "slices of odd length", tensor(DType::bf16, {3, 4, 5}),
      tensor(DType::i64, {2, 3, 1}).range(-3, 2));
  add("gather_nd", "two batch dims and two coordinates", tensor(DType::f32, {2, 3, 4, 5, 2}),
      tensor(DType::i32, {2, 3, 6, 2}).range(-4, 3), R"({"batch_dims": 2})");
  add("gather_nd", "tuples of no coordinate take the whole of x", tensor(DType::f32, {3, 2}),
      tensor(DType::i32, {4, 0}));
  add("gather_nd", "a tuple alone gives rank 0", tensor(DType::f64, {3, 2}),
      tensor(DType::i32, {2}).of({-1, -2}));
  add("gather_nd", "T24 a tuple is outside if any coordinate is", count({2, 3}),
      tensor(DType::i32, {4, 2}).of({0, 3, 2, 0, -3, 0, 1, 2}), R"({"oob": "zero"})",
      {{0, 0, 0, 5}});
  add("gather_nd", "T24 each coordinate takes the nearest", count({2, 3}),
      tensor(DType::i32, {4, 2}).of({0, 3, 2, 0, -3, 0, 1, 2}), "{}", {{2, 3, 0, 5}});
  add("gather_nd", "T8 legacy float coordinates", count({2, 3}),
      tensor(DType::f32, {2, 2}).of({1.9, NAN, -1, 2}), "{}", {{3, 5}});
  add("gather_nd", "zeros from an empty axis", tensor(DType::f32, {0, 2}),
      tensor(DType::i32, {2, 1}).of({0, 1}), R"({"oob": "zero"})");
  return cases;
}

}  // namespace rlx::test
