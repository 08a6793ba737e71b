// SPDX-License-Identifier: Apache-2.0
// conv_transpose over one to three spatial dims (ops.md 9.2). Where windows do not overlap (stride
// = kernel) it becomes a 1x1 conv into kernel-many times the filters, whose pixels are then put in
// place; otherwise each output is gathered by a kernel.
#include "compiler/ops/vision/conv_transpose.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/product/matmul_lower.h"
#include "compiler/ops/product/matmul_tiles.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// ---- shapes ----

bool check_transpose_dtypes(InferContext& ctx) {
  const DType x = ctx.dtype(0);
  if (!is_float(x)) {
    return ctx.fail(DiagCode::BadDtype,
                    "x is " + std::string(name_of(x)) + "; wanted f32, f16, bf16 or f64");
  }
  for (size_t i = 1; i < 3; ++i) {
    if (!ctx.has_input(i)) continue;
    const DType dtype = ctx.dtype(i);
    if (x == DType::f64 ? dtype == DType::f64 : is_short_float(dtype)) continue;
    return ctx.fail(DiagCode::BadDtype, std::string(i == 1 ? "w" : "bias") + " is " +
                                            std::string(name_of(dtype)) + "; wanted " +
                                            (x == DType::f64 ? "f64" : "f32, f16 or bf16") +
                                            " beside " + std::string(name_of(x)) + " x");
  }
  return true;
}

bool check_transpose_channels(InferContext& ctx) {
  const int64_t groups = ctx.attrs().integer("groups");
  const Shape& x = ctx.shape(0);
  const Shape& w = ctx.shape(1);
  if (w[0] != x[1] || !x[1].divides_by(groups)) {
    return ctx.fail(DiagCode::BadShape, "w " + to_string(w) + " takes " + to_string(w[0]) +
                                            " channels in " + std::to_string(groups) +
                                            " groups; x " + to_string(x) + " has " +
                                            to_string(x[1]));
  }
  const Shape filters = {w[1] * groups};
  if (ctx.has_input(2) && ctx.shape(2) != filters) {
    return ctx.fail(DiagCode::BadShape, "bias has shape " + to_string(ctx.shape(2)) + "; wanted " +
                                            to_string(filters) + ", one value per output channel");
  }
  return true;
}

// A list attribute with one value per spatial dim, or one for all; `otherwise` where it is absent.
std::optional<Ints> dim_list(NodeContext& ctx, const char* name, size_t rank, int64_t otherwise) {
  Ints values = ctx.attrs().integers(name);
  if (values.size() <= 1) values.assign(rank, values.empty() ? Dim(otherwise) : values[0]);
  if (values.size() == rank) return values;
  ctx.fail(DiagCode::BadAttribute, std::string(name) + " has " + std::to_string(values.size()) +
                                       " values; wanted " + std::to_string(rank) +
                                       ", one per spatial dim");
  return std::nullopt;
}

// Begin pads, and with pads given the sizes that follow from them.
bool set_sizes(NodeContext& ctx, Window& window, const Ints& output_padding) {
  const size_t rank = window.rank;
  Ints pads = ctx.attrs().integers("pads");
  const Ints wanted = ctx.attrs().integers("output_shape");
  if (pads.size() <= 1) pads.assign(2 * rank, pads.empty() ? 0 : pads[0]);
  if (pads.size() == rank) pads.insert(pads.end(), pads.begin(), pads.end());
  if (pads.size() != 2 * rank || (!wanted.empty() && wanted.size() != rank)) {
    return ctx.fail(DiagCode::BadAttribute,
                    "pads has " + std::to_string(pads.size()) + " values and output_shape " +
                        std::to_string(wanted.size()) + "; wanted " + std::to_string(2 * rank) +
                        " or " + std::to_string(rank) + ", and " + std::to_string(rank) +
                        " or none");
  }
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = kSpatialDims - rank + i;
    const int64_t longest = std::max(window.stride[d], window.dilation[d]);
    if (output_padding[i] >= longest) {
      return ctx.fail(DiagCode::BadAttribute, "output_padding " + to_string(output_padding[i]) +
                                                  " of spatial dim " + std::to_string(i) +
                                                  "; wanted less than " + std::to_string(longest) +
                                                  ", the larger of stride and dilation");
    }
    const Dim steps = window.in[d] * window.stride[d];
    const int64_t reach = window.dilation[d] * (window.kernel[d] - 1) + output_padding[i] + 1;
    if (wanted.empty()) {
      window.begin[d] = pads[i];
      window.end[d] = pads[rank + i];
      window.out[d] =
          size_of_result(steps + reach - (window.stride[d] + window.begin[d] + window.end[d]));
    } else {
      // What is cut off in all, the larger half at the begin; more than there is comes at the end.
      const Dim whole = steps + reach - window.stride[d];
      const Dim total = max(whole, wanted[i]) - wanted[i];
      window.begin[d] = total - total / 2;
      window.end[d] = total / 2;
      window.out[d] = wanted[i];
    }
    if (window.out[d] > 0) continue;
    return ctx.fail(DiagCode::BadShape, "spatial dim " + std::to_string(i) + " would have " +
                                            to_string(window.out[d]) +
                                            " elements; wanted at least 1");
  }
  return true;
}

// in and out are those of the op; begin is cut off the whole result.
std::optional<Window> transposed_window(NodeContext& ctx, const Shape& x, const Shape& w) {
  const size_t rank = x.size() - 2;
  const Ints kernel(w.begin() + 2, w.end());
  const Ints written = ctx.attrs().integers("kernel");
  if (!written.empty() && written != kernel) {
    ctx.fail(DiagCode::BadAttribute,
             "kernel " + to_string(written) + " differs from that of w, " + to_string(kernel));
    return std::nullopt;
  }
  const std::optional<Ints> stride = dim_list(ctx, "stride", rank, 1);
  const std::optional<Ints> dilation = dim_list(ctx, "dilation", rank, 1);
  const std::optional<Ints> output_padding = dim_list(ctx, "output_padding", rank, 0);
  if (!stride || !dilation || !output_padding) return std::nullopt;
  Window window{.rank = rank};
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = kSpatialDims - rank + i;
    window.in[d] = x[2 + i];
    window.kernel[d] = kernel[i];
    window.stride[d] = (*stride)[i];
    window.dilation[d] = (*dilation)[i];
  }
  if (!set_sizes(ctx, window, *output_padding)) return std::nullopt;
  return window;
}

bool infer_conv_transpose(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  const Shape& w = ctx.shape(1);
  if (x.size() < 3 || x.size() > 2 + kSpatialDims || w.size() != x.size()) {
    return ctx.fail(DiagCode::BadRank, "x has rank " + std::to_string(x.size()) + " and w " +
                                           std::to_string(w.size()) +
                                           "; wanted [N, C, spatial..] and [C, Co/g, kernel..] "
                                           "with 1 to 3 spatial dims");
  }
  if (element_count(Shape(w.begin() + 2, w.end())) < 1)
    return ctx.fail(DiagCode::BadShape, "w " + to_string(w) + " has no taps");
  bool good = check_transpose_dtypes(ctx);
  good = check_transpose_channels(ctx) && good;
  const std::optional<Window> window = transposed_window(ctx, x, w);
  if (!window || !good) return false;
  Shape y = {x[0], w[1] * ctx.attrs().integer("groups")};
  for (const Dim& size : window->out_shape()) y.push_back(size);
  ctx.set_output(0, {ctx.dtype(0), y});
  return true;
}

// ---- evaluate_conv_transpose: every input element is spread over the outputs that it reaches ----

struct Spread {
  const Tensor& x;
  const Tensor& w;
  FixedWindow window;
  int64_t groups;
};

void spread_pixel(const Spread& spread, int64_t image, int64_t channel, int64_t pixel, Tensor& y) {
  const FixedWindow& window = spread.window;
  const int64_t group_in = spread.w.type.shape[0] / spread.groups;
  const int64_t group_out = spread.w.type.shape[1];
  const double value = spread.x.floats[static_cast<size_t>(
      (image * spread.w.type.shape[0] + channel) * window.in_count() + pixel)];
  for (int64_t tap = 0; tap < window.taps(); ++tap) {
    int64_t tap_rest = tap;
    int64_t rest = pixel;
    int64_t place = 0;
    int64_t scale = 1;
    bool inside = true;
    for (size_t d = kSpatialDims; d-- > 0;) {
      const int64_t o = rest % window.in[d] * window.stride[d] +
                        tap_rest % window.kernel[d] * window.dilation[d] - window.begin[d];
      rest /= window.in[d];
      tap_rest /= window.kernel[d];
      inside = inside && o >= 0 && o < window.out[d];
      place += o * scale;
      scale *= window.out[d];
    }
    if (!inside) continue;
    for (int64_t filter = 0; filter < group_out; ++filter) {
      const int64_t output = channel / group_in * group_out + filter;
      const double term =
          value *
          spread.w
              .floats[static_cast<size_t>((channel * group_out + filter) * window.taps() + tap)];
      const auto at = static_cast<size_t>(
          (image * spread.groups * group_out + output) * window.out_count() + place);
      y.floats[at] += term;
      y.magnitudes[at] += std::abs(term);
    }
  }
}

bool evaluate_conv_transpose(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Tensor& w = ctx.input(1);
  const std::optional<Window> window = transposed_window(ctx, x.type.shape, w.type.shape);
  if (!window) return false;
  Tensor& y = ctx.output(0);
  y.magnitudes.assign(y.floats.size(), 0);
  const Spread spread{
      .x = x, .w = w, .window = numbers_of(*window), .groups = ctx.attrs().integer("groups")};
  if (ctx.has_input(2)) {
    const auto plane = static_cast<size_t>(window->out_count());
    const std::vector<double>& bias = ctx.input(2).floats;
    for (size_t i = 0; i < y.floats.size(); ++i) {
      y.floats[i] = bias[i / plane % bias.size()];
      y.magnitudes[i] = std::abs(y.floats[i]);
    }
  }
  for (int64_t image = 0; image < x.type.shape[0]; ++image) {
    for (int64_t channel = 0; channel < x.type.shape[1]; ++channel) {
      for (int64_t pixel = 0; pixel < window->in_count(); ++pixel)
        spread_pixel(spread, image, channel, pixel, y);
    }
  }
  y.terms = w.type.shape[0] / spread.groups * window->taps() + 1;
  return true;
}

// ---- decompose_conv_transpose ----

// Every output takes one tap, and all of them are there.
bool tiles_output(const Window& window) {
  for (size_t d = 0; d < kSpatialDims; ++d) {
    if (window.kernel[d] != window.stride[d] || window.dilation[d] != 1 || window.begin[d] != 0 ||
        window.out[d] != window.in[d] * window.stride[d]) {
      return false;
    }
  }
  return true;
}

// [C, Co/g, k..] as filters [Co * taps, C/g, 1..].
ValueId pointwise_filters(RewriteContext& ctx, const Window& window, int64_t groups) {
  const Shape w = ctx.type(ctx.input(1)).shape;
  const Dim filters = w[1] * window.taps();
  const ValueId flat =
      ctx.emit("reshape", {ctx.input(1)}, {{"shape", Ints{groups, w[0] / groups, filters}}});
  const ValueId turned = ctx.emit("transpose", {flat}, {{"perm", Ints{0, 2, 1}}});
  Ints shape(w.size(), 1);
  shape[0] = groups * filters;
  shape[1] = w[0] / groups;
  return ctx.emit("reshape", {turned}, {{"shape", shape}});
}

// The bias once for each tap.
std::optional<ValueId> repeated_bias(RewriteContext& ctx, const Window& window) {
  if (!ctx.has_input(2)) return std::nullopt;
  const Dim filters = ctx.type(ctx.input(2)).shape[0];
  const ValueId column = ctx.emit("reshape", {ctx.input(2)}, {{"shape", Ints{filters, 1}}});
  const ValueId wide = ctx.emit("expand", {column}, {{"shape", Ints{filters, window.taps()}}});
  return ctx.emit("reshape", {wide}, {{"shape", Ints{filters * window.taps()}}});
}

bool decompose_conv_transpose(RewriteContext& ctx) {
  const Shape x = ctx.type(ctx.input(0)).shape;
  const Shape w = ctx.type(ctx.input(1)).shape;
  const int64_t groups = ctx.attrs().integer("groups");
  const std::optional<Window> window = transposed_window(ctx, x, w);
  if (!window) return false;
  if (!tiles_output(*window)) {
    std::vector<std::optional<ValueId>> inputs(ctx.node().inputs);
    ctx.replace_output(0, ctx.emit("conv_transpose_gather", inputs, ctx.node().attributes));
    return true;
  }
  const ValueId product = ctx.emit(
      "conv", {ctx.input(0), pointwise_filters(ctx, *window, groups), repeated_bias(ctx, *window)},
      {{"groups", groups}});
  // [N, Co, k.., in..] to [N, Co, in0, k0, in1, k1..].
  const auto rank = static_cast<int64_t>(window->rank);
  Ints split = {x[0], w[1] * groups};
  Ints perm = {0, 1};
  Ints joined = split;
  split.insert(split.end(), w.begin() + 2, w.end());
  split.insert(split.end(), x.begin() + 2, x.end());
  for (int64_t i = 0; i < rank; ++i) {
    perm.push_back(2 + rank + i);
    perm.push_back(2 + i);
  }
  for (const Dim& size : window->out_shape()) joined.push_back(size);
  const ValueId parts = ctx.emit("reshape", {product}, {{"shape", split}});
  const ValueId placed = ctx.emit("transpose", {parts}, {{"perm", perm}});
  ctx.replace_output(0, ctx.emit("reshape", {placed}, {{"shape", joined}}));
  return true;
}

// ---- phases ----

// What the phases of the whole result need: as many taps of each, all pixels there, one group.
bool has_equal_phases(const Window& window) {
  for (size_t d = kSpatialDims - window.rank; d < kSpatialDims; ++d) {
    const Dim whole = (window.in[d] - 1) * window.stride[d] + window.kernel[d];
    if (window.in[d].is_free() || window.dilation[d] != 1 ||
        window.kernel[d] % window.stride[d] != 0 || window.begin[d] + window.out[d] > whole)
      return false;
  }
  return true;
}

// The sizes of a window's dims.
struct Phases {
  std::vector<int64_t> strides;
  std::vector<int64_t> taps;  // of a phase
  int64_t count = 1;
};

Phases phases_of(const Window& window) {
  Phases phases;
  for (size_t d = kSpatialDims - window.rank; d < kSpatialDims; ++d) {
    phases.strides.push_back(window.stride[d]);
    phases.taps.push_back(window.kernel[d] / window.stride[d]);
    phases.count *= phases.strides.back();
  }
  return phases;
}

// [C, Co, k..] as filters [phases * Co, C, taps..], turned round.
ValueId phase_filters(RewriteContext& ctx, const Phases& phases) {
  const Shape w = ctx.type(ctx.input(1)).shape;
  const auto rank = static_cast<int64_t>(phases.taps.size());
  Ints split = {w[0], w[1]};
  Ints turned;
  Ints perm;
  Ints joined = {phases.count * w[1], w[0]};
  for (int64_t i = 0; i < rank; ++i) {
    split.push_back(phases.taps[static_cast<size_t>(i)]);
    split.push_back(phases.strides[static_cast<size_t>(i)]);
    turned.push_back(2 + 2 * i);
    perm.push_back(3 + 2 * i);
    joined.push_back(phases.taps[static_cast<size_t>(i)]);
  }
  perm.push_back(1);
  perm.push_back(0);
  for (int64_t i = 0; i < rank; ++i) perm.push_back(2 + 2 * i);
  const ValueId parts = ctx.emit("reshape", {ctx.input(1)}, {{"shape", split}});
  const ValueId reversed = ctx.emit("reverse", {parts}, {{"axes", turned}});
  const ValueId ordered = ctx.emit("transpose", {reversed}, {{"perm", perm}});
  return ctx.emit("reshape", {ordered}, {{"shape", joined}});
}

// The bias once for each phase.
std::optional<ValueId> phase_bias(RewriteContext& ctx, const Phases& phases) {
  if (!ctx.has_input(2)) return std::nullopt;
  const Dim filters = ctx.type(ctx.input(2)).shape[0];
  const ValueId wide = ctx.emit("expand", {ctx.input(2)}, {{"shape", Ints{phases.count, filters}}});
  return ctx.emit("reshape", {wide}, {{"shape", Ints{phases.count * filters}}});
}

// [N, phases * Co, places..] as y.
ValueId placed_phases(RewriteContext& ctx, ValueId product, const Window& window,
                      const Phases& phases) {
  const Shape from = ctx.type(product).shape;
  const auto rank = static_cast<int64_t>(window.rank);
  const Dim filters = from[1] / phases.count;
  Ints split = {from[0]};
  Ints perm = {0, rank + 1};
  Ints joined = {from[0], filters};
  Ints axes;
  Ints starts;
  Ints ends;
  for (int64_t i = 0; i < rank; ++i) split.push_back(phases.strides[static_cast<size_t>(i)]);
  split.push_back(filters);
  bool crops = false;
  for (int64_t i = 0; i < rank; ++i) {
    const size_t d = kSpatialDims - window.rank + static_cast<size_t>(i);
    const Dim& places = from[static_cast<size_t>(2 + i)];
    split.push_back(places);
    perm.push_back(rank + 2 + i);
    perm.push_back(1 + i);
    joined.push_back(places * phases.strides[static_cast<size_t>(i)]);
    axes.push_back(2 + i);
    starts.push_back(window.begin[d]);
    ends.push_back(window.begin[d] + window.out[d]);
    crops = crops || joined.back() != window.out[d];
  }
  const ValueId parts = ctx.emit("reshape", {product}, {{"shape", split}});
  const ValueId ordered = ctx.emit("transpose", {parts}, {{"perm", perm}});
  const ValueId whole = ctx.emit("reshape", {ordered}, {{"shape", joined}});
  if (!crops) return whole;
  return ctx.emit("slice", {whole}, {{"axes", axes}, {"starts", starts}, {"ends", ends}});
}

// ---- lower_conv_transpose ----

void define_phases(DispatchBuilder<ConvParams>& dispatch, const Window& window) {
  constexpr std::array<const char*, kSpatialDims> kDims = {"_D", "_H", "_W"};
  for (size_t d = 0; d < kSpatialDims; ++d) {
    const int64_t common = std::gcd(window.stride[d], window.dilation[d]);
    dispatch.define(std::string("RLX_TAP_STEP") + kDims[d], window.stride[d] / common)
        .define(std::string("RLX_TAP_MOVE") + kDims[d], window.dilation[d] / common)
        .size(std::string("RLX_PLACES") + kDims[d], ceil_div(window.out[d], window.stride[d]));
  }
}

// How the gathering kernel takes a problem.
struct Gathering {
  Dim group_in;
  Dim group_out;
  Dim columns;  // places of a phase in all images
  int64_t phases = 1;
  DType acc;
  TileChoice choice;
};

Gathering gathering_of(const OfferContext& at, const Window& window, const TensorType& x,
                       const Shape& w, int64_t groups) {
  Dim places = 1;
  int64_t phases = 1;
  for (size_t d = 0; d < kSpatialDims; ++d) {
    places *= ceil_div(window.out[d], window.stride[d]);
    phases *= window.stride[d];
  }
  Gathering result{.group_in = w[0] / groups,
                   .group_out = w[1],
                   .columns = x.shape[0] * places,
                   .phases = phases,
                   .acc = accumulator_of(x.dtype),
                   .choice = {}};
  const Dim depth = result.group_in * window.taps();
  result.choice =
      choose_tile({.m = result.group_out.bound(),
                   .n = result.columns.bound(),
                   .k = std::max<int64_t>(depth.bound() / phases, 1),
                   .batches = groups * phases},
                  {.allow_splits = false, .acc_bytes = element_bytes(result.acc)}, at.device());
  return result;
}

bool lower_conv_transpose(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const TensorRef w = ctx.dense_input(1);
  const TensorRef y = ctx.output(0);
  const int64_t groups = ctx.attrs().integer("groups");
  const std::optional<Window> window = transposed_window(ctx, x.shape(), w.shape());
  if (!window) return false;
  if (element_count(y.shape()) == 0) return true;
  const auto [group_in, group_out, columns, phases, acc, choice] =
      gathering_of(ctx, *window, x.type, w.shape(), groups);
  const Dim depth = group_in * window->taps();
  const Dim tiles =
      ceil_div(group_out, choice.tile.m) * ceil_div(columns, choice.tile.n) * groups * phases;
  if (most_of({columns, depth, groups * group_out, tiles, window->in_count()}) > kCountLimit) {
    return ctx.fail(DiagCode::UnsupportedOp, "a transposed convolution of " + to_string(columns) +
                                                 " places, " + to_string(groups * group_out) +
                                                 " channels and depth " + to_string(depth) +
                                                 " exceeds the kernel's 32-bit counts");
  }
  const std::array<Dim, kSpatialDims> spatial = spatial_strides(x.strides);
  const Dim x_elements = x.byte_range().length_bytes / element_bytes(x.dtype());
  const int64_t farthest = most_of({x_elements, element_count(w.shape())});
  auto dispatch = ctx.dispatch<KernelId::conv_transpose>();
  define_window(dispatch, *window);
  define_phases(dispatch, *window);
  define_tile(dispatch, choice.tile);
  dispatch.define("RLX_ACC", std::string(name_of(acc)))
      .define("RLX_INDEX", index_type(IndexUse::Offset, farthest))
      .define("RLX_X", std::string(name_of(x.dtype())))
      .define("RLX_W", std::string(name_of(w.dtype())))
      .define("RLX_Y", std::string(name_of(y.dtype())))
      .define("RLX_Y_VECTOR", 1)
      .define("RLX_ACTIVATION", 0)
      .size("RLX_IMAGES", x.shape()[0])
      .define("RLX_GROUPS", groups)
      .size("RLX_GROUP_IN", group_in)
      .size("RLX_GROUP_OUT", group_out)
      .size("RLX_X_N", x.strides[0])
      .size("RLX_X_C", x.strides[1])
      .size("RLX_X_D", spatial[0])
      .size("RLX_X_H", spatial[1])
      .size("RLX_X_W", spatial[2])
      .grid(split_grid(tiles))
      .work(x.byte_range().length_bytes + byte_size(w.type) + byte_size(y.type),
            2 * element_count(x.shape()) * group_out * window->taps())
      .reason("gathered in " + std::to_string(phases) + " phases: " + choice.text())
      .write(&ConvParams::y, y);
  if (element_count(x.shape()) > 0) dispatch.read(&ConvParams::x, x);
  if (element_count(w.shape()) > 0) dispatch.read(&ConvParams::w, w);
  if (ctx.has_input(2)) {
    const TensorRef bias = ctx.input(2);
    dispatch.define("RLX_BIAS", std::string(name_of(bias.dtype())))
        .size("RLX_BIAS_M", bias.strides[0])
        .define("RLX_BIAS_N", 0)
        .define("RLX_BIAS_VECTOR", 1)
        .read(&ConvParams::bias, bias);
  }
  return true;
}

// The roles of a convolution's two gradients change.
bool conv_transpose_gradient(GradientContext& ctx) {
  const ValueId dy = ctx.gradient();
  const Shape& x = ctx.shape(ctx.input(0));
  if (!ctx.attrs().integers("output_shape").empty()) {
    return ctx.fail(DiagCode::UnknownOp, "with output_shape it has no gradient",
                    "give pads and output_padding");
  }
  Attributes window = {{"groups", ctx.attrs().integer("groups")}};
  for (const char* name : {"stride", "pads", "dilation"}) {
    const Ints values = ctx.attrs().integers(name);
    if (!values.empty()) window[name] = values;
  }
  if (ctx.wants(0)) {
    ValueId dx = ctx.emit("conv", {dy, ctx.input(1)}, window);
    for (size_t d = 2; d < x.size(); ++d) {
      if (ctx.shape(dx)[d] == x[d]) continue;
      dx = ctx.emit(
          "slice", {dx},
          {{"axes", Ints{static_cast<int64_t>(d)}}, {"starts", Ints{0}}, {"ends", Ints{x[d]}}});
    }
    ctx.give(0, dx);
  }
  if (ctx.wants(1)) {
    const Ints stride = ctx.attrs().integers("stride");
    const Ints padding = ctx.attrs().integers("output_padding");
    for (size_t d = 0; d < padding.size(); ++d) {
      const Dim step = stride.empty() ? Dim(1) : stride[d];
      if (padding[d] < step) continue;
      return ctx.fail(DiagCode::UnknownOp, "output_padding of a step or more has no gradient");
    }
    window["w_shape"] = ctx.shape(ctx.input(1));
    ctx.give(1, ctx.emit("conv_backward_weight", {dy, ctx.input(0)}, window));
  }
  if (ctx.wants(2)) {
    Ints others = axes_from(0, ctx.shape(dy).size());
    others.erase(others.begin() + 1);
    ctx.give(2, ctx.reduce("reduce_sum", dy, others, NodeBuilder::Axes::Drop));
  }
  return true;
}

constexpr AttrSpec list_of(std::string_view name, double minimum) {
  return {.name = name,
          .type = AttrType::IntList,
          .default_text = "[]",
          .minimum = minimum,
          .maximum = kLargestInt};
}

constexpr std::array kConvTransposeAttrs = {
    list_of("kernel", 1),
    list_of("stride", 1),
    list_of("pads", 0),
    list_of("dilation", 1),
    list_of("output_padding", 0),
    AttrSpec{.name = "groups",
             .type = AttrType::Int,
             .default_text = "1",
             .minimum = 1,
             .maximum = kLargestInt},
    list_of("output_shape", 1),
};
constexpr std::array<uint32_t, 1> kConvTransposeOptional = {2};

constexpr OpDef transposed(std::string_view name, std::string_view signature) {
  return {.name = name,
          .signature = signature,
          .inputs = {2, 3},
          .outputs = {1, 1},
          .attrs = kConvTransposeAttrs,
          .infer = infer_conv_transpose,
          .evaluate = evaluate_conv_transpose,
          .optional_inputs = kConvTransposeOptional};
}

constexpr std::array<OpDef, 2> make_ops() {
  std::array<OpDef, 2> ops = {
      transposed("conv_transpose",
                 "conv_transpose(x, w, [bias]; kernel, stride, pads, dilation, output_padding=0, "
                 "groups=1, output_shape) -> y"),
      transposed("conv_transpose_gather",
                 "conv_transpose_gather(x, w, [bias]; as conv_transpose) -> y, by its kernel"),
  };
  ops[0].decompose = decompose_conv_transpose;
  ops[0].gradient = conv_transpose_gradient;
  ops[1].lower = lower_conv_transpose;
  return ops;
}

constexpr std::array<OpDef, 2> kConvTransposeOps = make_ops();

}  // namespace

double conv_transpose_microseconds(const OfferContext& at, const Graph& graph, const Node& node) {
  Diagnostics diagnostics;
  NodeContext ctx(*find_op(node.op), node, diagnostics);
  const TensorType& x = graph.value(*node.inputs[0]).type;
  const Shape& w = graph.value(*node.inputs[1]).type.shape;
  const std::optional<Window> window = transposed_window(ctx, x.shape, w);
  RLX_CHECK(window.has_value(), diagnostics.text());
  return at.device().step_microseconds +
         gathering_of(at, *window, x, w, ctx.attrs().integer("groups")).choice.microseconds;
}

std::optional<ValueId> emit_transpose_phases(RewriteContext& ctx) {
  const Shape x = ctx.type(ctx.input(0)).shape;
  const Shape w = ctx.type(ctx.input(1)).shape;
  const std::optional<Window> window = transposed_window(ctx, x, w);
  const bool fits = window && ctx.attrs().integer("groups") == 1 && !x[0].is_free() &&
                    element_count(x) > 0 && has_equal_phases(*window);
  if (!fits) return std::nullopt;
  const Phases phases = phases_of(*window);
  Ints pads;
  for (size_t twice = 0; twice < 2; ++twice)
    for (const int64_t taps : phases.taps) pads.push_back(taps - 1);
  const ValueId product =
      ctx.emit("conv", {ctx.input(0), phase_filters(ctx, phases), phase_bias(ctx, phases)},
               {{"pads", pads}});
  ctx.replace_output(0, placed_phases(ctx, product, *window, phases));
  return product;
}

std::span<const OpDef> conv_transpose_ops() {
  return kConvTransposeOps;
}

}  // namespace rlx
