// SPDX-License-Identifier: Apache-2.0
// From a convolution to dispatches of `matmul_coop`.
#include "compiler/ops/vision/conv_coop.h"

#include <set>

#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/product/matmul_coop_lower.h"
#include "compiler/ops/product/matmul_coop_tiles.h"
#include "compiler/ops/product/matmul_emit.h"
#include "compiler/ops/vision/conv_mma.h"
#include "compiler/ops/vision/conv_offers.h"
#include "compiler/ops/vision/conv_rows.h"

namespace rlx {
namespace {

// Filters [Co, H, W, C] without gaps.
TensorRef packed_filters(LowerContext& ctx, const TensorRef& w) {
  const TensorRef filters = ctx.channels_last(w);
  if (pixel_pitch(filters) == w.shape()[1]) return filters;
  return ctx.state().materialize_as(filters, channels_last_strides(w.shape()), "channels_last",
                                    ctx.new_step());
}

// The pixels of a channels-last tensor as lines of a matrix.
TensorRef as_lines(const TensorRef& ref) {
  const Shape& shape = ref.shape();
  TensorRef lines = ref;
  lines.type.shape = {element_count(shape) / shape[1], shape[1]};
  lines.strides = {pixel_pitch(ref).value(), 1};
  return lines;
}

AddedOperand added_lines(const TensorRef& ref) {
  const TensorRef lines = as_lines(ref);
  return {.ref = lines, .batch = {}, .m = lines.strides[0], .n = 1};
}

// ---- neighbours ----

bool is_elementwise(const Node& node) {
  return node.op == "ew_region" || find_op(node.op)->scalar != nullptr;
}

// Whether the node is a convolution of several groups whose kernel writes [N, C, H, W].
bool writes_planes(const OfferContext& at, const Graph& graph, const Node& node) {
  const auto groups = node.attributes.find("groups");
  if (node.op != "conv" || groups == node.attributes.end() ||
      std::get<int64_t>(groups->second) == 1 || conv_follows_channels_last(at, graph, node))
    return false;
  const std::optional<ConvLayouts> layouts = conv_layouts(at, graph, node);
  return layouts && !layouts->y_channels_last;
}

// Whether a search that goes from node to node, through elementwise ones, meets planes.
// neighbours(id) are the nodes at a value's other end.
template <typename Neighbours, typename Values>
bool meets_planes(const OfferContext& at, const Graph& graph, ValueId from,
                  const Neighbours& neighbours, const Values& values) {
  std::vector<ValueId> open = {from};
  std::set<ValueId> seen = {from};
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    for (const NodeId id : neighbours(value)) {
      const Node& node = graph.node(id);
      if (writes_planes(at, graph, node)) return true;
      if (!is_elementwise(node)) continue;
      for (const ValueId next : values(node)) {
        if (seen.insert(next).second) open.push_back(next);
      }
    }
  }
  return false;
}

// True where elementwise nodes at most lie between the node and a convolution of several groups
// whose kernel writes [N, C, H, W]: for products of single pixels, that order of both saves more
// than cooperative matrices would.
bool is_beside_planes(const OfferContext& at, const Graph& graph, const Node& node) {
  const auto producer = [&graph](ValueId id) {
    const std::optional<NodeId> made_by = graph.value(id).producer;
    return made_by ? std::vector<NodeId>{*made_by} : std::vector<NodeId>{};
  };
  const auto readers = [&graph](ValueId id) { return graph.readers(id); };
  const auto inputs = [](const Node& at) {
    std::vector<ValueId> values;
    for (const std::optional<ValueId>& input : at.inputs) {
      if (input) values.push_back(*input);
    }
    return values;
  };
  const auto outputs = [](const Node& at) { return at.outputs; };
  return meets_planes(at, graph, *node.inputs[0], producer, inputs) ||
         meets_planes(at, graph, node.outputs[0], readers, outputs);
}

// ---- the rows ----

// Every place of the padded image.
bool counts_in_32_bits(const Window& window) {
  for (size_t d = 0; d < kSpatialDims; ++d) {
    if ((window.in[d] + window.begin[d] + window.end[d]).range().most > kRowLimit) return false;
  }
  return true;
}

// Where cooperative matrices would cost more than they save: beside convolutions of several groups
// whose kernels write [N, C, H, W].
std::string dense_refusal(const OfferContext& at, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  const bool copies_little = !conv.window.is_pointwise() && has_channel_pieces(conv);
  return conv.window.rank == 2 && !copies_little &&
                 is_beside_planes(at, *problem.graph, *problem.node)
             ? "beside a convolution of several groups in planes"
             : "";
}

// Products of f32 in parts are six, and most of a bundle's are zeros.
std::string parts_refusal(const OfferContext& at, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  if (conv.x.dtype() != DType::f32 || conv.groups == 1) return {};
  if (std::string refusal = conv_groups_refusal(conv); !refusal.empty()) return refusal;
  return conv_implicit_time(at, problem) < conv_coop_time(at, problem)
             ? "groups of f32 whose bundles multiply zeros for longer"
             : "";
}

// What both forms ask.
std::string coop_refusal(const OfferContext& at, const ConvProblem& problem) {
  const Convolution& conv = problem.conv;
  if (!coop_multiplies(at, conv.x.dtype()))
    return "operands of " + std::string(name_of(conv.x.dtype()));
  if (std::string refusal = conv_matrix_refusal(conv); !refusal.empty()) return refusal;
  if (!counts_in_32_bits(conv.window)) return "places that it does not count";
  return conv.groups == 1 ? dense_refusal(at, problem) : parts_refusal(at, problem);
}

// The product of one bundle of groups becomes a batch of all of them.
void add_bundles(Product& product, const Convolution& conv, int64_t bundled) {
  const Dim filters = product.n;
  product.batch = {conv.groups / bundled};
  product.a.batch = {conv.group_in * bundled};
  product.b.batch = {filters * depth_of(conv)};
  if (product.bias) product.bias->batch = {filters * product.bias->n};
  if (product.residual) product.residual->batch = {filters};
  product.y_lines = ProductLines{.batch = {filters}, .line = product.y.strides[0]};
  product.note += ", groups in bundles of " + std::to_string(bundled);
}

// A product of rows, which its own table lowers.
bool is_pixelwise(const Convolution& conv) {
  return conv.groups == 1 && has_channel_pieces(conv) && conv.window.is_pointwise();
}

bool emit(LowerContext& ctx, const ConvProblem& problem) {
  const Convolution conv = of_images(problem.conv);
  const int64_t bundled = bundled_groups(conv);
  const bool is_bundled = conv.groups > 1;
  const bool in_pieces = is_bundled || has_channel_pieces(conv);
  const int64_t own_depth = depth_of(conv);
  const int64_t filters = conv.group_out * bundled;
  TensorRef y = conv.y;
  if (!pixel_pitch(y)) {
    y = ctx.scratch(y.type, "channels_last");
    y.strides = channels_last_strides(y.shape());
  }
  Product product{.batch = {},
                  .m = problem.part ? problem.part->pixels : pixels_of(conv),
                  .n = filters,
                  .k = own_depth * bundled,
                  .a = {.ref = in_pieces ? ctx.channels_last(conv.x) : conv.x},
                  .b = {.ref = packed_filters(ctx, conv.w), .line = own_depth, .depth = 1},
                  .bias = {},
                  .residual = {},
                  .y = as_lines(y),
                  .activation = conv.activation,
                  .residual_first = true,
                  .note = "channels last"};
  if (product.y.strides[0] != filters)
    product.y_lines = ProductLines{.batch = {}, .line = product.y.strides[0]};
  if (conv.bias) product.bias = AddedOperand{.ref = *conv.bias, .m = 0, .n = conv.bias->strides[0]};
  if (conv.residual) product.residual = added_lines(ctx.channels_last(*conv.residual));
  if (is_bundled) {
    add_bundles(product, conv, bundled);
    emit_coop(ctx, product,
              {.window = conv.window,
               .in_pieces = true,
               .bundled = bundled,
               .is_part = problem.part.has_value()});
  } else if (is_pixelwise(conv)) {
    product.a.ref = as_lines(product.a.ref);
    product.a.line = product.a.ref.strides[0];
    product.a.depth = 1;
    product.note += ", 1x1";
    // Other kernels than matmul_coop add the residual behind the activation.
    product.residual_first = conv.residual && !conv.activation.none();
    if (product.residual_first) {
      emit_coop(ctx, FusedProduct{product});
    } else if (!lower_product(ctx, product)) {
      return false;
    }
  } else {
    emit_coop(ctx, product,
              {.window = conv.window, .in_pieces = in_pieces, .is_part = problem.part.has_value()});
  }
  if (y.buffer != conv.y.buffer) ctx.copy(y, conv.y);
  return true;
}

}  // namespace

std::string conv_pieces_refusal(const OfferContext& at, const ConvProblem& problem) {
  std::string refusal = coop_refusal(at, problem);
  if (refusal.empty()) refusal = conv_groups_refusal(problem.conv);
  return refusal.empty() ? conv_rows_refusal(at, problem, conv_coop_time(at, problem)) : refusal;
}

std::string conv_elements_refusal(const OfferContext& at, const ConvProblem& problem) {
  if (problem.conv.groups != 1) return "several groups";
  if (has_channel_pieces(problem.conv)) return "channels in whole 16-byte pieces";
  const std::string refusal = coop_refusal(at, problem);
  return refusal.empty() ? conv_rows_refusal(at, problem, conv_coop_time(at, problem)) : refusal;
}

std::string conv_coop_place_refusal(const TensorRef& place) {
  const std::optional<Dim> pitch = pixel_pitch(place);
  if (!pitch) return "cooperative matrices write images channels last";
  const int64_t vector_bytes = kVectorElements * element_bytes(place.dtype());
  const bool in_vectors = place.shape()[1].divides_by(kVectorElements);
  const bool aligned =
      pitch->divides_by(kVectorElements) && place.offset_bytes.divides_by(vector_bytes);
  return in_vectors && !aligned ? "cooperative matrices write aligned vectors" : "";
}

namespace {

CoopWindows windows_of(const Convolution& conv) {
  const int64_t bundled = bundled_groups(conv);
  return {.dtype = conv.x.dtype(),
          .m = pixels_of(conv),
          .n = conv.group_out * bundled,
          .k = depth_of(conv) * bundled,
          .bundles = conv.groups / bundled};
}

}  // namespace

double conv_coop_time(const OfferContext& at, const ConvProblem& problem) {
  return window_coop_time(at, windows_of(problem.for_tiles()));
}

double conv_coop_time_of(const OfferContext& at, const ConvProblem& largest,
                         const ConvProblem& problem) {
  return window_coop_time_of(at, windows_of(largest.conv), windows_of(problem.conv));
}

bool is_coop_product(const ConvProblem& problem) {
  return is_pixelwise(of_images(problem.conv));
}

bool emit_conv_pieces(LowerContext& ctx, const ConvProblem& problem) {
  return emit(ctx, problem);
}

bool emit_conv_elements(LowerContext& ctx, const ConvProblem& problem) {
  return emit(ctx, problem);
}

}  // namespace rlx
