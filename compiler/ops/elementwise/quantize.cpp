// SPDX-License-Identifier: Apache-2.0
// quantize, dequantize, fake_quantize, fake_quantize_lsq (ops.md 3.9), all elementwise once their
// scales are laid out to broadcast.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "compiler/ops/gradient.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/blocks.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr double kLeastScale = 1e-12;
// Beyond it an 8- or 16-bit code is at its limit whatever the zero point.
constexpr double kRoundedLimit = 0x1p20;

bool is_code(DType dtype) {
  return dtype == DType::i8 || dtype == DType::u8 || dtype == DType::i16 || dtype == DType::i32;
}

bool is_code_or_float8(DType dtype) {
  return is_code(dtype) || is_float8(dtype);
}

std::string text(DType dtype) {
  return std::string(name_of(dtype));
}

Attributes to_dtype(DType dtype) {
  return {{"to", text(dtype)}};
}

// How scales lie over a tensor: one for all, one per index of an axis, or one per `block` indices.
struct ScaleLayout {
  Dim outer = 1;
  Dim size = 1;  // of the axis; 1 where there is none
  Dim inner = 1;
  int64_t block = 0;  // 0: not in blocks
  bool has_axis = false;
  Shape shape;  // that scales and zero points have; any shape of one element without an axis

  [[nodiscard]] Dim blocks() const { return block == 0 ? size : ceil_div(size, block); }
  // Which scale element i of the tensor has.
  [[nodiscard]] int64_t place(int64_t i) const {
    if (!has_axis) return 0;
    const int64_t columns = inner;
    const int64_t rows = size;
    const int64_t d = i / columns % rows;
    if (block == 0) return d;
    const int64_t lines = ceil_div(rows, block);
    return (i / (columns * rows) * lines + d / block) * columns + i % columns;
  }
};

// nullopt after a diagnostic. fake_quantize has no block_size.
std::optional<ScaleLayout> read_layout(NodeContext& ctx, const Shape& shape, bool may_have_blocks) {
  ScaleLayout layout;
  if (may_have_blocks) layout.block = ctx.attrs().integer("block_size");
  if (!ctx.attrs().has("axis")) {
    if (layout.block == 0) return layout;
    ctx.fail(DiagCode::BadAttribute, "block_size wants an axis");
    return std::nullopt;
  }
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return std::nullopt;
  layout.has_axis = true;
  layout.outer = element_count(Shape(shape.begin(), shape.begin() + *axis));
  layout.size = shape[static_cast<size_t>(*axis)];
  layout.inner = element_count(Shape(shape.begin() + *axis + 1, shape.end()));
  layout.shape = {layout.size};
  if (layout.block != 0) {
    layout.shape = shape;
    layout.shape[static_cast<size_t>(*axis)] = layout.blocks();
  }
  return layout;
}

// ---- quantize and dequantize: shapes ----

bool check_side(InferContext& ctx, size_t input, const char* name, const ScaleLayout& layout) {
  const bool one = !layout.has_axis && element_count(ctx.shape(input)) == 1;
  if (one || (layout.has_axis && ctx.shape(input) == layout.shape)) return true;
  return ctx.fail(DiagCode::BadShape,
                  std::string(name) + " is " + to_string(ctx.input(input)) + ", wanted " +
                      (layout.has_axis ? to_string(layout.shape) : std::string("one value")));
}

bool check_list(InferContext& ctx, const char* name, size_t count, const ScaleLayout& layout) {
  const auto wanted = static_cast<size_t>(layout.has_axis ? element_count(layout.shape) : 1);
  if (count == wanted) return true;
  return ctx.fail(DiagCode::BadAttribute, std::string(name) + " has " + std::to_string(count) +
                                              " values, wanted " + std::to_string(wanted));
}

// `values`: dtype of what is quantised; `codes`: of its codes.
bool check_scales(InferContext& ctx, DType values, DType codes) {
  const auto layout = read_layout(ctx, ctx.shape(0), true);
  if (!layout) return false;
  if (is_float8(codes) && (ctx.has_input(2) || ctx.attrs().has("zero_points"))) {
    return ctx.fail(DiagCode::BadArity,
                    "codes of " + text(codes) + " have no zero points, wanted none");
  }
  if (ctx.has_input(1) == ctx.attrs().has("scales")) {
    return ctx.fail(DiagCode::BadArity, "wanted either the input scale or the attribute scales");
  }
  if (ctx.has_input(2) && ctx.attrs().has("zero_points")) {
    return ctx.fail(DiagCode::BadArity, "zero points are given both as input and as attribute");
  }
  if (ctx.has_input(1)) {
    const DType scale = ctx.dtype(1);
    if (!is_short_float(scale) && !(scale == DType::f64 && values == DType::f64)) {
      return ctx.fail(DiagCode::BadDtype,
                      "scale is " + text(scale) + ", wanted f32, f16 or bf16 (f64 beside f64)");
    }
    if (!check_side(ctx, 1, "scale", *layout)) return false;
  } else if (!check_list(ctx, "scales", ctx.attrs().reals("scales").size(), *layout)) {
    return false;
  }
  if (ctx.has_input(2)) {
    if (!is_code(ctx.dtype(2))) {
      return ctx.fail(DiagCode::BadDtype,
                      "zero point is " + text(ctx.dtype(2)) + ", wanted i8, u8, i16 or i32");
    }
    return check_side(ctx, 2, "zero point", *layout);
  }
  if (!ctx.attrs().has("zero_points")) return true;
  return check_list(ctx, "zero_points", ctx.attrs().integers("zero_points").size(), *layout);
}

bool infer_quantize(InferContext& ctx) {
  const DType to = ctx.attrs().dtype("to");
  if (!is_float(ctx.dtype(0))) {
    return ctx.fail(DiagCode::BadDtype, "x is " + text(ctx.dtype(0)) + ", wanted a float dtype");
  }
  if (!is_code_or_float8(to)) {
    return ctx.fail(DiagCode::UnsupportedOp, "there is no quantize to " + text(to) +
                                                 ", wanted i8, u8, i16, i32, f8e4m3 or f8e5m2");
  }
  if (!check_scales(ctx, ctx.dtype(0), to)) return false;
  ctx.set_output(0, {to, ctx.shape(0)});
  return true;
}

bool infer_dequantize(InferContext& ctx) {
  const DType to = ctx.attrs().dtype("to");
  if (!is_code_or_float8(ctx.dtype(0))) {
    return ctx.fail(DiagCode::UnsupportedOp, "there is no dequantize of " + text(ctx.dtype(0)) +
                                                 ", wanted i8, u8, i16, i32, f8e4m3 or f8e5m2");
  }
  if (!is_float(to)) {
    return ctx.fail(DiagCode::BadAttribute, "to is " + text(to) + ", wanted a float dtype");
  }
  if (!check_scales(ctx, to, ctx.dtype(0))) return false;
  ctx.set_output(0, {to, ctx.shape(0)});
  return true;
}

// ---- quantize and dequantize: evaluation ----

double scale_at(const EvaluateContext& ctx, int64_t place) {
  const auto i = static_cast<size_t>(place);
  if (ctx.has_input(1)) return ctx.input(1).floats[i];
  return static_cast<float>(ctx.attrs().reals("scales")[i]);
}
int64_t zero_at(const EvaluateContext& ctx, int64_t place) {
  const auto i = static_cast<size_t>(place);
  if (ctx.has_input(2)) return ctx.input(2).integers[i];
  return ctx.attrs().has("zero_points") ? ctx.attrs().integers("zero_points")[i] : 0;
}

// x / s as a device of that precision divides.
double quotient(DType dtype, double x, double s) {
  if (dtype == DType::f64) return x / s;
  return static_cast<float>(x) / static_cast<float>(s);
}

bool evaluate_quantize(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const ScaleLayout layout = read_layout(ctx, x.type.shape, true).value();
  const DType to = y.type.dtype;
  const IntegerRange range = is_float8(to) ? IntegerRange{0, 0} : integer_range(to);
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t place = layout.place(i);
    const double real =
        quotient(x.type.dtype, x.floats[static_cast<size_t>(i)], scale_at(ctx, place));
    if (is_float8(to)) {
      y.integers[static_cast<size_t>(i)] = float8_from_double(to, real, true);
      continue;
    }
    const int64_t zero = zero_at(ctx, place);
    const double rounded = std::nearbyint(real);
    const int64_t whole =
        std::isnan(rounded) ? 0 : static_cast<int64_t>(std::clamp(rounded, -0x1p40, 0x1p40));
    y.integers[static_cast<size_t>(i)] = std::clamp(whole + zero, range.lowest, range.highest);
  }
  return true;
}

bool evaluate_dequantize(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const ScaleLayout layout = read_layout(ctx, x.type.shape, true).value();
  const bool wide = y.type.dtype == DType::f64;
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t place = layout.place(i);
    if (is_float8(x.type.dtype)) {
      const auto bits = static_cast<uint8_t>(x.integers[static_cast<size_t>(i)]);
      y.floats[static_cast<size_t>(i)] =
          double_from_float8(x.type.dtype, bits) * scale_at(ctx, place);
      continue;
    }
    const auto difference =
        static_cast<int32_t>(x.integers[static_cast<size_t>(i)] - zero_at(ctx, place));
    const double code = wide ? difference : static_cast<float>(difference);
    y.floats[static_cast<size_t>(i)] = code * scale_at(ctx, place);
  }
  return true;
}

// ---- quantize and dequantize: decomposition ----

ValueId reshape(RewriteContext& ctx, ValueId x, const Shape& shape) {
  if (ctx.type(x).shape == shape) return x;
  return ctx.emit("reshape", {x}, {{"shape", Ints(shape)}});
}

ValueId cast(RewriteContext& ctx, ValueId x, DType dtype) {
  return ctx.type(x).dtype == dtype ? x : ctx.emit("cast", {x}, to_dtype(dtype));
}

ValueId scalar(RewriteContext& ctx, const char* stem, DType dtype, double value) {
  Tensor tensor = Tensor::zeros({dtype, {}});
  if (tensor.is_float()) {
    tensor.floats[0] = value;
  } else {
    tensor.integers[0] = static_cast<int64_t>(value);
  }
  return ctx.constant(stem, tensor);
}

// The shape in which a tensor meets its scales: [outer, size, inner], or with its axis in blocks.
// A partial last block leaves the axis whole, and the scales are repeated instead.
Shape met_shape(const ScaleLayout& layout, const Shape& shape) {
  if (!layout.has_axis) return shape;
  if (layout.block == 0 || !layout.size.divides_by(layout.block))
    return {layout.outer, layout.size, layout.inner};
  return {layout.outer, layout.blocks(), layout.block, layout.inner};
}

// Scales or zero points, to broadcast against met_shape.
ValueId met_scales(RewriteContext& ctx, ValueId s, const ScaleLayout& layout) {
  if (!layout.has_axis) return reshape(ctx, s, {});
  if (layout.block == 0) return reshape(ctx, s, {layout.size, 1});
  const Shape apart = {layout.outer, layout.blocks(), 1, layout.inner};
  s = reshape(ctx, s, apart);
  if (layout.size.divides_by(layout.block)) return s;
  s = ctx.emit("expand", {s},
               {{"shape", Ints{layout.outer, layout.blocks(), layout.block, layout.inner}}});
  s = reshape(ctx, s, {layout.outer, layout.blocks() * layout.block, layout.inner});
  return ctx.emit("narrow", {s},
                  {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"len", layout.size}});
}

// Input 1, or the attribute as a constant, in `dtype`.
ValueId scales_of(RewriteContext& ctx, const ScaleLayout& layout, DType dtype) {
  if (ctx.has_input(1)) return met_scales(ctx, cast(ctx, ctx.input(1), dtype), layout);
  Tensor values = Tensor::zeros({DType::f32, layout.has_axis ? layout.shape : Shape{}});
  values.floats = ctx.attrs().reals("scales");
  return met_scales(ctx, cast(ctx, ctx.constant("scales", values), dtype), layout);
}

// Input 2, or the attribute as a constant, in i32; nullopt where there is neither.
std::optional<ValueId> zeros_of(RewriteContext& ctx, const ScaleLayout& layout) {
  if (ctx.has_input(2)) return met_scales(ctx, cast(ctx, ctx.input(2), DType::i32), layout);
  if (!ctx.attrs().has("zero_points")) return std::nullopt;
  Tensor values = Tensor::zeros({DType::i32, layout.has_axis ? layout.shape : Shape{}});
  values.integers = numbers_of(ctx.attrs().integers("zero_points"));
  return met_scales(ctx, ctx.constant("zero_points", values), layout);
}

bool decompose_quantize(RewriteContext& ctx) {
  const TensorType type = ctx.type(ctx.input(0));
  const auto layout = read_layout(ctx, type.shape, true);
  if (!layout) return false;
  const DType to = ctx.attrs().dtype("to");
  const DType compute = type.dtype == DType::f64 ? DType::f64 : DType::f32;
  const ValueId x = reshape(ctx, cast(ctx, ctx.input(0), compute), met_shape(*layout, type.shape));
  ValueId y = ctx.emit("div", {x, scales_of(ctx, *layout, compute)});
  // The cast to an 8-bit float is the rounding.
  if (!is_float8(to)) y = ctx.emit("round", {y});
  // Sums with zero points must not wrap; a cast makes 0 of NaN, which leaves the zero point.
  const std::optional<ValueId> zeros = zeros_of(ctx, *layout);
  if (zeros && to == DType::i32) {
    y = ctx.emit("add", {cast(ctx, y, DType::i64), cast(ctx, *zeros, DType::i64)});
  } else if (zeros) {
    y = ctx.emit("clamp", {y}, {{"min", -kRoundedLimit}, {"max", kRoundedLimit}});
    y = ctx.emit("add", {cast(ctx, y, DType::i32), *zeros});
  }
  ctx.replace_output(0, reshape(ctx, cast(ctx, y, to), type.shape));
  return true;
}

bool decompose_dequantize(RewriteContext& ctx) {
  const TensorType type = ctx.type(ctx.input(0));
  const auto layout = read_layout(ctx, type.shape, true);
  if (!layout) return false;
  const DType to = ctx.attrs().dtype("to");
  const DType compute = to == DType::f64 ? DType::f64 : DType::f32;
  const DType difference = is_float8(type.dtype) ? compute : DType::i32;
  ValueId y = reshape(ctx, cast(ctx, ctx.input(0), difference), met_shape(*layout, type.shape));
  if (const auto zeros = zeros_of(ctx, *layout)) y = ctx.emit("sub", {y, *zeros});
  y = ctx.emit("mul", {cast(ctx, y, compute), scales_of(ctx, *layout, compute)});
  ctx.replace_output(0, reshape(ctx, cast(ctx, y, to), type.shape));
  return true;
}

// ---- fake quantisation ----

double largest_code(const NodeContext& ctx) {
  return std::pow(2.0, static_cast<double>(ctx.attrs().integer("bits") - 1)) - 1;
}

bool check_channels(InferContext& ctx, const char* name) {
  const auto layout = read_layout(ctx, ctx.shape(0), false);
  if (!layout) return false;
  if (!is_float(ctx.dtype(0))) {
    return ctx.fail(DiagCode::BadDtype, "x is " + text(ctx.dtype(0)) + ", wanted a float dtype");
  }
  if (!ctx.has_input(1)) return true;
  if (ctx.dtype(1) != DType::f32) {
    return ctx.fail(DiagCode::BadDtype,
                    std::string(name) + " is " + text(ctx.dtype(1)) + ", wanted f32");
  }
  return check_side(ctx, 1, name, *layout);
}

bool infer_lsq(InferContext& ctx) {
  if (!check_channels(ctx, "scale")) return false;
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool infer_fake_quantize(InferContext& ctx) {
  if (!check_channels(ctx, "scale_state")) return false;
  const std::string mode = ctx.attrs().text("scale_mode");
  if ((mode == "per_batch") == ctx.has_input(1)) {
    return ctx.fail(DiagCode::BadArity,
                    "scale_mode \"" + mode + "\" wants " +
                        (ctx.has_input(1) ? "no scale_state" : "a scale_state"));
  }
  const auto layout = read_layout(ctx, ctx.shape(0), false);
  ctx.set_output(0, ctx.input(0));
  if (ctx.node().outputs.size() > 1) {
    ctx.set_output(1, {DType::f32, ctx.has_input(1) ? ctx.shape(1) : layout->shape});
  }
  return true;
}

// y = clamp(round(x / s), -Q, Q) * s with the scales of each channel.
void evaluate_codes(EvaluateContext& ctx, const ScaleLayout& layout,
                    const std::vector<double>& scales) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const double limit = largest_code(ctx);
  for (int64_t i = 0; i < x.count(); ++i) {
    const double s = scales[static_cast<size_t>(layout.place(i))];
    const double code = std::nearbyint(quotient(x.type.dtype, x.floats[static_cast<size_t>(i)], s));
    y.floats[static_cast<size_t>(i)] =
        (std::isnan(code) ? code : std::clamp(code, -limit, limit)) * s;
  }
}

bool evaluate_lsq(EvaluateContext& ctx) {
  const ScaleLayout layout = read_layout(ctx, ctx.input(0).type.shape, false).value();
  std::vector<double> scales = ctx.input(1).floats;
  for (double& s : scales) s = std::max(s, static_cast<double>(static_cast<float>(kLeastScale)));
  evaluate_codes(ctx, layout, scales);
  return true;
}

// current of every channel, in the steps of f32.
std::vector<double> current_scales(const EvaluateContext& ctx, const ScaleLayout& layout) {
  const Tensor& x = ctx.input(0);
  std::vector<double> largest(static_cast<size_t>(layout.size), 0);
  for (int64_t i = 0; i < x.count(); ++i) {
    double& most = largest[static_cast<size_t>(layout.place(i))];
    const double magnitude = std::fabs(x.floats[static_cast<size_t>(i)]);
    if (!(magnitude <= most)) most = magnitude;  // NaN stays
  }
  const auto limit = static_cast<float>(largest_code(ctx));
  for (double& value : largest) {
    const float scale = static_cast<float>(value) / limit;
    value = scale < static_cast<float>(kLeastScale) ? static_cast<float>(kLeastScale) : scale;
  }
  return largest;
}

bool evaluate_fake_quantize(EvaluateContext& ctx) {
  const ScaleLayout layout = read_layout(ctx, ctx.input(0).type.shape, false).value();
  const std::string mode = ctx.attrs().text("scale_mode");
  std::vector<double> scales = current_scales(ctx, layout);
  const auto decay = static_cast<float>(ctx.attrs().real("decay"));
  for (size_t c = 0; c < scales.size(); ++c) {
    if (mode == "per_batch") continue;
    const auto state = static_cast<float>(ctx.input(1).floats[c]);
    if (mode == "fixed") {
      scales[c] = std::max(state, static_cast<float>(kLeastScale));
    } else if (state > 0) {
      scales[c] = decay * state + (1 - decay) * static_cast<float>(scales[c]);
    }
  }
  evaluate_codes(ctx, layout, scales);
  if (ctx.output_count() > 1) ctx.output(1).floats = scales;
  return true;
}

ValueId at_least(RewriteContext& ctx, ValueId x, double least) {
  return ctx.emit("max", {x, scalar(ctx, "least", ctx.type(x).dtype, least)});
}

// x in codes of the scales s (f32, [size] or one value) and back.
ValueId through_codes(RewriteContext& ctx, const ScaleLayout& layout, ValueId s) {
  const TensorType type = ctx.type(ctx.input(0));
  const DType compute = type.dtype == DType::f64 ? DType::f64 : DType::f32;
  const double limit = largest_code(ctx);
  const ValueId scales = met_scales(ctx, cast(ctx, s, compute), layout);
  ValueId y = reshape(ctx, cast(ctx, ctx.input(0), compute), met_shape(layout, type.shape));
  y = ctx.emit("round", {ctx.emit("div", {y, scales})});
  y = ctx.emit("clamp", {y}, {{"min", -limit}, {"max", limit}});
  y = ctx.emit("mul", {y, scales});
  return reshape(ctx, cast(ctx, y, type.dtype), type.shape);
}

bool decompose_lsq(RewriteContext& ctx) {
  const auto layout = read_layout(ctx, ctx.type(ctx.input(0)).shape, false);
  if (!layout) return false;
  ctx.replace_output(0, through_codes(ctx, *layout, at_least(ctx, ctx.input(1), kLeastScale)));
  return true;
}

// max(max|x_c| / Q, 1e-12), [size] or one value.
ValueId current_scale(RewriteContext& ctx, const ScaleLayout& layout) {
  const Shape rows = layout.has_axis ? Shape{layout.outer, layout.size, layout.inner}
                                     : Shape{1, 1, element_count(ctx.type(ctx.input(0)).shape)};
  ValueId largest = ctx.emit("abs", {reshape(ctx, ctx.input(0), rows)});
  // The maximum of nothing is -inf, which becomes the least scale.
  largest = ctx.emit("reduce_max", {largest}, {{"axes", Ints{0, 2}}});
  largest = reshape(ctx, cast(ctx, largest, DType::f32), layout.shape);
  const ValueId q = scalar(ctx, "largest_code", DType::f32, largest_code(ctx));
  return at_least(ctx, ctx.emit("div", {largest, q}), kLeastScale);
}

ValueId moving_scale(RewriteContext& ctx, ValueId state, ValueId current) {
  const auto decay = static_cast<float>(ctx.attrs().real("decay"));
  const ValueId kept = ctx.emit("mul", {state, scalar(ctx, "decay", DType::f32, decay)});
  const ValueId added = ctx.emit("mul", {current, scalar(ctx, "rest", DType::f32, 1 - decay)});
  const ValueId is_seeded = ctx.emit("gt", {state, scalar(ctx, "zero", DType::f32, 0)});
  return ctx.emit("where", {is_seeded, ctx.emit("add", {kept, added}), current});
}

bool decompose_fake_quantize(RewriteContext& ctx) {
  const auto layout = read_layout(ctx, ctx.type(ctx.input(0)).shape, false);
  if (!layout) return false;
  const std::string mode = ctx.attrs().text("scale_mode");
  ValueId scale{};
  if (mode == "fixed") {
    scale = at_least(ctx, ctx.input(1), kLeastScale);
  } else {
    scale = current_scale(ctx, *layout);
    if (mode == "ema") {
      const ValueId state = reshape(ctx, ctx.input(1), layout->shape);
      scale = moving_scale(ctx, state, scale);
    }
  }
  const ValueId y = through_codes(ctx, *layout, scale);
  if (ctx.node().outputs.size() > 1) {
    const Shape shape = ctx.type(ctx.node().outputs[1]).shape;
    ctx.replace_output(1, reshape(ctx, scale, shape));
  }
  ctx.replace_output(0, y);
  return true;
}

constexpr AttrSpec kAxis{.name = "axis", .type = AttrType::Int};
constexpr AttrSpec kScales{
    .name = "scales", .type = AttrType::FloatList, .minimum = std::numeric_limits<float>::min()};
constexpr AttrSpec kZeroPoints{.name = "zero_points",
                               .type = AttrType::IntList,
                               .minimum = std::numeric_limits<int32_t>::min(),
                               .maximum = std::numeric_limits<int32_t>::max()};
constexpr AttrSpec kBlockSize{
    .name = "block_size", .type = AttrType::Int, .default_text = "0", .minimum = 0};
constexpr AttrSpec kBits{
    .name = "bits", .type = AttrType::Int, .default_text = "8", .minimum = 2, .maximum = 8};
constexpr std::string_view kQuantizeModes[] = {"per_batch", "ema", "fixed"};
constexpr std::string_view kGradients[] = {"identity", "clipped_identity", "tanh", "hard_tanh"};

const AttrSpec kQuantizeAttrs[] = {
    kAxis,
    kScales,
    kZeroPoints,
    kBlockSize,
    {.name = "to",
     .type = AttrType::DTypeName,
     .default_text = "\"i8\"",
     .consumed_by_infer = true},
};
const AttrSpec kDequantizeAttrs[] = {
    kAxis,
    kScales,
    kZeroPoints,
    kBlockSize,
    {.name = "to",
     .type = AttrType::DTypeName,
     .default_text = "\"f32\"",
     .consumed_by_infer = true},
};
const AttrSpec kFakeAttrs[] = {
    kBits,
    kAxis,
    {.name = "scale_mode",
     .type = AttrType::String,
     .default_text = "\"per_batch\"",
     .choices = kQuantizeModes},
    {.name = "decay", .type = AttrType::Float, .default_text = "0.99", .minimum = 0, .maximum = 1},
    // Concerns the gradient only (ops.md 16.8).
    {.name = "ste",
     .type = AttrType::String,
     .default_text = "\"identity\"",
     .choices = kGradients,
     .consumed_by_infer = true},
};
const AttrSpec kLsqAttrs[] = {kBits, kAxis};
constexpr uint32_t kOptionalSides[] = {1, 2};
constexpr uint32_t kOptionalState[] = {1};

// ---- gradients (ops.md 16.8) ----

// What the gradients of pretended quantisation are made of; a scale per channel lies along its
// axis.
class FakeGradient {
 public:
  explicit FakeGradient(GradientContext& ctx)
      : ctx_(ctx), x_(ctx.widen(ctx.input(0))), along_(ctx.shape(x_).size(), Dim(1)) {
    const size_t rank = along_.size();
    std::optional<int64_t> axis;
    if (ctx.attrs().has("axis")) axis = ctx.axis(ctx.attrs().integer("axis"), rank).value();
    for (size_t i = 0; i < rank; ++i) {
      if (axis.value_or(-1) == static_cast<int64_t>(i)) {
        along_[i] = ctx.shape(x_)[i];
      } else {
        others_.emplace_back(static_cast<int64_t>(i));
      }
    }
    most_ = std::exp2(static_cast<double>(ctx.attrs().integer("bits") - 1)) - 1;
  }
  [[nodiscard]] ValueId x() const { return x_; }
  [[nodiscard]] double most() const { return most_; }
  [[nodiscard]] const Ints& others() const { return others_; }
  ValueId dy() { return ctx_.widen(ctx_.gradient()); }
  ValueId number(double value) { return ctx_.scalar(ctx_.dtype(x_), value); }
  ValueId scale(ValueId given) {
    const ValueId wide = ctx_.cast(given, ctx_.dtype(x_));
    return ctx_.emit("clamp", {ctx_.reshape(wide, along_)}, {{"min", 1e-12}});
  }
  // That of the batch.
  ValueId current() {
    const ValueId largest = ctx_.reduce("reduce_max", ctx_.emit("abs", {x_}), others_);
    return scale(ctx_.affine(largest, 1 / most_));
  }
  ValueId kept(ValueId condition, ValueId value) {
    return ctx_.emit("where", {condition, value, number(0)});
  }

 private:
  GradientContext& ctx_;
  ValueId x_;
  Shape along_;
  Ints others_;
  double most_ = 0;
};

bool fake_quantize_gradient(GradientContext& ctx) {
  FakeGradient f(ctx);
  const std::string ste = ctx.attrs().text("ste");
  const std::string mode = ctx.attrs().text("scale_mode");
  if (ste == "identity") {
    ctx.give(0, ctx.gradient());
    return true;
  }
  ValueId scale = f.x();
  if (mode == "per_batch") {
    scale = f.current();
  } else if (mode == "fixed") {
    scale = f.scale(ctx.input(1));
  } else {
    scale = f.scale(
        ctx.emit_all("fake_quantize", {ctx.input(0), ctx.input(1)}, ctx.node().attributes, 2)[1]);
  }
  const ValueId size = ctx.emit("abs", {f.x()});
  if (ste == "clipped_identity") {
    ctx.give(0, f.kept(ctx.emit("le", {size, ctx.affine(scale, f.most())}), f.dy()));
    return true;
  }
  ValueId slope = size;
  if (ste == "tanh") {
    const ValueId curve = ctx.emit("tanh", {ctx.emit("div", {f.x(), scale})});
    slope = ctx.affine(ctx.emit("square", {curve}), -1, 1);
  } else {
    slope = ctx.emit("relu", {ctx.affine(ctx.emit("div", {size, scale}), -1 / f.most(), 1)});
  }
  ctx.give(0, ctx.emit("mul", {f.dy(), slope}));
  return true;
}

bool lsq_gradient(GradientContext& ctx) {
  FakeGradient f(ctx);
  const ValueId z = ctx.emit("div", {f.x(), f.scale(ctx.input(1))});
  const ValueId is_inside = ctx.emit("le", {ctx.emit("abs", {z}), f.number(f.most())});
  ctx.give(0, f.kept(is_inside, f.dy()));
  if (!ctx.wants(1)) return true;
  const ValueId rest = ctx.emit("sub", {ctx.emit("round", {z}), z});
  const ValueId edge = ctx.affine(ctx.emit("sign", {z}), f.most());
  const ValueId share = ctx.emit("mul", {f.dy(), ctx.emit("where", {is_inside, rest, edge})});
  ctx.give(1, ctx.reshape(ctx.reduce("reduce_sum", share, f.others()), ctx.shape(ctx.input(1))));
  return true;
}

const OpDef kQuantizers[] = {
    {.name = "quantize",
     .signature = "quantize(x, [scale], [zp]; axis, scales, zero_points, block_size=0, to=i8) -> q",
     .inputs = {1, 3},
     .attrs = kQuantizeAttrs,
     .infer = infer_quantize,
     .evaluate = evaluate_quantize,
     .decompose = decompose_quantize,
     .optional_inputs = kOptionalSides},
    {.name = "dequantize",
     .signature =
         "dequantize(q, [scale], [zp]; axis, scales, zero_points, block_size=0, to=f32) -> y",
     .inputs = {1, 3},
     .attrs = kDequantizeAttrs,
     .infer = infer_dequantize,
     .evaluate = evaluate_dequantize,
     .decompose = decompose_dequantize,
     .optional_inputs = kOptionalSides},
    {.name = "fake_quantize",
     .signature = "fake_quantize(x, [scale_state]; bits=8, axis, scale_mode=\"per_batch\", "
                  "decay=0.99, ste=\"identity\") -> y, [new_scale]",
     .inputs = {1, 2},
     .outputs = {1, 2},
     .attrs = kFakeAttrs,
     .infer = infer_fake_quantize,
     .evaluate = evaluate_fake_quantize,
     .decompose = decompose_fake_quantize,
     .gradient = fake_quantize_gradient,
     .optional_inputs = kOptionalState},
    {.name = "fake_quantize_lsq",
     .signature = "fake_quantize_lsq(x, scale; bits=8, axis) -> y",
     .inputs = {2, 2},
     .attrs = kLsqAttrs,
     .infer = infer_lsq,
     .evaluate = evaluate_lsq,
     .decompose = decompose_lsq,
     .gradient = lsq_gradient},
};

}  // namespace

std::span<const OpDef> quantize_ops() {
  return kQuantizers;
}

}  // namespace rlx
