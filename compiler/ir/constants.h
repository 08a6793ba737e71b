// SPDX-License-Identifier: Apache-2.0
// Constants that the compiler adds to a module.
#pragma once

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace rlx {

// A name not yet used by a weight of the module nor in the graph, made from `stem`.
std::string fresh_weight_name(Module& module, Graph& graph, const std::string& stem);

// Adds a constant holding the tensor, rounded to its dtype once; `stem` is a wish for its name.
// Returns the value that stands for it in the graph.
ValueId add_constant(Module& module, Graph& graph, const std::string& stem, const TensorType& type,
                     HostBytes bytes);
ValueId add_constant(Module& module, Graph& graph, const std::string& stem, const Tensor& tensor);

}  // namespace rlx
