// SPDX-License-Identifier: Apache-2.0
// Weights that are not bytes of a file: splats and seeded random values, made on the device and on
// the host alike.
#pragma once

#include "compiler/dispatch/program.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace rlx {

inline constexpr uint32_t kFillAlignmentBytes = 16;

// Appends the dispatch that fills `target`, a dense tensor of the weight's type at a multiple of
// kFillAlignmentBytes. Precondition: weight.data is SplatData or RandomData. Nothing where the
// weight is empty.
void lower_weight_fill(Program& program, const TensorRef& target, const Weight& weight);

// The same values on the host: equal bits, but for normals (2e-6 of std).
Tensor evaluate_weight_fill(const Weight& weight);

}  // namespace rlx
