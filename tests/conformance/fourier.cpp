// SPDX-License-Identifier: Apache-2.0
// Conformance of fourier, which fft and its kin become: its cases are theirs, and one of the op by
// itself.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> fourier_cases() {
  Case alone{.name = "two points by their table",
             .op = "fourier",
             .inputs = {tensor(DType::c64, {3, 2}), std::nullopt,
                        tensor(DType::f32, {2, 2}).of({1, 0, -1, 0}), std::nullopt, std::nullopt},
             .attributes = R"({"points": 2, "axis": 1, "from": "c64", "to": "c64", "bins": 2})",
             .tolerance = Tolerance::Sum};
  return {alone};
}

}  // namespace rlx::test
