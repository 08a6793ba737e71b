// SPDX-License-Identifier: Apache-2.0
// A scalar op with several readers, again in front of each that can compute it itself: halves that
// are widened, what a backward pass reads of a forward one. Reading its operands once more then
// moves fewer bytes than writing its result and reading that.
#include <algorithm>

#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/chain.h"
#include "compiler/passes/pass.h"
#include "compiler/support/blocks.h"

namespace rlx {
namespace {

// Readers of one node that get a copy of their own; it bounds how often a chain of such nodes is
// computed.
constexpr size_t kMostCopies = 4;
// What a step takes before it moves a byte: up to here a step less is worth any bytes.
constexpr uint64_t kFewBytes = uint64_t{64} << 10;
// Instructions of one element of what is repeated: a cast between floats, a sum.
constexpr uint64_t kMostRepeatedCost = 64;

uint64_t bytes_of(const Graph& graph, ValueId id) {
  const TensorType& type = graph.value(id).type;
  return static_cast<uint64_t>(element_count(type.shape).bound()) * element_bytes(type.dtype);
}

bool can_repeat(const Graph& graph, const Node& node) {
  const std::vector<RegionStep> steps = chain_of(graph, node);
  return node.outputs.size() == 1 && !graph.is_output(node.outputs[0]) &&
         has_chain_types(graph, node) && cost_of(graph, steps, node.inputs) <= kMostRepeatedCost &&
         std::none_of(steps.begin(), steps.end(), [](const RegionStep& step) {
           return is_positional(step.op) || reads_index(step.op) || draws_random(step.op);
         });
}

// What a later pass joins the node into, were it the only reader of `value`.
bool joins(const Graph& graph, const Node& reader, ValueId value) {
  const Shape& shape = graph.value(value).type.shape;
  if (is_elementwise(reader)) {
    return has_chain_types(graph, reader) && graph.value(reader.outputs[0]).type.shape == shape;
  }
  return is_reduction(graph, reader) && reader.inputs[0] == value;
}

std::vector<NodeId> distinct_readers(const Graph& graph, ValueId value) {
  std::vector<NodeId> readers = graph.readers(value);
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  return readers;
}

// Bytes of the node's operands that the reader does not read already.
uint64_t new_bytes(const Graph& graph, const Node& node, const Node& reader) {
  uint64_t bytes = 0;
  std::vector<ValueId> seen;
  for (const std::optional<ValueId>& input : node.inputs) {
    const bool known =
        std::find(seen.begin(), seen.end(), *input) != seen.end() ||
        std::find(reader.inputs.begin(), reader.inputs.end(), input) != reader.inputs.end();
    if (!known) bytes += bytes_of(graph, *input);
    seen.push_back(*input);
  }
  return bytes;
}

// The readers that get copies; none where the result moves no more bytes than they would, unless it
// is small and nobody else reads it.
std::vector<NodeId> readers_to_serve(const Graph& graph, const Node& node) {
  const ValueId value = node.outputs[0];
  const std::vector<NodeId> readers = distinct_readers(graph, value);
  std::vector<NodeId> served;
  std::copy_if(readers.begin(), readers.end(), std::back_inserter(served),
               [&](NodeId id) { return joins(graph, graph.node(id), value); });
  const bool all = served.size() == readers.size();
  if (readers.size() < 2 || served.empty() || served.size() > kMostCopies) return {};
  const uint64_t result = bytes_of(graph, value);
  const uint64_t operands = new_bytes(graph, node, {});
  if (all && result <= kFewBytes) return served;
  // Operands live until the last reader: no more than the result would.
  if (operands > result) return {};
  uint64_t kept = result * served.size();
  uint64_t repeated = 0;
  if (all) kept += result + operands;
  for (const NodeId reader : served) repeated += new_bytes(graph, node, graph.node(reader));
  return repeated < kept ? served : std::vector<NodeId>{};
}

void serve(Graph& graph, NodeId id, NodeId reader) {
  Node copy = graph.node(id);
  const ValueId value = copy.outputs[0];
  const std::string name = graph.fresh_name(copy.name + ".again");
  copy.name = name;
  copy.outputs = {graph.add_value(
      {.name = name, .type = graph.value(value).type, .weight = {}, .state = {}, .producer = {}})};
  const ValueId again = copy.outputs[0];
  graph.insert_node_before(reader, std::move(copy));
  graph.change_node(reader, [value, again](Node& node) {
    std::replace(node.inputs.begin(), node.inputs.end(), std::optional(value),
                 std::optional(again));
  });
}

}  // namespace

size_t repeat_elementwise(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    // Readers first: what they repeat has more readers then.
    const std::vector<NodeId> order(graph.order().rbegin(), graph.order().rend());
    for (const NodeId id : order) {
      const Node& node = graph.node(id);
      if (!is_elementwise(node) || !can_repeat(graph, node)) continue;
      const std::vector<NodeId> served = readers_to_serve(graph, node);
      const bool all = served.size() == distinct_readers(graph, node.outputs[0]).size();
      for (const NodeId reader : served) serve(graph, id, reader);
      if (!served.empty() && all) graph.remove_node(id);
      changed += served.size();
    }
  }
  return changed;
}

}  // namespace rlx
