// SPDX-License-Identifier: Apache-2.0
// Lowering of conv: on tensor cores, as a matrix product, by the depthwise kernel or by the
// implicit product.
#pragma once

#include <optional>

#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/matmul_activation.h"

namespace rlx {

// y = act(conv(x, w) + bias + residual). All but y may have any strides, y those that
// conv_place_refusal does not refuse; residual has y's shape.
struct Convolution {
  Window window;
  int64_t images = 0;
  int64_t groups = 1;
  int64_t group_in = 0;
  int64_t group_out = 0;
  TensorRef x;
  TensorRef w;
  std::optional<TensorRef> bias;
  std::optional<TensorRef> residual;
  TensorRef y;
  Activation activation;
};

// The window of a conv node whose x and w have these shapes; reports what does not fit. Infer has
// reported everything already.
std::optional<Window> conv_window(NodeContext& ctx, const Shape& x, const Shape& w);

// OpDef::place_refusal of conv.
std::string conv_place_refusal(const LoweringState& state, const Node& node,
                               const TensorRef& place);

// Emits the dispatches of a convolution whose y is not empty.
bool lower_convolution(LowerContext& ctx, Convolution conv);

}  // namespace rlx
