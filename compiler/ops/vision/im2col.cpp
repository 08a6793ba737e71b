// SPDX-License-Identifier: Apache-2.0
// im2col and its adjoint col2im (ops.md 9.4), over one to three spatial dims.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr uint32_t kThreads = 256;

// In the order of the words of `layout`: [N * places, C * taps], [N, C * taps, places] and
// [N * places, taps * C].
enum class ColumnLayout : uint8_t { Rows, Unfold, Pixels };
constexpr std::string_view kLayouts[] = {"rows", "unfold", "pixels"};

// The OpDefs admit no other word.
ColumnLayout layout_of(const NodeContext& ctx) {
  const std::string text = ctx.attrs().text("layout");
  return static_cast<ColumnLayout>(std::find(std::begin(kLayouts), std::end(kLayouts), text) -
                                   std::begin(kLayouts));
}

// Both sides of the two ops: an image [N, C, spatial..] and columns.
struct Columns {
  Window window;
  Dim images = 0;
  Dim channels = 0;
  ColumnLayout layout = ColumnLayout::Rows;

  [[nodiscard]] bool rows() const { return layout != ColumnLayout::Unfold; }
  [[nodiscard]] Dim places() const { return window.out_count(); }
  [[nodiscard]] Dim depth() const { return channels * window.taps(); }
  [[nodiscard]] Shape shape() const {
    return rows() ? Shape{images * places(), depth()} : Shape{images, depth(), places()};
  }
};

std::optional<Window> window_over(NodeContext& ctx, const Shape& spatial) {
  const Ints kernel = ctx.attrs().integers("kernel");
  if (kernel.size() != spatial.size() || spatial.empty() || spatial.size() > kSpatialDims) {
    ctx.fail(DiagCode::BadAttribute, "kernel has " + std::to_string(kernel.size()) +
                                         " values; wanted " + std::to_string(spatial.size()) +
                                         ", one per spatial dim (1 to 3)");
    return std::nullopt;
  }
  return read_window(ctx, spatial, kernel, WindowRounding::Floor);
}

// ---- im2col ----

std::optional<Columns> columns_of_image(NodeContext& ctx, const Shape& x) {
  if (x.size() < 3) {
    ctx.fail(DiagCode::BadRank, "x has rank " + std::to_string(x.size()) +
                                    "; wanted [N, C, spatial..] with 1 to 3 spatial dims");
    return std::nullopt;
  }
  const std::optional<Window> window = window_over(ctx, Shape(x.begin() + 2, x.end()));
  if (!window) return std::nullopt;
  return Columns{.window = *window, .images = x[0], .channels = x[1], .layout = layout_of(ctx)};
}

bool infer_im2col(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  const std::optional<Columns> columns = columns_of_image(ctx, ctx.shape(0));
  if (!columns) return false;
  ctx.set_output(0, {ctx.dtype(0), columns->shape()});
  return true;
}

// Calls visit(image element, column element) for each pair that the ops connect.
template <typename Visit>
void for_each_pair(const Columns& columns, const Visit& visit) {
  const FixedWindow window = numbers_of(columns.window);
  const int64_t planes = columns.images * columns.channels;
  const int64_t channels = columns.channels;
  const int64_t places = columns.places();
  const int64_t depth = columns.depth();
  for (int64_t plane = 0; plane < planes; ++plane) {
    for (int64_t tap = 0; tap < window.taps(); ++tap) {
      const int64_t image = plane / channels;
      const int64_t channel = plane % channels;
      const int64_t line = columns.layout == ColumnLayout::Pixels ? tap * channels + channel
                                                                  : channel * window.taps() + tap;
      for (int64_t place = 0; place < places; ++place) {
        int64_t tap_rest = tap;
        int64_t rest = place;
        int64_t offset = 0;
        int64_t scale = 1;
        bool inside = true;
        for (size_t d = kSpatialDims; d-- > 0;) {
          const int64_t position = rest % window.out[d] * window.stride[d] +
                                   tap_rest % window.kernel[d] * window.dilation[d] -
                                   window.begin[d];
          rest /= window.out[d];
          tap_rest /= window.kernel[d];
          inside = inside && position >= 0 && position < window.in[d];
          offset += position * scale;
          scale *= window.in[d];
        }
        if (!inside) continue;
        visit(static_cast<size_t>(plane * window.in_count() + offset),
              static_cast<size_t>(columns.rows() ? (image * places + place) * depth + line
                                                 : (image * depth + line) * places + place));
      }
    }
  }
}

bool evaluate_im2col(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const std::optional<Columns> columns = columns_of_image(ctx, x.type.shape);
  if (!columns) return false;
  Tensor& y = ctx.output(0);
  for_each_pair(*columns, [&](size_t image, size_t column) {
    if (x.is_float()) {
      y.floats[column] = x.floats[image];
    } else {
      y.integers[column] = x.integers[image];
    }
  });
  return true;
}

// ---- col2im ----

std::optional<Columns> columns_of_node(NodeContext& ctx, const Shape& given) {
  const Ints out = ctx.attrs().integers("out_hw");
  const std::optional<Window> window = window_over(ctx, out);
  if (!window) return std::nullopt;
  Columns columns{.window = *window, .layout = layout_of(ctx)};
  const size_t rank = columns.rows() ? 2 : 3;
  const Dim lines = given.size() == rank ? given[1] : Dim(-1);
  const bool whole = lines >= 0 && lines.divides_by(window->taps()) &&
                     (!columns.rows() || given[0].divides_by(columns.places()));
  if (whole) {
    columns.images = columns.rows() ? given[0] / columns.places() : given[0];
    columns.channels = lines / window->taps();
    if (columns.shape() == given) return columns;
  }
  const std::string taps = "C * " + std::to_string(window->taps());
  const std::string places = to_string(columns.places());
  ctx.fail(DiagCode::BadShape, "columns are " + to_string(given) + "; wanted " +
                                   (columns.rows() ? "[N * " + places + ", " + taps + "]"
                                                   : "[N, " + taps + ", " + places + "]"));
  return std::nullopt;
}

bool infer_col2im(InferContext& ctx) {
  if (!check_dtype(ctx, 0, DTypeSet::Number)) return false;
  const std::optional<Columns> columns = columns_of_node(ctx, ctx.shape(0));
  if (!columns) return false;
  Shape shape = {columns->images, columns->channels};
  for (const Dim& size : ctx.attrs().integers("out_hw")) shape.push_back(size);
  ctx.set_output(0, {ctx.dtype(0), shape});
  return true;
}

bool evaluate_col2im(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const std::optional<Columns> columns = columns_of_node(ctx, x.type.shape);
  if (!columns) return false;
  Tensor& y = ctx.output(0);
  if (y.is_float()) y.magnitudes.assign(y.floats.size(), 0);
  y.terms = columns->window.taps();
  for_each_pair(*columns, [&](size_t image, size_t column) {
    if (!x.is_float()) {
      y.integers[image] = wrap_integer(
          y.type.dtype, static_cast<int64_t>(static_cast<uint64_t>(y.integers[image]) +
                                             static_cast<uint64_t>(x.integers[column])));
      return;
    }
    y.floats[image] += x.floats[column];
    y.magnitudes[image] += std::abs(x.floats[column]);
  });
  return true;
}

// ---- lower ----

bool check_counts(LowerContext& ctx, const Columns& columns) {
  const int64_t largest = most_of({columns.places(), columns.depth(), columns.window.in_count(),
                                   columns.images, columns.window.taps()});
  if (largest <= kCountLimit) return true;
  return ctx.fail(DiagCode::UnsupportedOp,
                  "columns " + to_string(columns.shape()) + " exceed the kernel's 32-bit counts");
}

void define_columns(DispatchBuilder<CopyParams>& dispatch, const Columns& columns,
                    const Dim& count) {
  define_window(dispatch, columns.window);
  dispatch.size("RLX_CHANNELS", columns.channels)
      .size("RLX_IMAGES", columns.images)
      .define("RLX_AS_ROWS", columns.rows() ? 1 : 0)
      .define("RLX_BY_TAPS", columns.layout == ColumnLayout::Pixels ? 1 : 0)
      .define("RLX_LINEAR", index_type(IndexUse::Linear, count.range().most + kThreads))
      .workgroup({kThreads, 1, 1});
}

// `pack` neighbours of a line are neighbouring channels of a pixel, aligned as one access wants.
bool loads_packs(const LowerContext& ctx, const Columns& columns, const TensorRef& x,
                 int64_t pack) {
  bool fits = columns.layout == ColumnLayout::Pixels && pack > 1 && x.strides[1] == 1 &&
              columns.channels.divides_by(pack) && ctx.alignment(x) >= 16;
  for (size_t d = 0; d < x.strides.size(); ++d)
    fits = fits && (d == 1 || x.strides[d].divides_by(pack));
  return fits;
}

bool lower_im2col(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const TensorRef y = ctx.output(0);
  const std::optional<Columns> columns = columns_of_image(ctx, x.shape());
  if (!columns || !check_counts(ctx, *columns)) return false;
  const Dim count = element_count(y.shape());
  if (count == 0) return true;
  const uint32_t bytes = element_bytes(x.dtype());
  const int64_t pack = 16 / bytes;
  const bool packs = (bytes == 2 || bytes == 4) && count.divides_by(pack) && ctx.alignment(y) >= 16;
  const int64_t width = packs ? pack : 1;
  const bool whole = loads_packs(ctx, *columns, x, width);
  auto dispatch = ctx.dispatch<KernelId::im2col>();
  define_columns(dispatch, *columns, count);
  const std::array<Dim, kSpatialDims> spatial = spatial_strides(x.strides);
  dispatch.define("RLX_X", raw_type(x.dtype()))
      .size("RLX_IMAGE_N", x.strides[0])
      .size("RLX_IMAGE_C", x.strides[1])
      .size("RLX_IMAGE_D", spatial[0])
      .size("RLX_IMAGE_H", spatial[1])
      .size("RLX_IMAGE_W", spatial[2])
      .define("RLX_X_BYTES", bytes)
      .define("RLX_WIDTH", width)
      .define("RLX_LOADS_PACKS", whole ? 1 : 0)
      .grid(split_grid(ceil_div(count / width, kThreads)))
      .work(x.byte_range().length_bytes + byte_size(y.type), 0)
      .reason(std::to_string(width) + " elements per thread" + (whole ? ", loaded at once" : ""))
      .write(&CopyParams::y, y, width > 1 ? 16 : 0);
  if (element_count(x.shape()) > 0) dispatch.read(&CopyParams::x, x, whole ? 16 : 0);
  return true;
}

bool lower_col2im(LowerContext& ctx) {
  const TensorRef x = ctx.dense_input(0);
  const TensorRef y = ctx.output(0);
  const std::optional<Columns> columns = columns_of_node(ctx, x.shape());
  if (!columns || !check_counts(ctx, *columns)) return false;
  const Dim count = element_count(y.shape());
  if (count == 0) return true;
  auto dispatch = ctx.dispatch<KernelId::col2im>();
  define_columns(dispatch, *columns, count);
  dispatch.define("RLX_X", std::string(name_of(x.dtype())))
      .grid(split_grid(ceil_div(count, kThreads)))
      .work(byte_size(x.type) + byte_size(y.type), element_count(x.shape()))
      .reason("each pixel gathers up to " + std::to_string(columns->window.taps()) + " columns")
      .write(&CopyParams::y, y);
  if (element_count(x.shape()) > 0) dispatch.read(&CopyParams::x, x);
  return true;
}

constexpr AttrSpec list_of(std::string_view name, double minimum, bool required) {
  return {.name = name,
          .type = AttrType::IntList,
          .default_text = required ? "" : "[]",
          .required = required,
          .minimum = minimum,
          .maximum = kLargestInt};
}
constexpr AttrSpec kLayout = {
    .name = "layout", .type = AttrType::String, .default_text = "\"rows\"", .choices = kLayouts};
constexpr AttrSpec kIm2colAttrs[] = {list_of("kernel", 1, true), list_of("stride", 1, false),
                                     list_of("pads", 0, false), list_of("dilation", 1, false),
                                     kLayout};
constexpr AttrSpec kCol2imAttrs[] = {list_of("out_hw", 1, true),    list_of("kernel", 1, true),
                                     list_of("stride", 1, false),   list_of("pads", 0, false),
                                     list_of("dilation", 1, false), kLayout};

constexpr OpDef kIm2colOps[] = {
    {.name = "im2col",
     .signature = "im2col(x; kernel, stride, pads, dilation, layout=\"rows\") -> y",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kIm2colAttrs,
     .infer = infer_im2col,
     .evaluate = evaluate_im2col,
     .lower = lower_im2col},
    {.name = "col2im",
     .signature = "col2im(y; out_hw, kernel, stride, pads, dilation, layout=\"rows\") -> x",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kCol2imAttrs,
     .infer = infer_col2im,
     .evaluate = evaluate_col2im,
     .lower = lower_col2im},
};

}  // namespace

std::span<const OpDef> im2col_ops() {
  return kIm2colOps;
}

}  // namespace rlx
