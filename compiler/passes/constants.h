// SPDX-License-Identifier: Apache-2.0
// Constants made by passes.
#pragma once

#include <optional>

#include "compiler/ir/constants.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// The weight that `node` computes from weights, and the value that stands for it: made by the init
// entry, once, or one that is made in the same way already. Precondition: every input of the node
// is a weight, it has one output and no region. The node itself stays; its readers are the
// caller's.
ValueId add_computed(Module& module, Graph& graph, const Node& node);

// Makes the readers of a node over weights read weights instead: evaluated here, or computed by the
// init entry where some input is made on the device. The node itself stays. False where an input is
// no weight, or neither way is open to the node.
bool fold_weights(Module& module, Graph& graph, const Node& node, Diagnostics& diagnostics);

// The weight behind a value, or nullptr.
const Weight* weight_of(const Module& module, const Graph& graph, ValueId id);

// True for a weight whose bytes are known to the compiler (not made on the device).
bool is_known(const Weight& weight);

// The number that every element of a known weight of floats is, perhaps expanded; or nullopt.
std::optional<double> known_number(const Module& module, const Graph& graph, ValueId id);

}  // namespace rlx
