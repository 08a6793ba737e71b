// SPDX-License-Identifier: Apache-2.0
// The table of the kernels that compute convolutions. Fusion, the choice of layouts and the
// lowering ask it alike, so that what the first two prepare is what the last one takes.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "compiler/ops/vision/conv_lower.h"

namespace rlx {

// The order in which a kernel reads filters of several taps and channels.
enum class FilterOrder : uint8_t { AsTheyAre, ChannelsLast, FiltersLast };

// What a kernel wants of its operands' layouts.
struct ConvLayouts {
  bool y_channels_last = false;  // writes y so
  bool adds_residual = false;    // at no cost worth a pass over it
  bool x_channels_last = false;  // reads x so
  FilterOrder filters = FilterOrder::AsTheyAre;
  // Why it cannot write there as it stands; empty where it can.
  std::string (*place_refusal)(const TensorRef& place) = nullptr;
  bool operator==(const ConvLayouts&) const = default;
};

struct ConvOffer : Offer<ConvProblem> {
  ConvLayouts layouts;
  // Where microseconds() is what the step takes among others: by itself, as other tables estimate.
  double (*alone_microseconds)(const OfferContext& at, const ConvProblem& problem) = nullptr;
};

inline bool may_stand_for(const ConvOffer& row, const ConvOffer& other) {
  return row.layouts == other.layouts;
}

std::span<const ConvOffer> conv_offers();

// The layouts of the kernel that a conv node gets; nullopt for other nodes, and where no row of the
// table takes the node.
std::optional<ConvLayouts> conv_layouts(const OfferContext& at, const Graph& graph,
                                        const Node& node);

// How long that kernel takes by itself, by the device's model; nullopt where no row takes the node.
std::optional<double> conv_node_microseconds(const OfferContext& at, const Graph& graph,
                                             const Node& node);

// Whether a conv node's kernel reads and writes channels last where its neighbours do, without a
// gain of its own that copies would be worth.
bool conv_follows_channels_last(const OfferContext& at, const Graph& graph, const Node& node);

// OpDef::place_refusal of conv.
std::string conv_place_refusal(const LoweringState& state, const Node& node,
                               const TensorRef& place);

// Emits the dispatches of a convolution whose y is not empty.
bool lower_convolution(LowerContext& ctx, Convolution conv);

}  // namespace rlx
