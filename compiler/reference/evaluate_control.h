// SPDX-License-Identifier: Apache-2.0
// Control flow on host tensors, by its definition (ops.md 15).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace rlx {

// Runs a body on inputs, captured ones included; nullopt where anything was reported. `shift` is
// that of its random streams (node_of_trip).
using RunBody = std::function<std::optional<std::vector<Tensor>>(
    const Graph& body, std::vector<Tensor> inputs, uint32_t shift)>;

// The outputs of a node with bodies: only the branch that is taken runs, and only the trips that
// are. A loop that its bound ends while its condition holds is an error that names it.
std::optional<std::vector<Tensor>> evaluate_control(const Graph& graph, const Node& node,
                                                    const std::vector<const Tensor*>& inputs,
                                                    uint32_t shift, const RunBody& run,
                                                    Diagnostics& diagnostics);

}  // namespace rlx
