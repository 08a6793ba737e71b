// SPDX-License-Identifier: Apache-2.0
// Cases of masked_fill and masked_scatter; golden values from PyTorch's documentation and NumPy.
#include <cmath>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> masked_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& op, const std::string& name, const CaseTensor& x,
                            const CaseTensor& mask, const CaseTensor& source,
                            const std::vector<std::vector<double>>& golden = {}) {
    cases.push_back({.name = name, .op = op, .inputs = {x, mask, source}, .golden = golden});
  };
  const CaseTensor x = tensor(DType::f32, {2, 3}).of({1, 2, 3, 4, 5, 6});
  const CaseTensor mask = tensor(DType::bool_, {2, 3}).of({0, 1, 0, 1, 1, 0});
  add("masked_fill", "a scalar value", x, mask, tensor(DType::f32, {}).of({-INFINITY}),
      {{1, -INFINITY, 3, -INFINITY, -INFINITY, 6}});
  add("masked_fill", "T22 a mask per column, values per row", x,
      tensor(DType::bool_, {3}).of({1, 0, 1}), tensor(DType::f32, {2, 1}).of({7, 8}),
      {{7, 2, 7, 8, 5, 8}});
  add("masked_fill", "a numeric mask, NaN is true", x, tensor(DType::f16, {3}).of({NAN, 0, -0.0}),
      tensor(DType::f32, {}).of({9}), {{9, 2, 3, 9, 5, 6}});
  for (DType t : {DType::f16, DType::f64, DType::i64, DType::u8, DType::bool_}) {
    add("masked_fill", "every payload dtype", tensor(t, {4, 5}), tensor(DType::bool_, {4, 5}),
        tensor(t, {}));
    add("masked_scatter", "every payload dtype", tensor(t, {4, 5}), tensor(DType::bool_, {4, 5}),
        tensor(t, {20}));
  }
  add("masked_scatter", "true elements take the source in order", x, mask,
      tensor(DType::f32, {2, 2}).of({10, 20, 30, 40}), {{1, 10, 3, 20, 30, 6}});
  add("masked_scatter", "T22 a mask per column", x, tensor(DType::i32, {3}).of({5, 0, 1}),
      tensor(DType::f32, {4}).of({10, 20, 30, 40}), {{10, 2, 20, 30, 5, 40}});
  add("masked_scatter", "T24 a short source gives its last element", x, mask,
      tensor(DType::f32, {2}).of({10, 20}), {{1, 10, 3, 20, 20, 6}});
  add("masked_scatter", "many elements", tensor(DType::f32, {300, 41}),
      tensor(DType::bool_, {300, 41}), tensor(DType::f32, {12300}));
  add("masked_scatter", "T19 empty", tensor(DType::f32, {0, 3}), tensor(DType::bool_, {0, 3}),
      tensor(DType::f32, {2}));
  return cases;
}

}  // namespace rlx::test
