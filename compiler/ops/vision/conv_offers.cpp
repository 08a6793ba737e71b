// SPDX-License-Identifier: Apache-2.0
// The rows of the table of convolutions.
#include "compiler/ops/vision/conv_offers.h"

#include <algorithm>
#include <array>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/product/matmul_lanes_lower.h"
#include "compiler/ops/vision/conv_coop.h"
#include "compiler/ops/vision/conv_dispatch.h"
#include "compiler/ops/vision/conv_lanes.h"
#include "compiler/ops/vision/conv_mma.h"
#include "compiler/ops/vision/conv_wgmma.h"

namespace rlx {
namespace {

std::string channels_place_refusal(const TensorRef& place) {
  const bool fits =
      has_channel_vectors(place) && place.offset_bytes.divides_by(channel_vector_bytes(place));
  return fits ? "" : "conv writes aligned vectors of channels here";
}

bool by_table_of_products(const ConvProblem&) {
  return true;
}

constexpr ConvLayouts kPlanes = {.place_refusal = planes_place_refusal};

constexpr std::array kConvOffers = {
    // Matrix units take what they can: fusion and layouts have made the graph ready for them.
    ConvOffer{{.kernel = KernelId::conv_mma,
               .form = "ring",
               .rank = 0,
               .refusal = conv_ring_refusal,
               .microseconds = conv_ring_time,
               .emit = emit_conv_ring,
               .takes_free_sizes = true,
               .microseconds_of = conv_ring_time_of},
              {.y_channels_last = true,
               .adds_residual = true,
               .x_channels_last = true,
               .filters = FilterOrder::ChannelsLast,
               .place_refusal = conv_mma_place_refusal},
              conv_ring_alone_time},
    ConvOffer{{.kernel = KernelId::matmul_wgmma,
               .form = "window",
               .rank = 0,
               .refusal = conv_wgmma_refusal,
               .microseconds = conv_wgmma_time,
               .emit = emit_conv_wgmma,
               .takes_free_sizes = true,
               .microseconds_of = conv_wgmma_time_of},
              {.y_channels_last = true,
               .adds_residual = true,
               .x_channels_last = true,
               .filters = FilterOrder::ChannelsLast,
               .place_refusal = conv_mma_place_refusal}},
    ConvOffer{
        {.kernel = KernelId::conv_mma,
         .form = "patch",
         .rank = 0,
         .estimate = Estimate::Bound,
         .refusal = conv_patch_refusal,
         .microseconds = conv_patch_bound,
         .emit = emit_conv_patch,
         .takes_free_sizes = true},
        {.y_channels_last = true, .adds_residual = true, .place_refusal = conv_mma_place_refusal}},
    ConvOffer{{.kernel = KernelId::matmul_coop,
               .form = "pieces",
               .rank = 0,
               .refusal = conv_pieces_refusal,
               .microseconds = conv_coop_time,
               .emit = emit_conv_pieces,
               .takes_free_sizes = true,
               .microseconds_of = conv_coop_time_of,
               .is_elsewhere = is_coop_product},
              {.y_channels_last = true,
               .adds_residual = true,
               .x_channels_last = true,
               .filters = FilterOrder::ChannelsLast,
               .place_refusal = conv_coop_place_refusal}},
    ConvOffer{{.kernel = KernelId::matmul_coop,
               .form = "elements",
               .rank = 0,
               .refusal = conv_elements_refusal,
               .microseconds = conv_coop_time,
               .emit = emit_conv_elements,
               .takes_free_sizes = true,
               .microseconds_of = conv_coop_time_of},
              {.y_channels_last = true,
               .adds_residual = true,
               .filters = FilterOrder::ChannelsLast,
               .place_refusal = conv_coop_place_refusal}},
    // On a CPU lanes take what is not depthwise: their tiles need neither copies nor barriers.
    ConvOffer{{.kernel = KernelId::matmul_lanes,
               .form = "pieces",
               .rank = 0,
               .refusal = conv_lane_pieces_refusal,
               .microseconds = conv_lanes_time,
               .emit = emit_conv_lanes,
               .is_for = is_for_lanes,
               .takes_free_sizes = true},
              {.y_channels_last = true,
               .adds_residual = true,
               .x_channels_last = true,
               .filters = FilterOrder::FiltersLast,
               .place_refusal = lines_place_refusal}},
    ConvOffer{{.kernel = KernelId::matmul_lanes,
               .form = "elements",
               .rank = 0,
               .refusal = conv_lane_elements_refusal,
               .microseconds = conv_lanes_time,
               .emit = emit_conv_lanes,
               .is_for = is_for_lanes,
               .takes_free_sizes = true},
              {.y_channels_last = true,
               .adds_residual = true,
               .filters = FilterOrder::FiltersLast,
               .place_refusal = lines_place_refusal}},
    // A product, by whatever computes it best, does without windows.
    ConvOffer{{.kernel = {},
               .form = "product",
               .rank = 1,
               .refusal = conv_product_refusal,
               .microseconds = conv_product_time,
               .emit = emit_conv_product,
               .takes_free_sizes = true,
               .is_elsewhere = by_table_of_products},
              kPlanes},
    // So do windows that cut an image into patches, but for a copy.
    ConvOffer{{.kernel = {},
               .form = "side_by_side",
               .rank = 1,
               .refusal = conv_side_by_side_refusal,
               .microseconds = conv_side_by_side_time,
               .emit = emit_conv_side_by_side,
               .takes_free_sizes = true,
               .is_elsewhere = by_table_of_products},
              {.y_channels_last = true, .place_refusal = lines_place_refusal}},
    // Tiles of a product would stay mostly empty. Where its neighbours are channels last, so is it.
    ConvOffer{{.kernel = KernelId::conv_depthwise_channels,
               .rank = 2,
               .estimate = Estimate::Bound,
               .refusal = conv_channels_refusal,
               .microseconds = conv_depthwise_bound,
               .emit = emit_conv_channels,
               .takes_free_sizes = true},
              {.place_refusal = channels_place_refusal}},
    ConvOffer{{.kernel = KernelId::conv_depthwise,
               .rank = 2,
               .estimate = Estimate::Bound,
               .refusal = conv_depthwise_refusal,
               .microseconds = conv_depthwise_bound,
               .emit = emit_conv_depthwise,
               .takes_free_sizes = true},
              kPlanes},
    // Takes everything.
    ConvOffer{{.kernel = KernelId::conv,
               .rank = 3,
               .refusal = conv_implicit_refusal,
               .microseconds = conv_implicit_time,
               .emit = emit_conv_implicit,
               .takes_free_sizes = true},
              kPlanes},
};

// The value of which this one is a view, through others.
ValueId viewed(const Graph& graph, ValueId id) {
  while (const std::optional<NodeId> producer = graph.value(id).producer) {
    const Node& node = graph.node(*producer);
    if (node.op != OpId::split && find_op(node.op)->view_kind == ViewKind::None) break;
    id = *node.inputs[0];
  }
  return id;
}

// Whether another convolution of one filter per channel computes of the same value what is joined
// with this one's result. They run at once where each has a buffer of its own: places between each
// other's bytes make them wait, for longer than a copy of all of them takes.
bool runs_beside_another(const Graph& graph, const Node& node) {
  const std::vector<NodeId> readers = graph.readers(node.outputs[0]);
  const ValueId x = viewed(graph, *node.inputs[0]);
  return std::any_of(readers.begin(), readers.end(), [&](NodeId id) {
    const Node& reader = graph.node(id);
    if (reader.op != OpId::concat) return false;
    return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](const auto& part) {
      const std::optional<NodeId> made_by = graph.value(*part).producer;
      if (part == node.outputs[0] || !made_by) return false;
      const Node& other = graph.node(*made_by);
      return other.op == OpId::conv && graph.value(*other.inputs[1]).type.shape[1] == 1 &&
             viewed(graph, *other.inputs[0]) == x;
    });
  });
}

// The node as the table is asked of it before there are places.
std::optional<ConvProblem> problem_of(const Graph& graph, const Node& node) {
  Diagnostics diagnostics;
  NodeContext ctx(*find_op("conv"), node, diagnostics);
  const auto view = [&graph](ValueId id) { return dense_ref({}, graph.value(id).type); };
  const auto optional_view = [&](size_t input) {
    return ctx.has_input(input) ? std::optional(view(*node.inputs[input])) : std::nullopt;
  };
  const TensorRef x = view(*node.inputs[0]);
  const TensorRef w = view(*node.inputs[1]);
  const std::optional<Window> window = conv_window(ctx, x.shape(), w.shape());
  const std::optional<Activation> activation = read_activation(ctx, true);
  const TensorRef y = view(node.outputs[0]);
  if (!window || !activation || element_count(y.shape()) == 0) return std::nullopt;
  const int64_t groups = ctx.attrs().integer("groups");
  return ConvProblem{.conv = {.window = *window,
                              .images = x.shape()[0],
                              .groups = groups,
                              .group_in = w.shape()[1],
                              .group_out = w.shape()[0] / groups,
                              .x = x,
                              .w = w,
                              .bias = optional_view(2),
                              .residual = optional_view(3),
                              .y = y,
                              .activation = *activation},
                     .graph = &graph,
                     .node = &node};
}

}  // namespace

std::span<const ConvOffer> conv_offers() {
  return kConvOffers;
}

std::optional<ConvLayouts> conv_layouts(const OfferContext& at, const Graph& graph,
                                        const Node& node) {
  if (node.op != "conv") return std::nullopt;
  const std::optional<ConvProblem> problem = problem_of(graph, node);
  if (!problem) return std::nullopt;
  const ConvOffer* row = choose(conv_offers(), at, *problem).row;
  return row == nullptr ? std::nullopt : std::optional(row->layouts);
}

std::optional<double> conv_node_microseconds(const OfferContext& at, const Graph& graph,
                                             const Node& node) {
  const std::optional<ConvProblem> problem = problem_of(graph, node);
  if (!problem) return std::nullopt;
  const auto choice = choose(conv_offers(), at, *problem);
  if (choice.row == nullptr) return std::nullopt;
  const auto alone = choice.row->alone_microseconds;
  return alone == nullptr ? choice.microseconds : alone(at, *problem);
}

bool conv_follows_channels_last(const OfferContext& at, const Graph& graph, const Node& node) {
  if (node.op != "conv" || graph.value(node.outputs[0]).type.shape.size() < 4) return false;
  std::optional<ConvProblem> problem = problem_of(graph, node);
  if (!problem) return false;
  Convolution& conv = problem->conv;
  conv.x.strides = channels_last_strides(conv.x.shape());
  conv.y.strides = channels_last_strides(conv.y.shape());
  if (conv.residual) conv.residual->strides = conv.y.strides;
  const ConvOffer* row = choose(conv_offers(), at, *problem).row;
  return row != nullptr && row->kernel == KernelId::conv_depthwise_channels;
}

std::string conv_place_refusal(const LoweringState& state, const Node& node,
                               const TensorRef& place) {
  const OfferContext at(state.options);
  // The table is asked below with images in planes.
  if (state.stores_channels_last(node.outputs[0]) &&
      conv_follows_channels_last(at, state.graph, node)) {
    if (runs_beside_another(state.graph, node))
      return "conv runs beside others that it is joined with";
    return channels_place_refusal(place);
  }
  const auto layouts = conv_layouts(at, state.graph, node);
  return layouts ? layouts->place_refusal(place) : "no kernel takes the convolution";
}

bool lower_convolution(LowerContext& ctx, Convolution conv) {
  const ConvProblem problem{
      .conv = std::move(conv), .graph = &ctx.state().graph, .node = &ctx.node()};
  return lower_by_offers(ctx, conv_offers(), problem);
}

}  // namespace rlx
