// SPDX-License-Identifier: Apache-2.0
// pool and global_pool (ops.md 9.3): shapes, evaluation and lowering. global_pool becomes a
// reduction.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/channels_last.h"
#include "compiler/ops/lowering/conv_window.h"
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/vision/pool_offers.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr std::array<std::string_view, 5> kKinds = {"max", "min", "sum", "mean", "prod"};
enum class PoolKind : uint8_t {
  Max,
  Min,
  Sum,
  Mean,
  Prod
};  // in the order of kKinds and of shaders/pool.kernel
// Up to this many taps a thread takes a window of its own.
constexpr int64_t kSmallWindow = 64;
constexpr uint32_t kPoolThreads = 256;
constexpr std::array<int64_t, 2> kVectors = {8, 4};  // channels of an access, the wider first

// The OpDef admits no other word.
PoolKind kind_of_node(const NodeContext& ctx) {
  const std::string text = ctx.attrs().text("kind");
  return static_cast<PoolKind>(std::find(kKinds.begin(), kKinds.end(), text) - kKinds.begin());
}

bool is_extreme(PoolKind kind) {
  return kind == PoolKind::Max || kind == PoolKind::Min;
}

// Floats, and for max and min integers too.
bool check_dtype(InferContext& ctx, PoolKind kind) {
  const DType dtype = ctx.dtype(0);
  if (is_float(dtype) || (is_extreme(kind) && is_integer(dtype))) return true;
  return ctx.fail(DiagCode::BadDtype,
                  "x is " + std::string(name_of(dtype)) + "; wanted a float dtype" +
                      (is_extreme(kind) ? " or an integer" : " for this kind"),
                  "insert a cast");
}

bool check_rank(InferContext& ctx) {
  const size_t rank = ctx.shape(0).size();
  if (rank >= 3 && rank <= 2 + kSpatialDims) return true;
  return ctx.fail(DiagCode::BadRank, "x has rank " + std::to_string(rank) +
                                         "; wanted [N, C, spatial..] with 1 to 3 spatial dims");
}

std::optional<Window> window_of(NodeContext& ctx, const Shape& x) {
  const Shape spatial(x.begin() + 2, x.end());
  const Ints kernel = ctx.attrs().integers("kernel");
  if (kernel.size() != spatial.size()) {
    ctx.fail(DiagCode::BadRank, "kernel has " + std::to_string(kernel.size()) + " values; wanted " +
                                    std::to_string(spatial.size()) + ", one per spatial dim of x " +
                                    to_string(x));
    return std::nullopt;
  }
  const bool ceil = ctx.attrs().flag("ceil_mode");
  return read_window(ctx, spatial, kernel, ceil ? WindowRounding::Ceil : WindowRounding::Floor);
}

bool check_indices(InferContext& ctx, PoolKind kind) {
  const DType dtype = ctx.attrs().dtype("index_dtype");
  bool good = true;
  if (dtype != DType::i32 && dtype != DType::i64 && dtype != DType::u32 && dtype != DType::f32) {
    good = ctx.fail(DiagCode::BadAttribute, "index_dtype is " + std::string(name_of(dtype)) +
                                                "; wanted i32, i64, u32 or f32");
  }
  if (ctx.node().outputs.size() > 1 && kind != PoolKind::Max) {
    good = ctx.fail(DiagCode::BadArity, "only kind \"max\" has a second output, the indices");
  }
  return good;
}

bool infer_pool(InferContext& ctx) {
  const PoolKind kind = kind_of_node(ctx);
  bool good = check_dtype(ctx, kind);
  good = check_indices(ctx, kind) && good;
  if (!check_rank(ctx)) return false;
  const std::optional<Window> window = window_of(ctx, ctx.shape(0));
  if (!window || !good) return false;
  Shape shape = {ctx.shape(0)[0], ctx.shape(0)[1]};
  for (const Dim& size : window->out_shape()) shape.push_back(size);
  ctx.set_output(0, {ctx.dtype(0), shape});
  if (ctx.node().outputs.size() > 1) ctx.set_output(1, {ctx.attrs().dtype("index_dtype"), shape});
  return true;
}

// ---- evaluate ----

// The taps of one window that lie inside the input, as offsets in the plane, and the count that a
// mean divides by.
struct Taps {
  std::vector<int64_t> offsets;
  int64_t counted = 0;
};

Taps taps_of(const FixedWindow& window, std::array<int64_t, kSpatialDims> at, bool count_pads) {
  Taps taps;
  for (int64_t tap = 0; tap < window.taps(); ++tap) {
    int64_t rest = tap;
    int64_t offset = 0;
    int64_t scale = 1;
    bool inside = true;
    bool before_end = true;
    for (size_t d = kSpatialDims; d-- > 0;) {
      const int64_t position =
          at[d] * window.stride[d] + rest % window.kernel[d] * window.dilation[d] - window.begin[d];
      rest /= window.kernel[d];
      inside = inside && position >= 0 && position < window.in[d];
      before_end = before_end && position < window.in[d] + window.end[d];
      offset += position * scale;
      scale *= window.in[d];
    }
    if (inside) taps.offsets.push_back(offset);
    if (count_pads ? before_end : inside) ++taps.counted;
  }
  return taps;
}

template <typename Element>
struct Extreme {
  Element value;
  int64_t offset = 0;
};

template <typename Element>
Extreme<Element> extreme_of(const std::vector<Element>& x, size_t plane, const Taps& taps,
                            PoolKind kind, Element identity) {
  Extreme<Element> best{.value = identity};
  bool first = true;
  for (const int64_t offset : taps.offsets) {
    const Element value = x[plane + static_cast<size_t>(offset)];
    const bool is_nan = value != value;
    const bool best_is_nan = best.value != best.value;
    const bool better = kind == PoolKind::Max ? value > best.value : value < best.value;
    if (first || (!best_is_nan && (is_nan || better))) best = {.value = value, .offset = offset};
    first = false;
  }
  return best;
}

struct Combined {
  double value = 0;
  double magnitude = 0;
};
Combined combine(const std::vector<double>& x, size_t plane, const Taps& taps, PoolKind kind,
                 int64_t divisor) {
  Combined result;
  if (kind == PoolKind::Prod) result.value = 1;
  for (const int64_t offset : taps.offsets) {
    const double value = x[plane + static_cast<size_t>(offset)];
    result.value = kind == PoolKind::Prod ? result.value * value : result.value + value;
    result.magnitude += std::abs(value);
  }
  if (kind == PoolKind::Prod) result.magnitude = std::abs(result.value);
  if (kind != PoolKind::Mean) return result;
  const auto n = static_cast<double>(divisor != 0 ? divisor : std::max<int64_t>(taps.counted, 1));
  return {.value = result.value / n, .magnitude = result.magnitude / n};
}

void store_index(Tensor& indices, size_t i, int64_t offset) {
  if (indices.is_float()) {
    indices.floats[i] = static_cast<double>(offset);
  } else {
    indices.integers[i] = offset;
  }
}

bool evaluate_pool(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const PoolKind kind = kind_of_node(ctx);
  const std::optional<Window> window = window_of(ctx, x.type.shape);
  if (!window) return false;
  const FixedWindow fixed = numbers_of(*window);
  const bool count_pads = ctx.attrs().flag("count_include_pad");
  const int64_t divisor = ctx.attrs().integer("divisor_override");
  Tensor& y = ctx.output(0);
  if (!is_extreme(kind)) {
    y.magnitudes.resize(y.floats.size());
    y.terms = fixed.taps();
  }
  const bool floats = x.is_float();
  const auto count = static_cast<size_t>(y.count());
  for (size_t i = 0; i < count; ++i) {
    std::array<int64_t, kSpatialDims> at{};
    auto rest = static_cast<int64_t>(i);
    for (size_t d = kSpatialDims; d-- > 0;) {
      at[d] = rest % fixed.out[d];
      rest /= fixed.out[d];
    }
    const size_t plane = static_cast<size_t>(rest) * static_cast<size_t>(fixed.in_count());
    const Taps taps = taps_of(fixed, at, count_pads);
    int64_t index = 0;
    if (!is_extreme(kind)) {
      const Combined combined = combine(x.floats, plane, taps, kind, divisor);
      y.floats[i] = combined.value;
      y.magnitudes[i] = combined.magnitude;
    } else if (floats) {
      const double infinity = std::numeric_limits<double>::infinity();
      const auto best =
          extreme_of(x.floats, plane, taps, kind, kind == PoolKind::Max ? -infinity : infinity);
      y.floats[i] = best.value;
      index = best.offset;
    } else {
      const IntegerRange range = integer_range(x.type.dtype);
      const auto best = extreme_of(x.integers, plane, taps, kind,
                                   kind == PoolKind::Max ? range.lowest : range.highest);
      y.integers[i] = best.value;
      index = best.offset;
    }
    if (ctx.output_count() > 1) store_index(ctx.output(1), i, index);
  }
  return true;
}

// ---- lower ----

// The value of a window without taps, of x's compute type.
std::string identity_of(PoolKind kind, DType dtype) {
  const std::string type = "RLX_CAT(rlx_t_, " + std::string(name_of(dtype)) + ")";
  if (!is_extreme(kind)) return type + (kind == PoolKind::Prod ? "(1)" : "(0)");
  const bool lowest = kind == PoolKind::Max;
  if (is_float(dtype))
    return type + "(rlx_from_bits(" + (lowest ? "0xFF800000u" : "0x7F800000u") + "))";
  if (dtype == DType::i64) return lowest ? "(rlx_i64(1) << 63)" : "(~(rlx_i64(1) << 63))";
  if (dtype == DType::i32) return lowest ? "(-2147483647 - 1)" : "2147483647";
  const IntegerRange range = integer_range(dtype);
  return type + "(" + std::to_string(lowest ? range.lowest : range.highest) +
         (dtype == DType::u32 ? "u)" : ")");
}

// "int" where every offset inside a plane fits.
std::string plane_index_type(const Window& window, const std::array<Dim, kSpatialDims>& strides) {
  int64_t reach = 0;
  for (size_t d = 0; d < kSpatialDims; ++d) {
    const Dim step = strides[d] < 0 ? -strides[d] : strides[d];
    reach += ((window.in[d] - 1) * step).range().most;
  }
  return index_type(IndexUse::Offset, reach);
}

// What a pool and the gradient of one know alike: the windows over x.
void define_windows(DispatchBuilder<PoolParams>& dispatch, const Window& window,
                    const TensorRef& x) {
  const std::array<Dim, kSpatialDims> strides = spatial_strides(x.strides);
  define_window(dispatch, window);
  dispatch.size("RLX_END_D", window.end[0])
      .size("RLX_END_H", window.end[1])
      .size("RLX_END_W", window.end[2])
      .define("RLX_INDEX", plane_index_type(window, strides))
      .define("RLX_X", std::string(name_of(x.dtype())))
      .size("RLX_X_N", x.strides[0])
      .size("RLX_X_C", x.strides[1])
      .size("RLX_X_D", strides[0])
      .size("RLX_X_H", strides[1])
      .size("RLX_X_W", strides[2])
      .size("RLX_PLANES", x.shape()[0] * x.shape()[1])
      .size("RLX_CHANNELS", x.shape()[1])
      .define("RLX_MAY_BE_NAN", is_float(x.dtype()) ? 1 : 0);
}

void define_pool(DispatchBuilder<PoolParams>& dispatch, const LowerContext& ctx,
                 const Window& window, const TensorRef& x, PoolKind kind) {
  define_windows(dispatch, window, x);
  dispatch.define("RLX_GRADIENT", 0)
      .define("RLX_KIND", static_cast<int64_t>(kind))
      .define("RLX_COUNT_PADS", ctx.attrs().flag("count_include_pad") ? 1 : 0)
      .define("RLX_DIVISOR", ctx.attrs().integer("divisor_override"))
      .define("RLX_IDENTITY", identity_of(kind, x.dtype()))
      .define("RLX_WITH_INDICES", ctx.has_output(1) ? 1 : 0);
}

// Where y does not stand as a dense tensor does.
void define_result(DispatchBuilder<PoolParams>& dispatch, const TensorRef& y) {
  if (y.dense()) return;
  const Dim& images = y.shape()[0];
  const Dim& channels = y.shape()[1];
  dispatch.size("RLX_Y_N", images == 1 ? Dim(0) : y.strides[0])
      .size("RLX_Y_C", channels == 1 ? Dim(0) : y.strides[1])
      .size("RLX_Y_PIXEL", pixel_stride(y).value());
}

std::string pool_place_refusal(const LoweringState& /*state*/, const Node& /*node*/,
                               const TensorRef& place) {
  const std::optional<Dim> pixel = pixel_stride(place);
  if (!pixel) return "pool writes pixels at one distance";
  if (most_of({place.strides[0], place.strides[1], *pixel}) > kCountLimit)
    return "pool writes within 32-bit strides";
  return {};
}

// Whether neighbouring channels of any pixel are one access of so many elements.
bool has_channel_vectors(const OfferContext& at, const TensorRef& ref, int64_t vector) {
  bool fits = ref.strides[1] == 1 && ref.shape()[1].divides_by(vector) &&
              at.alignment(ref) >= vector * element_bytes(ref.dtype());
  for (size_t i = 0; i < ref.strides.size(); ++i)
    fits = fits && (i == 1 || ref.strides[i].divides_by(vector));
  return fits;
}

// How many neighbouring channels of any pixel are one aligned access of at most 16 bytes, to x and
// to y; 1 where they are none.
int64_t channel_vector(const OfferContext& at, const TensorRef& x, const TensorRef& y) {
  const uint32_t bytes = element_bytes(x.dtype());
  if (!is_float(x.dtype()) || bytes > 4) return 1;
  for (const int64_t vector : kVectors) {
    if (vector * bytes <= 16 && has_channel_vectors(at, x, vector) &&
        has_channel_vectors(at, y, vector))
      return vector;
  }
  return 1;
}

// What the table of forms is asked of.
struct Pooling {
  TensorRef x;
  TensorRef y;
  std::optional<TensorRef> indices;
  Window window;
  PoolKind kind;

  // Neighbouring channels of a pixel are neighbours in y.
  [[nodiscard]] bool is_channels_last() const {
    return !y.dense() && y.shape()[1] > 1 && y.strides[1] == 1;
  }
};

// Which threads take a window.
struct PoolThreads {
  bool along_channels = false;
  int64_t lanes = 1;
  int64_t vector = 1;  // channels
};

std::string pool_reason(const Pooling& pooling, const PoolThreads& threads) {
  return std::string("pool: a ") + (threads.lanes == 1 ? "thread" : "workgroup") + " per " +
         (threads.vector > 1 ? std::to_string(threads.vector) + " channels' windows" : "window") +
         " of " + std::to_string(pooling.window.taps()) + " taps" +
         (threads.along_channels ? ", channels last" : "");
}

Dim bytes_of(const Pooling& pooling) {
  return pooling.x.byte_range().length_bytes + byte_size(pooling.y.type);
}
Dim flops_of(const Pooling& pooling) {
  return element_count(pooling.y.shape()) * pooling.window.taps();
}

// At the largest sizes.
StepWork work_of(const Pooling& pooling) {
  return {.bytes = static_cast<uint64_t>(bytes_of(pooling).bound()),
          .flops = static_cast<uint64_t>(flops_of(pooling).bound())};
}

bool dispatch_pool(LowerContext& ctx, const Pooling& pooling, const PoolThreads& threads) {
  const TensorRef& x = pooling.x;
  const TensorRef& y = pooling.y;
  const int64_t rows = kPoolThreads / threads.lanes;
  const Dim windows = element_count(y.shape()) / threads.vector;
  const uint32_t alignment =
      threads.vector > 1 ? static_cast<uint32_t>(threads.vector) * element_bytes(x.dtype()) : 0;
  auto dispatch = ctx.dispatch<KernelId::pool>();
  define_pool(dispatch, ctx, pooling.window, x, pooling.kind);
  dispatch.workgroup({kPoolThreads, 1, 1})
      .define("RLX_CHANNELS_LAST", threads.along_channels ? 1 : 0)
      .define("RLX_VECTOR", threads.vector)
      .define("RLX_LANES", threads.lanes)
      .define("RLX_ROWS", rows)
      .define("RLX_LINEAR", index_type(IndexUse::Linear, windows.range().most + rows))
      .grid(split_grid(ceil_div(windows, rows)))
      .work(bytes_of(pooling), flops_of(pooling))
      .reason(pool_reason(pooling, threads))
      .write(&PoolParams::y, y, alignment);
  define_result(dispatch, y);
  if (element_count(x.shape()) > 0) dispatch.read(&PoolParams::x, x, alignment);
  if (pooling.indices) {
    dispatch.define("RLX_INDICES", std::string(name_of(pooling.indices->dtype())))
        .write(&PoolParams::indices, *pooling.indices);
  }
  return true;
}

double pool_bound(const OfferContext& at, const Pooling& pooling) {
  return thread_bound_microseconds(at.device(), work_of(pooling));
}

bool emit_along_channels(LowerContext& ctx, const Pooling& pooling) {
  const bool vectors = !pooling.indices && element_count(pooling.x.shape()) > 0;
  return dispatch_pool(
      ctx, pooling,
      {.along_channels = true, .vector = vectors ? channel_vector(ctx, pooling.x, pooling.y) : 1});
}

constexpr std::array kPoolOffers = {
    // Neighbouring threads write neighbours.
    Offer<Pooling>{.kernel = KernelId::pool,
                   .form = "channels",
                   .rank = 0,
                   .estimate = Estimate::Bound,
                   .refusal = [](const OfferContext&, const Pooling& pooling) -> std::string {
                     return pooling.is_channels_last() ? ""
                                                       : "channels that are no neighbours in y";
                   },
                   .microseconds = pool_bound,
                   .emit = emit_along_channels,
                   .takes_free_sizes = true},
    // Each thread alone would take long.
    Offer<Pooling>{.kernel = KernelId::pool,
                   .form = "workgroup",
                   .rank = 1,
                   .estimate = Estimate::Bound,
                   .refusal = [](const OfferContext&, const Pooling& pooling) -> std::string {
                     if (pooling.window.taps() > kSmallWindow) return {};
                     return "windows of at most " + std::to_string(kSmallWindow) + " taps";
                   },
                   .microseconds = pool_bound,
                   .emit =
                       [](LowerContext& ctx, const Pooling& pooling) {
                         return dispatch_pool(ctx, pooling, {.lanes = kPoolThreads});
                       },
                   .takes_free_sizes = true},
    // Takes everything.
    Offer<Pooling>{.kernel = KernelId::pool,
                   .form = "thread",
                   .rank = 2,
                   .estimate = Estimate::Bound,
                   .refusal = [](const OfferContext&, const Pooling&) { return std::string(); },
                   .microseconds = pool_bound,
                   .emit = [](LowerContext& ctx,
                              const Pooling& pooling) { return dispatch_pool(ctx, pooling, {}); },
                   .takes_free_sizes = true},
};

bool lower_pool(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const PoolKind kind = kind_of_node(ctx);
  const std::optional<Window> window = window_of(ctx, x.shape());
  if (!window) return false;
  const Dim count = element_count(ctx.output_type(0).shape);
  const TensorRef y = ctx.output(0);
  std::optional<TensorRef> indices;
  if (ctx.has_output(1)) indices = ctx.output(1);
  static_cast<void>(
      ctx.attrs().dtype("index_dtype"));  // that of the indices, where they are wanted
  if (most_of({window->in_count(), window->out_count(), x.shape()[0] * x.shape()[1]}) >
      kCountLimit) {
    return ctx.fail(DiagCode::UnsupportedOp, "a plane or the count of planes of x " +
                                                 to_string(x.shape()) +
                                                 " exceeds the kernel's 32-bit counts");
  }
  if (count == 0) {
    // Attributes that only steer the values are used up by an empty result.
    static_cast<void>(ctx.attrs().flag("count_include_pad"));
    static_cast<void>(ctx.attrs().integer("divisor_override"));
    return true;
  }
  return lower_by_offers(
      ctx, std::span<const Offer<Pooling>>(kPoolOffers),
      Pooling{.x = x, .y = y, .indices = indices, .window = *window, .kind = kind});
}

// ---- max_pool_backward ----

// The widest access that x, dy and dx have in common.
int64_t gradient_vector(const OfferContext& at, const TensorRef& x, const TensorRef& dy,
                        const TensorRef& dx) {
  const int64_t vector = channel_vector(at, x, dx);
  return vector > 1 && has_channel_vectors(at, dy, vector) ? vector : 1;
}

void define_dy(DispatchBuilder<PoolParams>& dispatch, const TensorRef& dy) {
  const std::array<Dim, kSpatialDims> strides = spatial_strides(dy.strides);
  dispatch.size("RLX_DY_N", dy.strides[0])
      .size("RLX_DY_C", dy.strides[1])
      .size("RLX_DY_D", strides[0])
      .size("RLX_DY_H", strides[1])
      .size("RLX_DY_W", strides[2]);
}

// ---- global_pool ----

std::string reduction_of(PoolKind kind) {
  return "reduce_" + std::string(kKinds.at(static_cast<size_t>(kind)));
}

Ints spatial_axes(size_t rank) {
  Ints axes;
  for (size_t i = 2; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

bool infer_global(InferContext& ctx) {
  const bool good = check_dtype(ctx, kind_of_node(ctx));
  if (!check_rank(ctx) || !good) return false;
  Shape shape = ctx.shape(0);
  std::fill(shape.begin() + 2, shape.end(), 1);
  ctx.set_output(0, {ctx.dtype(0), shape});
  return true;
}

bool evaluate_global(EvaluateContext& ctx) {
  Node node;
  node.name = ctx.node().name;
  node.op = reduction_of(kind_of_node(ctx));
  node.attributes = {{"axes", spatial_axes(ctx.input(0).type.shape.size())}, {"keep_dims", true}};
  Diagnostics diagnostics;
  auto result = evaluate_node(node, {&ctx.input(0)}, {ctx.output_type(0)}, diagnostics);
  if (!result) return ctx.fail(DiagCode::UnsupportedOp, diagnostics.text());
  ctx.output(0) = std::move(result->front());
  return true;
}

bool decompose_global(RewriteContext& ctx) {
  const Ints axes = spatial_axes(ctx.type(ctx.input(0)).shape.size());
  const std::string op = reduction_of(kind_of_node(ctx));
  ctx.replace_output(0, ctx.emit(op, {ctx.input(0)}, {{"axes", axes}, {"keep_dims", true}}));
  return true;
}

constexpr std::array kPoolAttrs = {
    AttrSpec{.name = "kind", .type = AttrType::String, .required = true, .choices = kKinds},
    AttrSpec{.name = "kernel",
             .type = AttrType::IntList,
             .required = true,
             .minimum = 1,
             .maximum = kLargestInt},
    AttrSpec{.name = "stride",
             .type = AttrType::IntList,
             .default_text = "[]",
             .minimum = 1,
             .maximum = kLargestInt},
    AttrSpec{.name = "pads",
             .type = AttrType::IntList,
             .default_text = "[]",
             .minimum = 0,
             .maximum = kLargestInt},
    AttrSpec{.name = "dilation",
             .type = AttrType::IntList,
             .default_text = "[]",
             .minimum = 1,
             .maximum = kLargestInt},
    AttrSpec{.name = "ceil_mode", .type = AttrType::Bool, .default_text = "false"},
    AttrSpec{.name = "count_include_pad", .type = AttrType::Bool, .default_text = "false"},
    AttrSpec{.name = "divisor_override",
             .type = AttrType::Int,
             .default_text = "0",
             .maximum = kLargestInt},
    AttrSpec{.name = "index_dtype", .type = AttrType::DTypeName, .default_text = "\"i32\""},
};
constexpr std::array kGlobalAttrs = {
    AttrSpec{.name = "kind", .type = AttrType::String, .required = true, .choices = kKinds},
};

bool pool_gradient(GradientContext& ctx) {
  const PoolKind kind = kind_of_node(ctx);
  const ValueId x = ctx.input(0);
  if (kind == PoolKind::Prod)
    return ctx.fail(DiagCode::UnknownOp, "kind \"prod\" has no gradient", "sum logarithms");
  Attributes attributes = {{"ceil_mode", ctx.attrs().flag("ceil_mode")}};
  for (const char* name : {"kernel", "stride", "pads", "dilation"}) {
    const Ints values = ctx.attrs().integers(name);
    if (!values.empty()) attributes[name] = values;
  }
  if (is_extreme(kind)) {
    const ValueId seen = kind == PoolKind::Min ? ctx.emit("neg", {x}) : x;
    ctx.give(0, ctx.emit("max_pool_backward", {seen, ctx.gradient()}, std::move(attributes)));
    return true;
  }
  attributes["x_shape"] = ctx.shape(x);
  attributes["divisor_override"] =
      kind == PoolKind::Sum ? int64_t{1} : ctx.attrs().integer("divisor_override");
  attributes["count_include_pad"] = ctx.attrs().flag("count_include_pad");
  ctx.give(0, ctx.emit("mean_pool_backward", {ctx.gradient()}, std::move(attributes)));
  return true;
}

constexpr std::array kPoolOps = {
    OpDef{.name = "pool",
          .signature = "pool(x; kind, kernel, stride, pads, dilation, ceil_mode=false, "
                       "count_include_pad=false, "
                       "divisor_override=0, index_dtype=i32) -> y, [indices]",
          .inputs = {1, 1},
          .outputs = {1, 2},
          .attrs = kPoolAttrs,
          .infer = infer_pool,
          .evaluate = evaluate_pool,
          .gradient = pool_gradient,
          .lower = lower_pool,
          .reads_strides = true,
          .place_refusal = pool_place_refusal,
          .any_layout = true},
    OpDef{.name = "global_pool",
          .signature = "global_pool(x; kind) -> y",
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attrs = kGlobalAttrs,
          .infer = infer_global,
          .evaluate = evaluate_global,
          .decompose = decompose_global},
};

}  // namespace

bool lower_max_pool_gradient(LowerContext& ctx, const Window& window) {
  const TensorRef x = ctx.input(0);
  const TensorRef dy = ctx.input(1);
  const TensorRef dx = ctx.output(0);
  const Dim count = element_count(dx.shape());
  if (most_of({window.in_count(), window.out_count(), x.shape()[0] * x.shape()[1]}) > kCountLimit) {
    return ctx.fail(DiagCode::UnsupportedOp, "a plane or the count of planes of x " +
                                                 to_string(x.shape()) +
                                                 " exceeds the kernel's 32-bit counts");
  }
  if (count == 0) return true;
  const bool along_channels = !dx.dense() && dx.shape()[1] > 1 && dx.strides[1] == 1;
  const int64_t vector = along_channels ? gradient_vector(ctx, x, dy, dx) : 1;
  const Dim threads = count / vector;
  const uint32_t alignment =
      vector > 1 ? static_cast<uint32_t>(vector) * element_bytes(x.dtype()) : 0;
  auto dispatch = ctx.dispatch<KernelId::pool>();
  define_windows(dispatch, window, x);
  define_dy(dispatch, dy);
  define_result(dispatch, dx);
  const Dim bytes = 2 * x.byte_range().length_bytes + dy.byte_range().length_bytes;
  dispatch.define("RLX_GRADIENT", 1)
      .define("RLX_KIND", static_cast<int64_t>(PoolKind::Max))
      .define("RLX_CHANNELS_LAST", along_channels ? 1 : 0)
      .define("RLX_WITH_INDICES", 0)
      .define("RLX_LANES", 1)
      .define("RLX_VECTOR", vector)
      .define("RLX_LINEAR", index_type(IndexUse::Linear, threads.range().most + kPoolThreads))
      .workgroup({kPoolThreads, 1, 1})
      .grid(split_grid(ceil_div(threads, kPoolThreads)))
      .work(bytes, count * window.taps())
      .reason("gradient of max: a thread per " +
              (vector > 1 ? std::to_string(vector) + " channels of a pixel" : "pixel") +
              (along_channels ? ", channels last" : ""))
      .read(&PoolParams::x, x, alignment)
      .write(&PoolParams::y, dx, alignment);
  if (element_count(dy.shape()) > 0) dispatch.read(&PoolParams::indices, dy, alignment);
  return true;
}

std::vector<std::string> pool_offer_names() {
  return offer_names(std::span<const Offer<Pooling>>(kPoolOffers));
}

std::span<const OpDef> pool_ops() {
  return kPoolOps;
}

}  // namespace rlx
