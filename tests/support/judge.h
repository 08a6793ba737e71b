// SPDX-License-Identifier: Apache-2.0
// Judging a device's result by ops.md 0.5.
#pragma once

#include <string>

#include "compiler/ir/tensor.h"
#include "tests/support/case.h"

namespace rlx::test {

struct Verdict {
  bool good = true;
  double worst_ratio = 0;  // largest error over its bound; 0 for exact classes
  std::string fault;       // first element out of bounds: index, got, wanted, bound
};

// `got` as read from the device, `reference` from the f64 evaluator, unrounded.
Verdict judge(const Tensor& got, const Tensor& reference, Tolerance tolerance);

}  // namespace rlx::test
