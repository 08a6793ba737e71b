// SPDX-License-Identifier: Apache-2.0
// One op inside the evaluator of another: fused ops are defined by their composition.
#pragma once

#include "compiler/ops/op_def.h"

namespace rlx {

// The outputs, of the given types, of `op` on inputs that its own checks would take; a null input
// is nullptr, trailing ones may be left out.
std::vector<Tensor> evaluate_op(std::string_view op, std::vector<const Tensor*> inputs,
                                Attributes attributes, std::vector<TensorType> types);

// The node's outputs by its OpDef's decompose, each step evaluated in f64: for ops that are defined
// as a composition. Their cases carry values computed elsewhere.
bool evaluate_composition(EvaluateContext& ctx);

// Input i of the node, or nullptr.
const Tensor* input_or_null(const EvaluateContext& ctx, size_t i);

}  // namespace rlx
