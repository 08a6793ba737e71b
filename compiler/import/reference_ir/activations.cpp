// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/reference_ir/activations.h"

#include <algorithm>

namespace rlx::reference_ir {
namespace {

// In the order of kActivationKinds.
constexpr std::array<std::string_view, kActivationKinds.size()> kOps = {
    "gelu",       "gelu_tanh",    "silu",  "relu",     "sigmoid",    "tanh",     "exp", "log",
    "sqrt",       "rsqrt",        "neg",   "abs",      "sin",        "cos",      "tan", "atan",
    "reciprocal", "round",        "floor", "ceil",     "sign",       "softplus", "elu", "erf",
    "hard_swish", "hard_sigmoid", "mish",  "softsign", "log_sigmoid"};

}  // namespace

Activation activation_of(const std::string& kind) {
  const auto found = std::ranges::find(kActivationKinds, kind);
  if (found == kActivationKinds.end()) return {};
  const std::string_view op = kOps.at(static_cast<size_t>(found - kActivationKinds.begin()));
  if (op == "hard_sigmoid") return {op, {{"alpha", 1.0 / 6.0}, {"beta", 0.5}}};
  return {op, {}};
}

ValueId activate(AliasNode& node, ValueId x, const std::string& kind) {
  if (kind == "None") return x;
  Activation activation = activation_of(kind);
  return node.emit(activation.op, {x}, std::move(activation.attributes));
}

}  // namespace rlx::reference_ir
