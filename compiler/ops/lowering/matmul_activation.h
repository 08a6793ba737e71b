// SPDX-License-Identifier: Apache-2.0
// The `activation` attribute of products: a unary op applied to the sum before it is rounded.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/op_def.h"

namespace rlx {

// op empty: no activation. attributes are those of the op itself.
struct Activation {
  std::string op;
  Attributes attributes;

  [[nodiscard]] bool none() const { return op.empty(); }
};

// The attributes of an activation that an op with one may have too.
inline constexpr std::array<std::string_view, 4> kActivationParameters = {"alpha", "beta", "min",
                                                                          "max"};

// Reads `activation` and, where the OpDef has them, its parameters. Reports a name that is no
// unary float op, a parameter that the op does not take and one that it needs but cannot be given
// here.
std::optional<Activation> read_activation(NodeContext& ctx, bool with_parameters);

// True where the activation of sums held as `acc` calls functions of lib/math64.
bool calls_double_functions(const Activation& activation, DType acc);

// generated/epilogue.inc for the kernels of lib/product.inc; acc is the dtype that stands for the
// accumulator.
std::string activation_source(const Activation& activation, DType acc);

// Gives a kernel of lib/product.inc the activation's code, where there is an activation.
template <typename Params>
void define_activation(DispatchBuilder<Params>& dispatch, const Activation& activation, DType acc) {
  if (activation.none()) return;
  if (calls_double_functions(activation, acc)) dispatch.define("RLX_DOUBLE", 1);
  dispatch.generated("epilogue.inc", activation_source(activation, acc));
}

// A sum of products with S = sum of |terms| (ops.md 0.5).
struct ProductSums {
  std::vector<double> values;
  std::vector<double> magnitudes;
};
// Applies the activation in f64. Afterwards S bounds the error that the sum's own error leaves
// behind the activation (its slope) and the activation's own tolerance (class transc).
void apply_activation(const Activation& activation, DType dtype, int64_t terms, ProductSums& sums);

}  // namespace rlx
