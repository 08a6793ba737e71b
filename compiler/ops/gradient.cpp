// SPDX-License-Identifier: Apache-2.0
// What an operator's gradient rule sees.
#include "compiler/ops/gradient.h"

#include <utility>

#include "compiler/support/check.h"

namespace rlx {

GradientContext::GradientContext(const OpDef& op, Module& module, Graph& graph, NodeId id,
                                 std::vector<std::optional<ValueId>> gradients,
                                 std::vector<bool> wanted, Diagnostics& diagnostics)
    : NodeCopy{graph.node(id)},
      NodeContext(op, original, diagnostics),
      NodeBuilder(module, graph, {.stem = original.name + ".grad", .node = id}),
      gradients_(std::move(gradients)),
      wanted_(std::move(wanted)),
      given_(original.inputs.size()) {}

bool GradientContext::has_gradient(size_t output) const {
  return output < gradients_.size() && gradients_[output].has_value();
}

ValueId GradientContext::gradient(size_t output) {
  if (!has_gradient(output)) return filled(type(this->output(output)), 0);
  return *gradients_[output];
}

void GradientContext::give(size_t input, ValueId gradient) {
  if (!wants(input)) return;
  const TensorType wanted = type(this->input(input));
  RLX_CHECK(!given_.at(input).has_value(), "two gradients of one input of " + node().name);
  given_[input] = cast(sum_to(gradient, wanted.shape), wanted.dtype);
}

Attributes GradientContext::attributes(Attributes others) const {
  for (const auto& [name, value] : node().attributes) others.try_emplace(name, value);
  return others;
}

bool no_gradient(GradientContext& /*ctx*/) {
  return true;
}

}  // namespace rlx
