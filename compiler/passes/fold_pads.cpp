// SPDX-License-Identifier: Apache-2.0
// Zeros around images and sequences that only convolutions, means and sums of windows read, as pads
// of these: all take what lies outside for zeros.
#include <algorithm>
#include <optional>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"

namespace rlx {
namespace {

// Batch and channels stand before the axes of a window.
constexpr size_t kFirstWindowAxis = 2;

Ints node_integers(const Node& node, const char* name) {
  return AttributeReader(*find_op(node.op), node.attributes).integers(name);
}

// Pads of the window's axes: those before them, then those behind; nullopt of other pads.
std::optional<Ints> zero_pads(const Graph& graph, const Node& node) {
  if (node.op != OpId::pad || node_text(node, "mode") != "constant") return std::nullopt;
  const AttributeReader attributes(*find_op(node.op), node.attributes);
  const size_t rank = graph.value(*node.inputs[0]).type.shape.size();
  if (attributes.real("value") != 0 || rank <= kFirstWindowAxis) return std::nullopt;
  const Ints written = node_integers(node, "pads");
  Ints axes;
  for (size_t i = 0; i < rank; ++i) axes.emplace_back(i);
  if (attributes.has("axes")) axes = node_integers(node, "axes");
  const size_t window = rank - kFirstWindowAxis;
  Ints pads(2 * window, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + static_cast<int64_t>(rank) : axes[i];
    const Dim& before = written[i];
    const Dim& behind = written[axes.size() + i];
    if (before.is_free() || behind.is_free()) return std::nullopt;
    if (before == 0 && behind == 0) continue;
    const bool widens = before >= 0 && behind >= 0;
    if (!widens || static_cast<size_t>(axis) < kFirstWindowAxis) return std::nullopt;
    const size_t at = static_cast<size_t>(axis) - kFirstWindowAxis;
    pads[at] = before;
    pads[window + at] = behind;
  }
  return pads;
}

// The pads of a window over both its own and those before it.
std::optional<Ints> joined_pads(const Node& reader, const Ints& more) {
  Ints pads = node_integers(reader, "pads");
  // Written short: none, one for all, one for both ends of each axis.
  if (pads.size() <= 1) pads.assign(more.size(), pads.empty() ? Dim(0) : pads[0]);
  const bool is_symmetric = 2 * pads.size() == more.size();
  for (size_t i = 0; is_symmetric && i < more.size() / 2; ++i) pads.push_back(pads[i]);
  for (size_t i = 0; i < pads.size(); ++i) {
    pads[i] += more[i];
    if (static_cast<double>(pads[i].range().most) > kLargestInt) return std::nullopt;
  }
  return pads;
}

// A sum or a mean that divides by as many elements with the pads as its own. A window all of whose
// elements are pads, and one that ends behind them, are the pool's to refuse or to cut.
bool counts_as_elements(const Node& pool, const Ints& pads) {
  const std::string kind = node_text(pool, "kind");
  if ((kind != "mean" && kind != "sum") || node_flag(pool, "ceil_mode")) return false;
  const Ints own = node_integers(pool, "pads");
  const bool has_own = std::any_of(own.begin(), own.end(), [](const Dim& pad) { return pad != 0; });
  if (has_own && !node_flag(pool, "count_include_pad")) return false;
  const Ints kernel = node_integers(pool, "kernel");
  for (size_t i = 0; i < pads.size(); ++i)
    if (pads[i] >= kernel[i % kernel.size()]) return false;
  return true;
}

// What the reader's pads become; nullopt where it does not take them.
std::optional<Ints> pads_of_reader(const Node& reader, ValueId padded, const Ints& more) {
  const bool reads_once = std::count(reader.inputs.begin(), reader.inputs.end(), padded) == 1;
  if (reader.inputs[0] != padded || !reads_once) return std::nullopt;
  if (reader.op != OpId::conv && reader.op != OpId::pool) return std::nullopt;
  const std::optional<Ints> pads = joined_pads(reader, more);
  if (pads && reader.op == OpId::pool && !counts_as_elements(reader, *pads)) return std::nullopt;
  return pads;
}

bool fold(Graph& graph, NodeId id) {
  const Node pad = graph.node(id);
  const std::optional<Ints> more = zero_pads(graph, pad);
  if (!more || graph.is_output(pad.outputs[0])) return false;
  const std::vector<NodeId> readers = graph.readers(pad.outputs[0]);
  std::vector<Ints> pads;
  for (const NodeId reader : readers) {
    std::optional<Ints> joined = pads_of_reader(graph.node(reader), pad.outputs[0], *more);
    if (!joined) return false;
    pads.push_back(std::move(*joined));
  }
  for (size_t i = 0; i < readers.size(); ++i) {
    graph.change_node(readers[i], [&](Node& reader) {
      reader.inputs[0] = pad.inputs[0];
      reader.attributes["pads"] = pads[i];
      if (reader.op == OpId::pool) reader.attributes["count_include_pad"] = true;
    });
  }
  graph.remove_node(id);
  return true;
}

}  // namespace

size_t fold_pads(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    // From the last on: pads of pads meet their readers.
    for (size_t i = order.size(); i-- > 0;) {
      if (fold(graph, order[i])) ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
