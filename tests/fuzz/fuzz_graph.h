// SPDX-License-Identifier: Apache-2.0
// Graphs of the graph fuzzer: what one is, how its values are known, and how it is checked.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace rlx::test {

// The JSON form of a graph file without weights: {"rlx_graph", "inputs", "nodes", "outputs"}. Every
// input is filled by its name (tests/support/fill.h), so the text alone is a test.
using GraphText = nlohmann::ordered_json;

// A value of a graph as the reference knows it.
struct KnownValue {
  Tensor plain;   // every step in f64
  Tensor stored;  // the same with every step rounded to its dtype, as a device without fusion does
  bool exact = true;  // no step before it rounds: every device gives these bits
  double scale = 0;   // largest magnitude of any float value before it

  // How far a device's element may be from `plain`. What rounding each step moves somewhere in the
  // tensor bounds what it moves elsewhere; accumulation errors follow the scale.
  [[nodiscard]] double bound() const;
};

// One node on known inputs (nullptr: null input). nullopt where the node is refused.
std::optional<std::vector<KnownValue>> evaluate_step(const Node& node,
                                                     const std::vector<const KnownValue*>& inputs,
                                                     const std::vector<TensorType>& types);

// A value that a node may not have: not finite, or so large or so ill-conditioned that a comparison
// says nothing.
bool is_wild(const KnownValue& value);

// Whether the op may take inputs that are not exact: not where a rounding error becomes a jump.
bool is_continuous(const std::string& op);

// A random graph of 1 to `max_nodes` nodes; equal seeds give equal graphs.
GraphText generate_graph(uint64_t seed, int max_nodes);

// Every way of compiling and running the graph against the reference, each plan `repeats` times
// over. Empty: all agree; otherwise what does not. `says_nothing`: set where the reference cannot
// judge the graph, which only shrinking brings about.
std::string check_graph(const GraphText& graph, uint64_t seed, int repeats,
                        bool* says_nothing = nullptr);

// The smallest graph found that still has a fault.
GraphText shrink_graph(GraphText graph, uint64_t seed, int repeats);

}  // namespace rlx::test
