// SPDX-License-Identifier: Apache-2.0
// Graphs of the graph fuzzer: what one is, how its values are known, and how it is checked.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace rlx::test {

// The JSON form of a graph file without weights: {"rlx_graph", "inputs", "nodes", "outputs"}. Every
// input is filled by its name (tests/support/fill.h), so the text alone is a test.
using GraphText = nlohmann::ordered_json;

// A value of a graph as the reference knows it.
struct KnownValue {
  Tensor plain;   // every step in f64, complex numbers as c64 holds them
  Tensor stored;  // the same with every step rounded to its dtype, as a device without fusion does
  bool exact = true;  // no step before it rounds: every device gives these bits
  double scale = 0;   // largest magnitude of any float or complex value before it

  [[nodiscard]] bool rounds() const;  // floats and complex numbers
  // How far a device's element may be from `plain`. What rounding each step moves somewhere in the
  // tensor bounds what it moves elsewhere; accumulation errors follow the scale.
  [[nodiscard]] double bound() const;
};

// The largest magnitude of what rounds in a tensor: of floats, of the parts of complex numbers.
double largest(const Tensor& tensor);

// One node on known inputs (nullptr: null input). nullopt where the node is refused.
std::optional<std::vector<KnownValue>> evaluate_step(const Node& node,
                                                     const std::vector<const KnownValue*>& inputs,
                                                     const std::vector<TensorType>& types);

// A value that a node may not have: not finite, or so large or so ill-conditioned that a comparison
// says nothing.
bool is_wild(const KnownValue& value);

// Whether the op may take inputs that are not exact: not where a rounding error becomes a jump.
bool is_continuous(const std::string& op);

// A random graph of 1 to `max_nodes` nodes, with symbols among its sizes if asked; equal seeds give
// equal graphs.
GraphText generate_graph(uint64_t seed, int max_nodes, bool symbols = false);

// The module at these values of its symbols; nullopt where it is refused.
std::optional<Module> module_of(const GraphText& text, const DimBindings& dims,
                                const FreeDims& free_dims, Diagnostics& diagnostics);

// The ranges of the graph's symbols, as it declares them.
FreeDims ranges_of(const GraphText& text);

// A graph at given values of its symbols, with its inputs and what it makes of them.
struct Prepared {
  Module module;
  std::vector<Tensor> inputs;
  std::vector<KnownValue> wanted;  // of the outputs
};
// nullopt where the graph is refused or says nothing (a shrunk graph may turn wild).
std::optional<Prepared> prepare(const GraphText& text, const DimBindings& dims,
                                Diagnostics& diagnostics);

// The same graph with some of its nodes in branches that the run decides on; nullopt where that is
// refused.
std::optional<Prepared> in_branches(const GraphText& text, Prepared prepared,
                                    Diagnostics& diagnostics);

// What does not agree of the outputs that a run gave; empty: all does.
std::string check_run(const Prepared& prepared, const std::vector<Tensor>& got,
                      const std::string& way);

// Every way of compiling and running the graph against the reference, each plan `repeats` times
// over. Empty: all agree; otherwise what does not. `says_nothing`: set where the reference cannot
// judge the graph, which only shrinking brings about.
std::string check_graph(const GraphText& graph, uint64_t seed, int repeats,
                        bool* says_nothing = nullptr);

// What a check of graphs with symbols has seen.
struct FreeTally {
  size_t plans = 0;             // graphs that were compiled, whole or in part
  size_t refusals = 0;          // nodes that wanted a number and were left out
  size_t bindings = 0;          // runs that were right
  size_t silent = 0;            // bindings where the reference does not judge
  size_t refused_bindings = 0;  // of sizes that no graph has
  size_t same_kernels =
      0;  // plans of one size that have the kernels of the free plan, and its bits
};

// One plan for all values of the graph's symbols, at values up and down in one session, against the
// reference at each. Nodes that want numbers are left out, their outputs become inputs; left out
// too are nodes that no output needs, whose windows and ranges need not fit. Empty: all agree.
std::string check_free_graph(const GraphText& graph, uint64_t seed, FreeTally& tally);

// Whether an output that has elements needs the node.
bool is_needed(const GraphText& text, size_t node);

// With one node less: its outputs become inputs. The graph itself where they cannot.
GraphText with_cut(const GraphText& text, size_t node);

// The smallest graph found that still fails.
GraphText shrink_graph(GraphText graph, const std::function<bool(const GraphText&)>& fails);

}  // namespace rlx::test
