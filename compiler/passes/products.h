// SPDX-License-Identifier: Apache-2.0
// Matrix products as passes see them, and what several passes do with nodes.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace rlx {

// y = act(x * w + bias) + residual, from a matmul or fused_matmul_bias_act node with a matrix w.
struct ProductNode {
  ValueId x{};
  ValueId w{};
  std::optional<ValueId> bias;
  std::optional<ValueId> residual;
  bool rows = false;      // w is [N, K], else [K, N]
  Attributes activation;  // activation and its parameters as written; empty: none
};
// nullopt for other nodes, products with a transposed x or of another dtype than x's, and products
// of tensors w.
std::optional<ProductNode> product_of(const Graph& graph, const Node& node);

// True for a node of elements by themselves, wherever they stand.
bool is_scalar_node(const Node& node);

// The input whose lines along the last dim a node computes each for itself, with vectors or a
// matrix that are the same for all.
std::optional<size_t> line_input(const Graph& graph, const Node& node);

// The lines of a product's x: all its elements over the last dim.
Dim line_count(const Graph& graph, ValueId x);

// Adds a node named after `stem` before `position`, with one output, and infers it.
ValueId add_node_before(Graph& graph, NodeId position, const std::string& op,
                        const std::string& stem, std::vector<std::optional<ValueId>> inputs,
                        Attributes attributes);

// True for an activation with one operand, whose attributes a product may have as well.
bool activation_fits(const Node& node);

// The only reader of a value that is no graph output, or nullopt.
std::optional<NodeId> sole_reader(const Graph& graph, ValueId id);

// The node that makes a value, or nullptr.
const Node* producer_of(const Graph& graph, ValueId id);

// Moves the nodes that read what `id` makes, or what these make in turn, and stand before it, right
// behind it; they keep their order.
void move_readers_behind(Graph& graph, NodeId id);

// Lets a product read its weights [K, N] as rows [N, K]: weights of the model are stored so.
void turn_to_rows(Module& module, Graph& graph, NodeId product, Diagnostics& diagnostics);

}  // namespace rlx
