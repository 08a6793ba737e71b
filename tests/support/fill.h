// SPDX-License-Identifier: Apache-2.0
// Deterministic test data.
#pragma once

#include <string>

#include "compiler/ir/tensor.h"
#include "tests/support/case.h"

namespace rlx::test {

// The elements of a case's input, rounded to its dtype; the same for the same seed text on every
// machine.
Tensor fill(const CaseTensor& spec, const std::string& seed);

}  // namespace rlx::test
