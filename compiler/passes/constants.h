// SPDX-License-Identifier: Apache-2.0
// Constants made by passes.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace rlx {

// Adds `tensor` to the module as a constant named after `stem` and returns the value that stands
// for it.
ValueId add_constant(Module& module, Graph& graph, ValueId stem, const Tensor& tensor);

// The weight behind a value, or nullptr.
const Weight* weight_of(const Module& module, const Graph& graph, ValueId id);

// True for a weight whose bytes are known to the compiler (not generated at random on the device).
bool is_known(const Weight& weight);

}  // namespace rlx
