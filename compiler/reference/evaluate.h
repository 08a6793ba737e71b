// SPDX-License-Identifier: Apache-2.0
// The f64 reference evaluator: runs one entry on the host, node by node. The oracle of the tests
// and of `rlxc reference`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace rlx {

// A weight's elements: decoded bytes, a splat, the generator of ops.md 0.8, or a node over other
// weights, each rounded to its dtype as the init entry stores it.
Tensor weight_tensor(const Module& module, const Weight& weight);

// Values of states between runs of the evaluator, by state name; a missing one has its initial
// value.
using StateValues = std::map<std::string, Tensor>;

struct EvaluateOptions {
  // Round every intermediate to its dtype, as a device without fusion stores it; otherwise float
  // values stay f64, but for what a node is told to round: a cast's result, and what nodes read of
  // one with an out_dtype narrower than its operands.
  bool round_intermediates = false;
};

// Outputs of one run in the order of graph.outputs, unrounded unless asked. `inputs` are in the
// order of graph.inputs and of their types. `states` is read and, after success, updated. nullopt
// where anything was reported.
std::optional<std::vector<Tensor>> evaluate_entry(const Module& module, const Graph& graph,
                                                  const std::vector<Tensor>& inputs,
                                                  StateValues& states,
                                                  const EvaluateOptions& options,
                                                  Diagnostics& diagnostics);

}  // namespace rlx
