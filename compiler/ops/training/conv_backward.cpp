// SPDX-License-Identifier: Apache-2.0
// conv_backward_input and conv_backward_weight (ops.md 16.6): the first is a transposed
// convolution, the second a product over columns of windows, or a convolution whose windows are all
// of dy.
#include <array>

#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

bool is_of_input(const NodeContext& ctx) {
  return ctx.node().op == "conv_backward_input";
}

// The convolution whose gradient this is.
struct Forward {
  Shape x;
  Shape w;
  Shape y;
  Window window;
  int64_t groups = 1;
};

Shape spatial_of(const Shape& shape) {
  return {shape.begin() + 2, shape.end()};
}

std::optional<Forward> forward_of(NodeContext& ctx, const Shape& first, const Shape& second) {
  const bool of_input = is_of_input(ctx);
  const Ints given = ctx.attrs().integers(of_input ? "x_shape" : "w_shape");
  Forward conv{.x = of_input ? given : first,
               .w = of_input ? second : given,
               .y = of_input ? first : second,
               .window = {},
               .groups = ctx.attrs().integer("groups")};
  const size_t rank = first.size();
  if (rank < 3 || rank > 2 + kSpatialDims || second.size() != rank || given.size() != rank) {
    ctx.fail(DiagCode::BadRank,
             "ranks are " + std::to_string(first.size()) + ", " + std::to_string(second.size()) +
                 " and, of " + (of_input ? "x_shape, " : "w_shape, ") +
                 std::to_string(given.size()) + "; wanted one of 3 to 5 for all");
    return std::nullopt;
  }
  const std::optional<Window> window =
      read_window(ctx, spatial_of(conv.x), spatial_of(conv.w), WindowRounding::Floor);
  if (!window) return std::nullopt;
  conv.window = *window;
  Shape wanted = {conv.x[0], conv.w[0]};
  for (const Dim& size : window->out_shape()) wanted.push_back(size);
  const bool fits = conv.x[1] == conv.w[1] * conv.groups && conv.w[0].divides_by(conv.groups);
  if (!fits || conv.y != wanted) {
    ctx.fail(DiagCode::BadShape, "a convolution of x " + to_string(conv.x) + " and w " +
                                     to_string(conv.w) + " in " + std::to_string(conv.groups) +
                                     " groups does not give dy " + to_string(conv.y) + ", but " +
                                     to_string(wanted));
    return std::nullopt;
  }
  return conv;
}

bool infer_conv_backward(InferContext& ctx) {
  for (size_t i = 0; i < 2; ++i) {
    const bool wide = ctx.dtype(0) == DType::f64;
    if (wide ? ctx.dtype(i) == DType::f64 : is_short_float(ctx.dtype(i))) continue;
    return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(i) + " is " +
                                            std::string(name_of(ctx.dtype(i))) +
                                            ", wanted f32, f16 or bf16, or f64 for both");
  }
  const std::optional<Forward> conv = forward_of(ctx, ctx.shape(0), ctx.shape(1));
  if (!conv) return false;
  ctx.set_output(0, {ctx.dtype(0), is_of_input(ctx) ? conv->x : conv->w});
  return true;
}

// Every product of the forward convolution, by the elements of x, w and y that it ties.
template <typename Visit>
void for_each_product(const Forward& conv, const Visit& visit) {
  const FixedWindow window = numbers_of(conv.window);
  const int64_t channels = conv.x[1];
  const int64_t filters = conv.w[0];
  const int64_t group_in = conv.w[1];
  const int64_t group_out = filters / conv.groups;
  const int64_t images = conv.x[0];
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t filter = 0; filter < filters; ++filter) {
      for (int64_t place = 0; place < window.out_count(); ++place) {
        for (int64_t tap = 0; tap < window.taps(); ++tap) {
          int64_t rest_place = place;
          int64_t rest_tap = tap;
          int64_t pixel = 0;
          int64_t scale = 1;
          bool inside = true;
          for (size_t d = kSpatialDims; d-- > 0;) {
            const int64_t at = rest_place % window.out[d] * window.stride[d] +
                               rest_tap % window.kernel[d] * window.dilation[d] - window.begin[d];
            rest_place /= window.out[d];
            rest_tap /= window.kernel[d];
            inside = inside && at >= 0 && at < window.in[d];
            pixel += at * scale;
            scale *= window.in[d];
          }
          if (!inside) continue;
          for (int64_t c = 0; c < group_in; ++c) {
            const int64_t channel = filter / group_out * group_in + c;
            visit(static_cast<size_t>((n * channels + channel) * window.in_count() + pixel),
                  static_cast<size_t>((filter * group_in + c) * window.taps() + tap),
                  static_cast<size_t>((n * filters + filter) * window.out_count() + place));
          }
        }
      }
    }
  }
}

bool evaluate_conv_backward(EvaluateContext& ctx) {
  const std::optional<Forward> conv =
      forward_of(ctx, ctx.input(0).type.shape, ctx.input(1).type.shape);
  if (!conv) return false;
  const bool of_input = is_of_input(ctx);
  Tensor& result = ctx.output(0);
  result.magnitudes.assign(result.floats.size(), 0);
  result.terms = of_input ? static_cast<int64_t>(conv->w[0]) * conv->window.taps()
                          : static_cast<int64_t>(conv->x[0] * conv->window.out_count());
  for_each_product(*conv, [&](size_t x, size_t w, size_t y) {
    const double term = of_input ? ctx.input(0).floats[y] * ctx.input(1).floats[w]
                                 : ctx.input(0).floats[x] * ctx.input(1).floats[y];
    result.floats[of_input ? x : w] += term;
    result.magnitudes[of_input ? x : w] += std::abs(term);
  });
  return true;
}

// A list attribute with its default written out: `absent` for each of `count` places.
Ints list_of(const NodeContext& ctx, std::string_view name, size_t count, int64_t absent) {
  Ints values = ctx.attrs().integers(name);
  if (values.empty()) values.assign(count, absent);
  return values;
}

void decompose_of_input(RewriteContext& ctx, const Forward& conv) {
  const size_t n = conv.window.rank;
  const Ints stride = list_of(ctx, "stride", n, 1);
  const Ints pads = list_of(ctx, "pads", 2 * n, 0);
  const Ints dilation = list_of(ctx, "dilation", n, 1);
  Ints padding;
  for (size_t d = 0; d < n; ++d) {
    const Dim least = (conv.y[2 + d] - 1) * stride[d] - pads[d] - pads[n + d] +
                      dilation[d] * (conv.w[2 + d] - 1) + 1;
    padding.push_back(conv.x[2 + d] - least);
  }
  const ValueId dx = ctx.emit("conv_transpose", {ctx.input(0), ctx.input(1)},
                              {{"stride", stride},
                               {"pads", pads},
                               {"dilation", dilation},
                               {"output_padding", padding},
                               {"groups", conv.groups}});
  ctx.replace_output(0, dx);
}

// dw [Co, C * taps] as dy [Co, N * places] times the columns of x's windows.
ValueId weight_by_columns(RewriteContext& ctx, const Forward& conv) {
  const Dim places = conv.window.out_count();
  const ValueId columns = ctx.emit("im2col", {ctx.input(0)},
                                   {{"kernel", spatial_of(conv.w)},
                                    {"stride", list_of(ctx, "stride", conv.window.rank, 1)},
                                    {"pads", list_of(ctx, "pads", 2 * conv.window.rank, 0)},
                                    {"dilation", list_of(ctx, "dilation", conv.window.rank, 1)}});
  const ValueId planes = ctx.reshape(ctx.input(1), {conv.x[0], conv.w[0], places});
  const ValueId dy = ctx.reshape(ctx.transpose(planes, {1, 0, 2}), {conv.w[0], conv.x[0] * places});
  return ctx.reshape(ctx.emit("matmul", {dy, columns},
                              {{"out_dtype", std::string(name_of(ctx.dtype(ctx.input(0))))}}),
                     conv.w);
}

// [N, g * c, s..] as [c, g * N, s..]: images become channels.
ValueId images_as_channels(RewriteContext& ctx, ValueId x, int64_t groups) {
  const Shape shape = ctx.shape(x);
  Shape split = {shape[0], groups, shape[1] / groups};
  split.insert(split.end(), shape.begin() + 2, shape.end());
  Ints axes = {2, 1, 0};
  for (size_t d = 3; d < split.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  Shape joined = {shape[1] / groups, shape[0] * groups};
  joined.insert(joined.end(), shape.begin() + 2, shape.end());
  return ctx.reshape(ctx.transpose(ctx.reshape(x, split), axes), joined);
}

// A convolution over x whose filters are dy, steps and dilation exchanged: of the taps that it
// gives the first ones are the weight's.
ValueId weight_by_windows(RewriteContext& ctx, const Forward& conv) {
  const size_t n = conv.window.rank;
  const ValueId x = images_as_channels(ctx, ctx.input(0), conv.groups);
  Ints swap = axes_from(0, n + 2);
  std::swap(swap[0], swap[1]);
  const ValueId dy = ctx.transpose(ctx.input(1), swap);  // [Co, N, o..]
  ValueId taps = ctx.emit("conv", {x, dy},
                          {{"stride", list_of(ctx, "dilation", n, 1)},
                           {"pads", list_of(ctx, "pads", 2 * n, 0)},
                           {"dilation", list_of(ctx, "stride", n, 1)},
                           {"groups", conv.groups}});
  for (size_t d = 0; d < n; ++d) {
    const auto axis = static_cast<int64_t>(2 + d);
    if (ctx.shape(taps)[2 + d] == conv.w[2 + d]) continue;
    taps = ctx.emit(
        "narrow", {taps},
        {{"axis", axis}, {"start", int64_t{0}}, {"len", static_cast<int64_t>(conv.w[2 + d])}});
  }
  return ctx.transpose(taps, swap);
}

bool decompose_conv_backward(RewriteContext& ctx) {
  const std::optional<Forward> conv =
      forward_of(ctx, ctx.shape(ctx.input(0)), ctx.shape(ctx.input(1)));
  if (!conv) return false;
  if (is_of_input(ctx)) {
    decompose_of_input(ctx, *conv);
    return true;
  }
  const ValueId dw =
      conv->groups == 1 ? weight_by_columns(ctx, *conv) : weight_by_windows(ctx, *conv);
  ctx.replace_output(0, dw);
  return true;
}

constexpr AttrSpec conv_list(std::string_view name, double minimum) {
  return {.name = name,
          .type = AttrType::IntList,
          .default_text = "[]",
          .minimum = minimum,
          .maximum = kLargestInt};
}
constexpr AttrSpec shape_attribute(std::string_view name) {
  return {.name = name, .type = AttrType::IntList, .required = true, .minimum = 0};
}
constexpr AttrSpec kGroups{.name = "groups",
                           .type = AttrType::Int,
                           .default_text = "1",
                           .minimum = 1,
                           .maximum = kLargestInt};
constexpr std::array kInputAttrs = {shape_attribute("x_shape"), conv_list("stride", 1),
                                    conv_list("pads", 0), conv_list("dilation", 1), kGroups};
constexpr std::array kWeightAttrs = {shape_attribute("w_shape"), conv_list("stride", 1),
                                     conv_list("pads", 0), conv_list("dilation", 1), kGroups};

constexpr std::array kConvBackwardOps = {
    OpDef{
        .name = "conv_backward_input",
        .signature = "conv_backward_input(dy, w; x_shape, stride, pads, dilation, groups=1) -> dx",
        .inputs = {2, 2},
        .outputs = {1, 1},
        .attrs = kInputAttrs,
        .infer = infer_conv_backward,
        .evaluate = evaluate_conv_backward,
        .decompose = decompose_conv_backward},
    OpDef{
        .name = "conv_backward_weight",
        .signature = "conv_backward_weight(x, dy; w_shape, stride, pads, dilation, groups=1) -> dw",
        .inputs = {2, 2},
        .outputs = {1, 1},
        .attrs = kWeightAttrs,
        .infer = infer_conv_backward,
        .evaluate = evaluate_conv_backward,
        .decompose = decompose_conv_backward},
};

}  // namespace

std::span<const OpDef> conv_backward_ops() {
  return kConvBackwardOps;
}

}  // namespace rlx
