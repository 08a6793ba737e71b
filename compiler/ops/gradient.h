// SPDX-License-Identifier: Apache-2.0
// What an operator's gradient rule sees: its node, the gradients that have reached the outputs, and
// which inputs want theirs.
#pragma once

#include "compiler/ops/op_def.h"

namespace rlx {

// Nodes that a rule emits stand at the end of the graph. A value's gradient has its type.
class GradientContext : private NodeCopy, public NodeContext, public NodeBuilder {
 public:
  // gradients: of the node's outputs, where any has reached one. wanted: by input.
  GradientContext(const OpDef& op, Module& module, Graph& graph, NodeId id,
                  std::vector<std::optional<ValueId>> gradients, std::vector<bool> wanted,
                  Diagnostics& diagnostics);

  [[nodiscard]] ValueId input(size_t i) const { return node().inputs.at(i).value(); }
  [[nodiscard]] ValueId output(size_t i) const { return node().outputs.at(i); }
  // Input i is there and its gradient is asked for.
  [[nodiscard]] bool wants(size_t i) const { return i < wanted_.size() && wanted_[i]; }
  [[nodiscard]] bool has_gradient(size_t output) const;
  // Of an output; zeros where none has reached it.
  ValueId gradient(size_t output = 0);
  // The gradient of input i, of its shape or of what it was broadcast to, and of any float type.
  // Nothing where the input does not want it.
  void give(size_t input, ValueId gradient);
  [[nodiscard]] const std::vector<std::optional<ValueId>>& given() const { return given_; }

  // The node's attributes and others instead or besides.
  [[nodiscard]] Attributes attributes(Attributes others = {}) const;

 private:
  std::vector<std::optional<ValueId>> gradients_;
  std::vector<bool> wanted_;
  std::vector<std::optional<ValueId>> given_;
};

// The rule of an op whose result steps, or is none of numbers: no gradient passes.
bool no_gradient(GradientContext& ctx);

}  // namespace rlx
