// SPDX-License-Identifier: Apache-2.0
// Activations of the reference IR, which several of its operators name.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "compiler/import/reference_ir/alias.h"

namespace rlx::reference_ir {

inline constexpr std::array<std::string_view, 29> kActivationKinds = {
    "Gelu",      "GeluApprox",  "Silu",  "Relu",     "Sigmoid",   "Tanh",     "Exp", "Log",
    "Sqrt",      "Rsqrt",       "Neg",   "Abs",      "Sin",       "Cos",      "Tan", "Atan",
    "Recip",     "Round",       "Floor", "Ceil",     "Sign",      "Softplus", "Elu", "Erf",
    "HardSwish", "HardSigmoid", "Mish",  "Softsign", "LogSigmoid"};

// The unary operator of a kind, with its attributes; empty: there is none of that name.
struct Activation {
  std::string_view op;
  Attributes attributes;
};
Activation activation_of(const std::string& kind);

ValueId activate(AliasNode& node, ValueId x, const std::string& kind);

}  // namespace rlx::reference_ir
