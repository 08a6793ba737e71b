// SPDX-License-Identifier: Apache-2.0
// Reverse mode over a graph.
#include "compiler/passes/differentiate.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "compiler/ops/gradient.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

// Values that gradients pass: those that follow from what is wanted and that the loss follows from.
class Path {
 public:
  Path(const Graph& graph, ValueId loss, std::span<const ValueId> wanted) : graph_(graph) {
    std::unordered_set<ValueId> follows(wanted.begin(), wanted.end());
    for (const NodeId id : graph.order()) {
      const Node& node = graph.node(id);
      const bool stops = find_op(node.op)->gradient == no_gradient;
      if (!stops && std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& input) {
            return input && follows.contains(*input) && carries(*input);
          }))
        follows.insert(node.outputs.begin(), node.outputs.end());
    }
    std::unordered_set<ValueId> leads = {loss};
    const std::vector<NodeId>& order = graph.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const Node& node = graph.node(*id);
      if (std::none_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId output) { return leads.contains(output); }))
        continue;
      for (const auto& input : node.inputs) {
        if (input) leads.insert(*input);
      }
    }
    for (const ValueId value : follows) {
      if (leads.contains(value) && carries(value)) values_.insert(value);
    }
  }
  [[nodiscard]] bool holds(ValueId value) const { return values_.contains(value); }
  // One of its results and one of its inputs are on the way.
  [[nodiscard]] bool passes(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId output) { return holds(output); }) &&
           std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](const auto& input) { return input && holds(*input); });
  }

 private:
  // Floats; complex numbers too, which no rule takes: their operators are refused.
  [[nodiscard]] bool carries(ValueId value) const {
    const DType dtype = graph_.value(value).type.dtype;
    return is_float(dtype) || dtype == DType::c64;
  }

  const Graph& graph_;
  std::unordered_set<ValueId> values_;
};

bool is_complex(const Graph& graph, const Node& node) {
  const auto complex = [&](ValueId value) { return graph.value(value).type.dtype == DType::c64; };
  return std::any_of(node.outputs.begin(), node.outputs.end(), complex) ||
         std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](const auto& input) { return input && complex(*input); });
}

bool has_rule(const Graph& graph, const Node& node) {
  return find_op(node.op)->gradient != nullptr && !is_complex(graph, node);
}

// Rewrites nodes on the way that have no rule into simpler ones; false where anything was reported.
bool simplify(Module& module, Graph& graph, ValueId& loss, std::span<const ValueId> wanted,
              Diagnostics& diagnostics) {
  for (bool again = true; again;) {
    again = false;
    const Path path(graph, loss, wanted);
    const std::vector<NodeId> order = graph.order();
    for (const NodeId id : order) {
      const Node& node = graph.node(id);
      if (!path.passes(node) || has_rule(graph, node)) continue;
      if (find_op(node.op)->decompose == nullptr) continue;
      // The loss may be what is rewritten: it is found again as the entry's output.
      const auto made = std::find(node.outputs.begin(), node.outputs.end(), loss);
      const bool is_loss = made != node.outputs.end();
      if (is_loss) graph.add_output(loss);
      if (!decompose_node(module, graph, id, diagnostics)) return false;
      if (is_loss) {
        std::vector<ValueId> outputs = graph.outputs();
        loss = outputs.back();
        outputs.pop_back();
        graph.set_outputs(outputs);
      }
      again = again || !graph.contains(id);
    }
  }
  return true;
}

bool report_missing(const Graph& graph, const Path& path, Diagnostics& diagnostics) {
  std::string list;
  SourcePlace place;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!path.passes(node) || has_rule(graph, node)) continue;
    if (list.empty()) place = node.place;
    list += (list.empty() ? "" : ", ") + node.op + " \"" + node.name + "\"" +
            (is_complex(graph, node) ? " of complex numbers" : "");
  }
  if (list.empty()) return true;
  diagnostics.error(DiagCode::UnknownOp, place,
                    "between the loss and what is differentiated stand operators without a "
                    "gradient: " +
                        list,
                    "keep gradients from them by stop_gradient, or write them out by others");
  return false;
}

class Reverse {
 public:
  Reverse(Module& module, Graph& graph, const Path& path, Diagnostics& diagnostics)
      : module_(module), graph_(graph), path_(path), diagnostics_(diagnostics) {}

  void seed(ValueId loss) {
    NodeBuilder builder(module_, graph_, {.stem = graph_.value(loss).name + ".grad"});
    gradients_[loss] = builder.filled(graph_.value(loss).type, 1);
  }

  bool run() {
    const std::vector<NodeId> order = graph_.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (path_.passes(graph_.node(*id)) && !pass(*id)) return false;
    }
    return true;
  }

  [[nodiscard]] std::optional<ValueId> of(ValueId value) const {
    const auto found = gradients_.find(value);
    return found == gradients_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  bool pass(NodeId id) {
    const Node node = graph_.node(id);
    std::vector<std::optional<ValueId>> outputs;
    bool any = false;
    for (const ValueId output : node.outputs) {
      outputs.push_back(of(output));
      any = any || outputs.back();
    }
    if (!any) return true;
    std::vector<bool> wanted;
    for (const auto& input : node.inputs) wanted.push_back(input && path_.holds(*input));
    const OpDef& op = *find_op(node.op);
    GradientContext ctx(op, module_, graph_, id, std::move(outputs), std::move(wanted),
                        diagnostics_);
    bool good = false;
    const std::optional<Dim> read = free_size_read_by([&] { good = op.gradient(ctx); });
    if (read) report_free_size(diagnostics_, node.op, node.name, "its gradient", *read);
    if (!good || read) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (ctx.given()[i]) add(*node.inputs[i], *ctx.given()[i]);
    }
    return true;
  }

  void add(ValueId value, ValueId gradient) {
    const auto [found, is_first] = gradients_.try_emplace(value, gradient);
    if (is_first) return;
    NodeBuilder builder(module_, graph_, {.stem = graph_.value(value).name + ".grad"});
    found->second = builder.emit("add", {found->second, gradient});
  }

  Module& module_;
  Graph& graph_;
  const Path& path_;
  Diagnostics& diagnostics_;
  std::unordered_map<ValueId, ValueId> gradients_;
};

bool check_loss(const Graph& graph, ValueId loss, Diagnostics& diagnostics) {
  const Value& value = graph.value(loss);
  const Shape& shape = value.type.shape;
  const bool one = std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d == 1; });
  if (is_float(value.type.dtype) && one) return true;
  diagnostics.error(
      DiagCode::BadShape, {},
      "the loss \"" + value.name + "\" is " + to_string(value.type) + ", wanted a float scalar",
      "reduce it: reduce_mean or reduce_sum over all axes");
  return false;
}

}  // namespace

std::optional<std::vector<std::optional<ValueId>>> differentiate(Module& module, Graph& graph,
                                                                 ValueId loss,
                                                                 std::span<const ValueId> wanted,
                                                                 Diagnostics& diagnostics) {
  RLX_CHECK(
      std::ranges::all_of(graph.order(), [&](NodeId id) { return graph.node(id).bodies.empty(); }),
      "a graph with bodies is differentiated");
  if (!check_loss(graph, loss, diagnostics)) return std::nullopt;
  if (!simplify(module, graph, loss, wanted, diagnostics)) return std::nullopt;
  const Path path(graph, loss, wanted);
  if (!report_missing(graph, path, diagnostics)) return std::nullopt;
  Reverse reverse(module, graph, path, diagnostics);
  reverse.seed(loss);
  if (!reverse.run()) return std::nullopt;
  std::vector<std::optional<ValueId>> gradients;
  for (const ValueId value : wanted)
    gradients.push_back(path.holds(value) ? reverse.of(value) : std::nullopt);
  return gradients;
}

}  // namespace rlx
