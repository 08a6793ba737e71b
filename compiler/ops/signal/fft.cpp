// SPDX-License-Identifier: Apache-2.0
// fft, rfft, irfft, fftn, stft and fftfreq (ops.md 11.1), which become `fourier`.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ops/gradient.h"
#include "compiler/ops/signal/transform.h"
#include "compiler/support/complex_bits.h"

namespace rlx {
namespace {

constexpr uint32_t kStftOptional[] = {1};

// The form that a layout names; "auto": c64 as it is, real numbers planar.
SignalForm form_of(const NodeContext& ctx, const TensorType& x) {
  const std::string layout = ctx.attrs().text("layout");
  if (layout != "auto") return signal_form(layout);
  return x.dtype == DType::c64 ? SignalForm::Complex : SignalForm::Planar;
}

// A size as the number of a transform's points.
std::optional<Dim> points_from(NodeContext& ctx, const Dim& size, const std::string& what) {
  if (size.range().least >= 1) return size;
  ctx.fail(DiagCode::BadShape,
           what + " is " + to_string(size) + "; there is nothing to transform, wanted 1 or more",
           size.is_free() ? "give the size a minimum, as in --dim size=MIN:MAX" : "");
  return std::nullopt;
}

// n, or what the axis says.
std::optional<Dim> points_of(NodeContext& ctx, const Dim& from_axis, int64_t axis) {
  if (ctx.attrs().has("n")) return ctx.attrs().integers("n").at(0);
  return points_from(ctx, from_axis, "without n, the length from axis " + std::to_string(axis));
}

std::optional<Transform> fft_of(NodeContext& ctx, const TensorType& x) {
  const SignalForm form = form_of(ctx, x);
  const auto shape = complex_shape(ctx, x, form);
  if (!shape) return std::nullopt;
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape->size());
  if (!axis) return std::nullopt;
  const auto at = static_cast<size_t>(*axis);
  const auto points = points_of(ctx, (*shape)[at], *axis);
  if (!points) return std::nullopt;
  const bool inverse = ctx.attrs().flag("inverse");
  return Transform{.points = *points,
                   .axis = at,
                   .inverse = inverse,
                   .divisor = divisor_of(ctx.attrs().text("norm"), inverse),
                   .from = form,
                   .to = form,
                   .bins = *points};
}

std::optional<Transform> rfft_of(NodeContext& ctx, const TensorType& x) {
  if (!complex_shape(ctx, x, SignalForm::Real)) return std::nullopt;
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), x.shape.size());
  if (!axis) return std::nullopt;
  const auto points = points_of(ctx, x.shape[static_cast<size_t>(*axis)], *axis);
  if (!points) return std::nullopt;
  return Transform{.points = *points,
                   .axis = static_cast<size_t>(*axis),
                   .divisor = divisor_of(ctx.attrs().text("norm"), false),
                   .from = SignalForm::Real,
                   .to = signal_form(ctx.attrs().text("layout")),
                   .bins = ctx.attrs().flag("onesided") ? *points / 2 + 1 : *points};
}

std::optional<Transform> irfft_of(NodeContext& ctx, const TensorType& x) {
  const SignalForm form = form_of(ctx, x);
  const auto shape = complex_shape(ctx, x, form);
  if (!shape) return std::nullopt;
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), shape->size());
  if (!axis) return std::nullopt;
  const auto points = points_of(ctx, 2 * ((*shape)[static_cast<size_t>(*axis)] - 1), *axis);
  if (!points) return std::nullopt;
  return Transform{.points = *points,
                   .axis = static_cast<size_t>(*axis),
                   .inverse = true,
                   .divisor = divisor_of(ctx.attrs().text("norm"), true),
                   .from = form,
                   .to = SignalForm::Real,
                   .half = true,
                   .bins = *points};
}

// Of the signal as it is transformed, behind the padding of center.
std::optional<Transform> stft_of(NodeContext& ctx, const TensorType& x) {
  const bool is_complex = x.dtype == DType::c64;
  const SignalForm form = is_complex ? SignalForm::Complex : SignalForm::Real;
  if (!complex_shape(ctx, x, form)) return std::nullopt;
  if (x.shape.empty()) {
    ctx.fail(DiagCode::BadRank, "x is " + to_string(x) + ", wanted an axis of points");
    return std::nullopt;
  }
  const Dim frame = ctx.attrs().integers("frame_len").at(0);
  const Dim points = ctx.attrs().has("n_fft") ? ctx.attrs().integers("n_fft").at(0) : frame;
  if ((points - frame).range().least < 0) {
    ctx.fail(DiagCode::BadAttribute,
             "frame_len is " + to_string(frame) + ", wanted at most n_fft, " + to_string(points));
    return std::nullopt;
  }
  const bool onesided = ctx.attrs().flag("onesided");
  if (onesided && is_complex) {
    ctx.fail(DiagCode::BadAttribute, "x is complex and onesided is true",
             "a complex signal's spectrum has no symmetry: set onesided to false");
    return std::nullopt;
  }
  return Transform{.points = points,
                   .axis = x.shape.size() - 1,
                   .divisor = divisor_of(ctx.attrs().text("norm"), false),
                   .from = form,
                   .to = signal_form(ctx.attrs().text("layout")),
                   .bins = onesided ? points / 2 + 1 : points,
                   .hop = ctx.attrs().integer("hop"),
                   .frame = frame};
}

using TransformOf = std::optional<Transform> (*)(NodeContext&, const TensorType&);

template <TransformOf transform_of_node>
bool infer_transform(InferContext& ctx) {
  const auto transform = transform_of_node(ctx, ctx.input(0));
  if (!transform) return false;
  const auto shape = complex_shape(ctx, ctx.input(0), transform->from);
  const auto type = shape ? transform_type(ctx, *transform, *shape) : std::nullopt;
  if (!type) return false;
  ctx.set_output(0, *type);
  return true;
}

template <TransformOf transform_of_node>
bool evaluate_transform_node(EvaluateContext& ctx) {
  const auto transform = transform_of_node(ctx, ctx.input(0).type);
  if (!transform) return false;
  ctx.output(0) = transformed(ctx.input(0), *transform, nullptr, ctx.output_type(0));
  return true;
}

template <TransformOf transform_of_node>
bool decompose_transform(RewriteContext& ctx) {
  const auto transform = transform_of_node(ctx, ctx.type(ctx.input(0)));
  if (!transform) return false;
  ctx.replace_output(0, emit_transform(ctx, ctx.input(0), *transform));
  return true;
}

// ---- fftn ----

std::optional<Ints> fftn_axes(NodeContext& ctx, size_t rank) {
  if (ctx.attrs().has("axes")) return ctx.axes(ctx.attrs().integers("axes"), rank);
  Ints all(rank);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The transforms one behind the other; nullopt with a diagnostic.
std::optional<std::vector<Transform>> fftn_of(NodeContext& ctx, const TensorType& x) {
  const SignalForm form = x.dtype == DType::c64 ? SignalForm::Complex : SignalForm::Interleaved;
  const auto shape = complex_shape(ctx, x, form);
  const auto axes = shape ? fftn_axes(ctx, shape->size()) : std::nullopt;
  if (!axes) return std::nullopt;
  const bool inverse = ctx.attrs().flag("inverse");
  const std::string norm = ctx.attrs().text("norm");
  std::vector<Transform> transforms;
  for (const int64_t axis : *axes) {
    const auto at = static_cast<size_t>(axis);
    const auto points = points_from(ctx, (*shape)[at], "axis " + std::to_string(axis));
    if (!points) return std::nullopt;
    transforms.push_back({.points = *points,
                          .axis = at,
                          .inverse = inverse,
                          .divisor = divisor_of(norm, inverse),
                          .from = form,
                          .to = form,
                          .bins = *points});
  }
  return transforms;
}

bool infer_fftn(InferContext& ctx) {
  const auto transforms = fftn_of(ctx, ctx.input(0));
  if (!transforms) return false;
  for (const Transform& transform : *transforms) {
    const auto shape = complex_shape(ctx, ctx.input(0), transform.from);
    if (!shape || !transform_type(ctx, transform, *shape)) return false;
  }
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool decompose_fftn(RewriteContext& ctx) {
  const auto transforms = fftn_of(ctx, ctx.type(ctx.input(0)));
  if (!transforms) return false;
  ValueId y = ctx.input(0);
  for (const Transform& transform : *transforms) y = emit_transform(ctx, y, transform);
  ctx.replace_output(0, y);
  return true;
}

Tensor pairs_of(const Tensor& x) {
  TensorType type = {DType::f64, x.type.shape};
  type.shape.push_back(2);
  Tensor pairs = Tensor::zeros(type);
  for (size_t i = 0; i < x.integers.size(); ++i) {
    const std::complex<double> z = complex_from_bits(x.integers[i]);
    pairs.floats[2 * i] = z.real();
    pairs.floats[2 * i + 1] = z.imag();
  }
  return pairs;
}

Tensor complex_of(const Tensor& pairs, const TensorType& type) {
  Tensor y = Tensor::zeros(type);
  for (size_t i = 0; i < y.integers.size(); ++i)
    y.integers[i] = complex_to_bits({pairs.floats[2 * i], pairs.floats[2 * i + 1]});
  y.magnitudes = pairs.magnitudes;
  y.terms = pairs.terms;
  return y;
}

bool evaluate_fftn(EvaluateContext& ctx) {
  auto transforms = fftn_of(ctx, ctx.input(0).type);
  if (!transforms) return false;
  // Between the transforms, complex numbers are pairs of f64.
  const bool is_complex = ctx.input(0).type.dtype == DType::c64;
  Tensor y = is_complex ? pairs_of(ctx.input(0)) : ctx.input(0);
  for (Transform& transform : *transforms) {
    transform.from = transform.to = SignalForm::Interleaved;
    y = transformed(y, transform, nullptr, y.type);
  }
  ctx.output(0) = is_complex ? complex_of(y, ctx.output_type(0)) : std::move(y);
  return true;
}

// ---- stft ----

// Points that center adds on either side.
Dim centering(const NodeContext& ctx, const Transform& transform) {
  return ctx.attrs().flag("center") ? transform.points / 2 : 0;
}

TensorType padded_type(TensorType x, const Dim& each_side) {
  x.shape.back() += 2 * each_side;
  return x;
}

bool infer_stft(InferContext& ctx) {
  const auto transform = stft_of(ctx, ctx.input(0));
  if (!transform) return false;
  const Dim added = centering(ctx, *transform);
  const bool reflects = ctx.attrs().text("pad_mode") == "reflect";
  if (added > 0 && reflects && (ctx.shape(0).back() - added).range().least <= 0) {
    return ctx.fail(DiagCode::BadShape, "the signal has " + to_string(ctx.shape(0).back()) +
                                            " points, wanted more than n_fft / 2, " +
                                            to_string(added) + ", to reflect");
  }
  if (ctx.has_input(1)) {
    const TensorType window = {ctx.dtype(0) == DType::c64 ? DType::f32 : ctx.dtype(0),
                               {transform->frame}};
    if (ctx.input(1) != window) {
      return ctx.fail(DiagCode::BadShape,
                      "the window is " + to_string(ctx.input(1)) + ", wanted " + to_string(window));
    }
  }
  const auto type = transform_type(ctx, *transform, padded_type(ctx.input(0), added).shape);
  if (!type) return false;
  ctx.set_output(0, *type);
  return true;
}

bool evaluate_stft(EvaluateContext& ctx) {
  const auto transform = stft_of(ctx, ctx.input(0).type);
  if (!transform) return false;
  const int64_t added = centering(ctx, *transform);
  const bool reflects = ctx.attrs().text("pad_mode") == "reflect";
  const Tensor& x = ctx.input(0);
  Tensor padded = Tensor::zeros(padded_type(x.type, added));
  const int64_t length = x.type.shape.back();
  const int64_t longer = length + 2 * added;
  for (int64_t i = 0; i < padded.count(); ++i) {
    int64_t at = i % longer - added;
    if (reflects && at < 0) at = -at;
    if (reflects && at >= length) at = 2 * (length - 1) - at;
    if (at < 0 || at >= length) continue;
    const auto from = static_cast<size_t>(i / longer * length + at);
    const auto to = static_cast<size_t>(i);
    if (x.is_float()) padded.floats[to] = x.floats[from];
    if (!x.is_float()) padded.integers[to] = x.integers[from];
  }
  ctx.output(0) = transformed(padded, *transform, ctx.has_input(1) ? &ctx.input(1) : nullptr,
                              ctx.output_type(0));
  return true;
}

bool decompose_stft(RewriteContext& ctx) {
  ValueId x = ctx.input(0);
  const auto transform = stft_of(ctx, ctx.type(x));
  if (!transform) return false;
  const Dim added = centering(ctx, *transform);
  if (added > 0) {
    x = ctx.emit(
        "pad", {x},
        {{"pads", Ints{added, added}}, {"axes", Ints{-1}}, {"mode", ctx.attrs().text("pad_mode")}});
  }
  ctx.replace_output(0,
                     emit_transform(ctx, x, *transform,
                                    ctx.has_input(1) ? std::optional(ctx.input(1)) : std::nullopt));
  return true;
}

// ---- fftfreq ----

bool infer_fftfreq(InferContext& ctx) {
  const DType dtype = ctx.attrs().dtype("dtype");
  if (!is_float(dtype)) {
    return ctx.fail(DiagCode::BadDtype,
                    "dtype is " + std::string(name_of(dtype)) + ", wanted a float type");
  }
  ctx.set_output(0, {dtype, {ctx.attrs().integer("n")}});
  return true;
}

void fill_frequencies(const NodeContext& ctx, Tensor& y) {
  const int64_t n = y.type.shape[0];
  for (int64_t k = 0; k < n; ++k) {
    const int64_t cycles = 2 * k < n ? k : k - n;
    y.floats[static_cast<size_t>(k)] =
        static_cast<double>(cycles) / (static_cast<double>(n) * ctx.attrs().real("d"));
  }
}

bool evaluate_fftfreq(EvaluateContext& ctx) {
  fill_frequencies(ctx, ctx.output(0));
  return true;
}

bool decompose_fftfreq(RewriteContext& ctx) {
  Tensor table = Tensor::zeros(ctx.type(ctx.node().outputs[0]));
  fill_frequencies(ctx, table);
  ctx.replace_output(0, ctx.constant("frequencies", table));
  return true;
}

// ---- attributes ----

constexpr std::string_view kNorms[] = {"none", "backward", "ortho", "forward"};
constexpr std::string_view kLayouts[] = {"auto", "c64", "planar", "interleaved"};
constexpr std::string_view kSpectrumLayouts[] = {"c64", "planar", "interleaved"};
constexpr std::string_view kPadModes[] = {"reflect", "constant"};

constexpr AttrSpec kAxis = {.name = "axis", .type = AttrType::Int, .default_text = "-1"};
constexpr AttrSpec kInverse = {.name = "inverse", .type = AttrType::Bool, .default_text = "false"};
constexpr AttrSpec kNorm = {
    .name = "norm", .type = AttrType::String, .default_text = "\"none\"", .choices = kNorms};
constexpr AttrSpec kLayout = {
    .name = "layout", .type = AttrType::String, .default_text = "\"auto\"", .choices = kLayouts};
constexpr AttrSpec kSpectrumLayout = {.name = "layout",
                                      .type = AttrType::String,
                                      .default_text = "\"c64\"",
                                      .choices = kSpectrumLayouts};
constexpr AttrSpec kOnesided = {.name = "onesided", .type = AttrType::Bool, .default_text = "true"};
constexpr AttrSpec kLength = {
    .name = "n", .type = AttrType::Int, .minimum = 1, .maximum = kLargestInt};
constexpr AttrSpec points_attribute(std::string_view name, bool required) {
  return {.name = name,
          .type = AttrType::Int,
          .required = required,
          .minimum = 1,
          .maximum = kLargestInt};
}

constexpr AttrSpec kFftAttrs[] = {kLength, kAxis, kInverse, kNorm, kLayout};
constexpr AttrSpec kRfftAttrs[] = {kLength, kAxis, kNorm, kSpectrumLayout, kOnesided};
constexpr AttrSpec kIrfftAttrs[] = {kLength, kAxis, kNorm, kLayout};
constexpr AttrSpec kFftnAttrs[] = {{.name = "axes", .type = AttrType::IntList}, kInverse, kNorm};
constexpr AttrSpec kStftAttrs[] = {
    points_attribute("frame_len", true),
    points_attribute("hop", true),
    points_attribute("n_fft", false),
    kNorm,
    kSpectrumLayout,
    kOnesided,
    {.name = "center", .type = AttrType::Bool, .default_text = "false"},
    {.name = "pad_mode",
     .type = AttrType::String,
     .default_text = "\"reflect\"",
     .choices = kPadModes}};
constexpr AttrSpec kFftfreqAttrs[] = {
    {.name = "n", .type = AttrType::Int, .required = true, .minimum = 0, .maximum = kLargestInt},
    {.name = "d", .type = AttrType::Float, .default_text = "1"},
    {.name = "dtype", .type = AttrType::DTypeName, .default_text = "\"f32\""}};

// The adjoint: the other sign, scaled as the transform is.
bool fft_gradient(GradientContext& ctx) {
  const std::string layout = ctx.attrs().text("layout");
  const Shape& shape = ctx.shape(ctx.input(0));
  const bool is_planar = layout != "interleaved";
  const size_t rank = shape.size() - (is_planar ? 0 : 1);
  const int64_t axis = ctx.axis(ctx.attrs().integer("axis"), rank).value();
  const Dim points =
      is_planar ? shape[static_cast<size_t>(axis)] / 2 : shape[static_cast<size_t>(axis)];
  if (ctx.attrs().has("n") && ctx.attrs().integers("n").at(0) != points) {
    return ctx.fail(DiagCode::UnknownOp,
                    "a transform of another length than its axis has no gradient",
                    "narrow or pad before it");
  }
  const std::string norm = ctx.attrs().text("norm");
  const std::string turned = norm == "backward" ? "forward" : norm == "forward" ? "backward" : norm;
  ctx.give(0, ctx.emit("fft", {ctx.gradient()},
                       {{"axis", ctx.attrs().integer("axis")},
                        {"inverse", !ctx.attrs().flag("inverse")},
                        {"norm", turned},
                        {"layout", layout}}));
  return true;
}

constexpr OpDef kFftOps[] = {
    {.name = "fft",
     .signature = "fft(x; n=size of the axis, axis=-1, inverse=false, norm=\"none\", "
                  "layout=\"auto\") -> y",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kFftAttrs,
     .infer = infer_transform<fft_of>,
     .evaluate = evaluate_transform_node<fft_of>,
     .decompose = decompose_transform<fft_of>,
     .gradient = fft_gradient},
    {.name = "rfft",
     .signature =
         "rfft(x; n=size of the axis, axis=-1, norm=\"none\", layout=\"c64\", onesided=true) -> y",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kRfftAttrs,
     .infer = infer_transform<rfft_of>,
     .evaluate = evaluate_transform_node<rfft_of>,
     .decompose = decompose_transform<rfft_of>},
    {.name = "irfft",
     .signature = "irfft(x; n=2 (bins - 1), axis=-1, norm=\"none\", layout=\"auto\") -> y",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kIrfftAttrs,
     .infer = infer_transform<irfft_of>,
     .evaluate = evaluate_transform_node<irfft_of>,
     .decompose = decompose_transform<irfft_of>},
    {.name = "fftn",
     .signature = "fftn(x; axes=all, inverse=false, norm=\"none\") -> y",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kFftnAttrs,
     .infer = infer_fftn,
     .evaluate = evaluate_fftn,
     .decompose = decompose_fftn},
    {.name = "stft",
     .signature = "stft(x, [window]; frame_len, hop, n_fft=frame_len, norm=\"none\", "
                  "layout=\"c64\", onesided=true, center=false, pad_mode=\"reflect\") -> y",
     .inputs = {1, 2},
     .outputs = {1, 1},
     .attrs = kStftAttrs,
     .infer = infer_stft,
     .evaluate = evaluate_stft,
     .decompose = decompose_stft,
     .optional_inputs = kStftOptional},
    {.name = "fftfreq",
     .signature = "fftfreq(; n, d=1, dtype=\"f32\") -> y",
     .inputs = {0, 0},
     .outputs = {1, 1},
     .attrs = kFftfreqAttrs,
     .infer = infer_fftfreq,
     .evaluate = evaluate_fftfreq,
     .decompose = decompose_fftfreq},
};

}  // namespace

std::span<const OpDef> fft_ops() {
  return kFftOps;
}

}  // namespace rlx
