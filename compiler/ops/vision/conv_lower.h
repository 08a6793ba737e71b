// SPDX-License-Identifier: Apache-2.0
// A convolution with its views, as all its kernels are given it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/matmul_activation.h"
#include "compiler/ops/lowering/offers.h"

namespace rlx {

// y = act(conv(x, w) + bias + residual). All but y may have any strides, y those that
// conv_place_refusal (conv_offers.h) does not refuse; residual has y's shape.
struct Convolution {
  Window window;
  Dim images = 0;
  int64_t groups = 1;
  Dim group_in = 0;
  Dim group_out = 0;
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

// What the table of kernels (conv_offers.h) is asked of.
struct ConvProblem {
  Convolution conv;
  const Graph* graph = nullptr;  // in which node stands
  const Node* node = nullptr;
  // Of an alternate: the pixels of all its images, and it at the largest of its sizes, for which
  // tiles are chosen.
  struct Part {
    Dim pixels;
    Convolution largest;
  };
  std::optional<Part> part = {};

  [[nodiscard]] const Convolution& for_tiles() const { return part ? part->largest : conv; }
};
bool has_free_sizes(const ConvProblem& problem);

// Alternates by the pixels of all images (lowering/alternates.h).
std::optional<Dim> sizing(const ConvProblem& problem);
ConvProblem at_size(const ConvProblem& problem, int64_t most);
ConvProblem for_sizes(const ConvProblem& problem, const ServedSizes& served);

// Those of y.
Dim pixels_of(const Convolution& conv);

// Channels times taps that each element of y adds up.
Dim depth_of(const Convolution& conv);
// At the largest sizes.
StepWork work_of(const Convolution& conv);

// Kernels without matrix units, as rows of the table have them. Their y has planes of dense pixels
// but where said otherwise.
std::string conv_product_refusal(const OfferContext& at, const ConvProblem& problem);
double conv_product_time(const OfferContext& at, const ConvProblem& problem);
bool emit_conv_product(LowerContext& ctx, const ConvProblem& problem);

// A copy of x and a product, whose y is channels last.
std::string conv_side_by_side_refusal(const OfferContext& at, const ConvProblem& problem);
double conv_side_by_side_time(const OfferContext& at, const ConvProblem& problem);
bool emit_conv_side_by_side(LowerContext& ctx, const ConvProblem& problem);

// Up to which staging the patch anew for each is cheaper than a matrix product with K = taps.
inline constexpr int64_t kMostFiltersPerChannel = 4;
std::string conv_depthwise_refusal(const OfferContext& at, const ConvProblem& problem);
double conv_depthwise_bound(const OfferContext& at, const ConvProblem& problem);
bool emit_conv_depthwise(LowerContext& ctx, const ConvProblem& problem);

// The same problem where y stands channels last.
std::string conv_channels_refusal(const OfferContext& at, const ConvProblem& problem);
bool emit_conv_channels(LowerContext& ctx, const ConvProblem& problem);

std::string conv_implicit_refusal(const OfferContext& at, const ConvProblem& problem);
double conv_implicit_time(const OfferContext& at, const ConvProblem& problem);
bool emit_conv_implicit(LowerContext& ctx, const ConvProblem& problem);

// Why they cannot write there as it stands; empty where they can.
std::string planes_place_refusal(const TensorRef& place);
std::string lines_place_refusal(const TensorRef& place);

}  // namespace rlx
