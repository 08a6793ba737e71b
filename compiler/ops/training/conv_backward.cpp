// SPDX-License-Identifier: Apache-2.0
// conv_backward_input and conv_backward_weight (ops.md 16.6): the first is a convolution of dy with
// turned filters, one for each phase of the strides; the second a product over columns of windows,
// or a convolution whose windows are all of dy.
#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/op_def.h"
#include "schema/rounding.h"

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

// A free spatial size leaves pads to the run that phases would have to be cut by.
void of_input_by_transposed(RewriteContext& ctx, const Forward& conv) {
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

// One spatial axis of dx. Pixel i stands at place q of phase r, i + begin = q * stride + r, and is
// reached by the taps t whose t * dilation leaves r modulo the stride: t = first + j * step. Tap j
// then meets pixel q - shift - j * dilation of dy.
struct PhasedAxis {
  int64_t in = 1;   // of x
  int64_t out = 1;  // of dy
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;

  [[nodiscard]] int64_t step() const { return stride / std::gcd(stride, dilation); }
  [[nodiscard]] int64_t spread() const { return dilation / std::gcd(stride, dilation); }
  // Places of every phase, from the first that holds a pixel.
  [[nodiscard]] int64_t first_place() const { return begin / stride; }
  [[nodiscard]] int64_t places() const { return ceil_div(in + begin, stride) - first_place(); }
  // Pixels of the first place before the image.
  [[nodiscard]] int64_t cut() const { return begin - first_place() * stride; }
};

struct PhaseTaps {
  int64_t first = 0;
  int64_t count = 0;
  int64_t shift = 0;
};

PhaseTaps taps_of(const PhasedAxis& axis, int64_t phase) {
  for (int64_t t = 0; t < std::min(axis.step(), axis.kernel); ++t) {
    if (t * axis.dilation % axis.stride != phase) continue;
    return {.first = t,
            .count = ceil_div(axis.kernel - t, axis.step()),
            .shift = (t * axis.dilation - phase) / axis.stride};
  }
  return {};
}

// The gradient of x by phases: each is a convolution of dy with every stride-th tap.
class PhasedGradient {
 public:
  PhasedGradient(RewriteContext& ctx, const Forward& conv)
      : ctx_(ctx), conv_(conv), rank_(conv.window.rank) {
    const FixedWindow window = numbers_of(conv.window);
    for (size_t d = kSpatialDims - rank_; d < kSpatialDims; ++d) {
      axes_.push_back({.in = window.in[d],
                       .out = window.out[d],
                       .kernel = window.kernel[d],
                       .stride = window.stride[d],
                       .dilation = window.dilation[d],
                       .begin = window.begin[d]});
    }
  }

  ValueId run() {
    filters_ = turned_filters();
    std::vector<int64_t> phases;
    const ValueId dx = joined(phases);
    Ints cut_axes;
    Ints starts;
    Ints ends;
    for (size_t d = 0; d < rank_; ++d) {
      if (ctx_.shape(dx)[2 + d] == axes_[d].in) continue;
      cut_axes.push_back(static_cast<int64_t>(2 + d));
      starts.push_back(axes_[d].cut());
      ends.push_back(axes_[d].cut() + axes_[d].in);
    }
    if (cut_axes.empty()) return dx;
    return ctx_.emit("slice", {dx}, {{"axes", cut_axes}, {"starts", starts}, {"ends", ends}});
  }

 private:
  // w [Co, C/g, taps..] as [C, Co/g, taps..], the last tap first.
  ValueId turned_filters() {
    const int64_t groups = conv_.groups;
    Shape split = {groups, conv_.w[0] / groups};
    split.insert(split.end(), conv_.w.begin() + 1, conv_.w.end());
    Ints order = axes_from(0, split.size());
    std::swap(order[1], order[2]);
    Shape shape = {conv_.w[1] * groups, conv_.w[0] / groups};
    shape.insert(shape.end(), conv_.w.begin() + 2, conv_.w.end());
    const ValueId w = ctx_.transpose(ctx_.reshape(ctx_.input(1), split), order);
    const ValueId filters = ctx_.reshape(w, shape);
    Ints turned;
    for (size_t d = 0; d < rank_; ++d) {
      if (axes_[d].kernel > 1) turned.push_back(static_cast<int64_t>(2 + d));
    }
    return turned.empty() ? filters : ctx_.emit("reverse", {filters}, {{"axes", turned}});
  }

  // [N, C, pixels..] of all phases whose numbers along the first axes are given: those of the next
  // axis in turn.
  ValueId joined(std::vector<int64_t>& phases) {
    const size_t d = phases.size();
    if (d == rank_) return phase(phases);
    NodeBuilder::Inputs parts;
    for (int64_t r = 0; r < axes_[d].stride; ++r) {
      phases.push_back(r);
      parts.push_back(joined(phases));
      phases.pop_back();
    }
    if (parts.size() == 1) return *parts[0];
    return d + 1 == rank_ ? pixels_in_turn(std::move(parts)) : lines_in_turn(std::move(parts), d);
  }

  // Along the last axis: as channels side by side, which they are in memory where channels are
  // last.
  ValueId pixels_in_turn(NodeBuilder::Inputs parts) {
    const auto count = static_cast<int64_t>(parts.size());
    Shape shape = ctx_.shape(*parts[0]);
    const ValueId beside = ctx_.emit("concat", std::move(parts), {{"axis", int64_t{1}}});
    Shape split = shape;
    split.insert(split.begin() + 1, count);
    Ints order = axes_from(0, split.size());
    order.erase(order.begin() + 1);
    order.emplace_back(1);
    shape.back() *= count;
    return ctx_.reshape(ctx_.transpose(ctx_.reshape(beside, split), order), shape);
  }

  // Along another axis: each line of the next axis behind that of the phase before.
  ValueId lines_in_turn(NodeBuilder::Inputs parts, size_t d) {
    const auto count = static_cast<int64_t>(parts.size());
    Shape shape = ctx_.shape(*parts[0]);
    const ValueId lines =
        ctx_.emit("concat", std::move(parts), {{"axis", static_cast<int64_t>(3 + d)}});
    shape[2 + d] *= count;
    return ctx_.reshape(lines, shape);
  }

  ValueId phase(const std::vector<int64_t>& phases) {
    ValueId x = ctx_.input(0);
    ValueId w = filters_;
    Ints begins;
    Ints ends;
    Ints spreads;
    for (size_t d = 0; d < rank_; ++d) {
      const PhasedAxis& axis = axes_[d];
      const PhaseTaps taps = taps_of(axis, phases[d]);
      if (taps.count == 0) return zeros();
      w = every_tap(w, d, axis, taps);
      int64_t begin = taps.shift + (taps.count - 1) * axis.spread() - axis.first_place();
      int64_t end = axis.places() - axis.out - taps.shift + axis.first_place();
      const int64_t first = std::max<int64_t>(0, -begin);
      const int64_t count = axis.out - first - std::max<int64_t>(0, -end);
      if (count <= 0) return zeros();
      x = part(x, 2 + d, first, count);
      begins.push_back(std::max<int64_t>(0, begin));
      ends.push_back(std::max<int64_t>(0, end));
      spreads.push_back(axis.spread());
    }
    begins.insert(begins.end(), ends.begin(), ends.end());
    return ctx_.emit("conv", {x, w},
                     {{"pads", begins}, {"dilation", spreads}, {"groups", conv_.groups}});
  }

  // Of an axis of the turned filters.
  ValueId every_tap(ValueId w, size_t d, const PhasedAxis& axis, const PhaseTaps& taps) {
    if (taps.count == axis.kernel) return w;
    const int64_t last = axis.kernel - 1 - taps.first;
    return ctx_.emit("slice", {w},
                     {{"axes", Ints{static_cast<int64_t>(2 + d)}},
                      {"starts", Ints{last - (taps.count - 1) * axis.step()}},
                      {"ends", Ints{last + 1}},
                      {"steps", Ints{axis.step()}}});
  }

  ValueId part(ValueId x, size_t axis, int64_t first, int64_t count) {
    if (ctx_.shape(x)[axis] == count) return x;
    return ctx_.emit("narrow", {x},
                     {{"axis", static_cast<int64_t>(axis)}, {"start", first}, {"len", count}});
  }

  ValueId zeros() {
    Shape shape = {conv_.x[0], conv_.x[1]};
    for (const PhasedAxis& axis : axes_) shape.push_back(axis.places());
    return ctx_.filled({ctx_.dtype(ctx_.input(0)), shape}, 0);
  }

  RewriteContext& ctx_;
  const Forward& conv_;
  size_t rank_;
  std::vector<PhasedAxis> axes_;
  ValueId filters_{};
};

// Taps that windows get behind their last ones, so that lines of columns are a whole number of the
// pieces that products load: images of few channels have windows of any size.
int64_t extra_taps(const Forward& conv) {
  constexpr int64_t kPiece = 8;
  if (conv.window.taps() == 1 || conv.x[1].is_free()) return 0;
  const int64_t last = conv.window.kernel.back();
  const int64_t beside = static_cast<int64_t>(conv.x[1]) * conv.window.taps() / last;
  return round_up(last, kPiece / std::gcd(kPiece, beside)) - last;
}

// The pixels under each window, [N * places, taps * C], of windows with `extra` taps more along the
// last axis. Windows of one tap that read no pads are pixels.
ValueId columns_of(RewriteContext& ctx, const Forward& conv, int64_t extra) {
  const size_t n = conv.window.rank;
  const Ints stride = list_of(ctx, "stride", n, 1);
  Ints pads = list_of(ctx, "pads", 2 * n, 0);
  const bool has_pads = std::ranges::any_of(pads, [](const Dim& pad) { return pad != 0; });
  if (conv.window.taps() > 1 || has_pads || has_free_sizes(conv.window)) {
    const Ints dilation = list_of(ctx, "dilation", n, 1);
    Shape kernel = spatial_of(conv.w);
    kernel.back() += extra;
    pads.back() += extra * dilation.back();
    return ctx.emit("im2col", {ctx.input(0)},
                    {{"kernel", kernel},
                     {"stride", stride},
                     {"pads", pads},
                     {"dilation", dilation},
                     {"layout", std::string("pixels")}});
  }
  ValueId pixels = ctx.input(0);
  if (!conv.window.is_pointwise()) {
    pixels = ctx.emit("slice", {pixels},
                      {{"axes", axes_from(2, n + 2)},
                       {"starts", Ints(n, 0)},
                       {"ends", spatial_of(conv.x)},
                       {"steps", stride}});
  }
  const Dim places = conv.window.out_count();
  const ValueId planes = ctx.reshape(pixels, {conv.x[0], conv.x[1], places});
  return ctx.reshape(ctx.turn(planes), {conv.x[0] * places, conv.x[1]});
}

// dw as dy [Co, N * places] times the columns of x's windows: [Co, taps * C], turned.
ValueId weight_by_columns(RewriteContext& ctx, const Forward& conv) {
  const Dim places = conv.window.out_count();
  const int64_t extra = extra_taps(conv);
  const ValueId columns = columns_of(ctx, conv, extra);
  const ValueId planes = ctx.reshape(ctx.input(1), {conv.x[0], conv.w[0], places});
  const ValueId dy = ctx.reshape(ctx.transpose(planes, {1, 0, 2}), {conv.w[0], conv.x[0] * places});
  const ValueId product = ctx.emit("matmul", {dy, columns},
                                   {{"out_dtype", std::string(name_of(ctx.dtype(ctx.input(0))))}});
  Shape taps = {conv.w[0]};
  taps.insert(taps.end(), conv.w.begin() + 2, conv.w.end());
  taps.back() += extra;
  taps.push_back(conv.w[1]);
  ValueId dw = ctx.reshape(product, taps);
  const auto last = static_cast<int64_t>(taps.size()) - 2;
  if (extra > 0) {
    dw = ctx.emit("narrow", {dw},
                  {{"axis", last}, {"start", int64_t{0}}, {"len", conv.window.kernel.back()}});
  }
  Ints order = axes_from(0, taps.size());
  order.insert(order.begin() + 1, last + 1);
  order.pop_back();
  return ctx.transpose(dw, order);
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
    if (has_free_sizes(conv->window)) {
      of_input_by_transposed(ctx, *conv);
    } else {
      ctx.replace_output(0, PhasedGradient(ctx, *conv).run());
    }
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
