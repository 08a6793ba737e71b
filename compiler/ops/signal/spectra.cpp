// SPDX-License-Identifier: Apache-2.0
// log_mel and welch_peaks (ops.md 11.3, 11.4): what is made of spectra, as simpler ops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/ir/count_attribute.h"
#include "compiler/ops/lowering/size_values.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/complex_bits.h"

namespace rlx {
namespace {

constexpr double kLeastEnergy = 1e-10;
constexpr double kLoudnessRange = 8;  // below the loudest, in tens of decibels

// Where the parts of the first `bins` bins stand along the last axis.
struct Bins {
  Dim count = 1;
  Dim imaginary = 0;  // place of the first imaginary part; of c64 none
};

double energy_of(const Tensor& spec, const Bins& bins, size_t row, size_t bin) {
  const auto length = static_cast<size_t>(spec.type.shape.back().bound());
  const size_t at = row * length + bin;
  if (spec.type.dtype == DType::c64) return std::norm(complex_from_bits(spec.integers[at]));
  const double im = spec.floats[at + static_cast<size_t>(bins.imaginary.bound())];
  return spec.floats[at] * spec.floats[at] + im * im;
}

// re^2 + im^2 of the bins: f32, or f64 of f64.
ValueId emit_energy(RewriteContext& ctx, ValueId spec, const Bins& bins) {
  const auto part = [&](ValueId from, const Dim& start) {
    return ctx.emit("narrow", {from},
                    {{"axis", int64_t{-1}},
                     {"start", count_attribute(start)},
                     {"len", count_attribute(bins.count)}});
  };
  const DType dtype = ctx.type(spec).dtype;
  if (dtype == DType::c64) return ctx.emit("complex_norm_sq", {part(spec, 0)});
  const auto squared = [&](const Dim& start) {
    ValueId x = part(spec, start);
    if (dtype != DType::f64 && dtype != DType::f32)
      x = ctx.emit("cast", {x}, {{"to", std::string("f32")}});
    return ctx.emit("square", {x});
  };
  return ctx.emit("add", {squared(0), squared(bins.imaginary)});
}

ValueId emit_cast(RewriteContext& ctx, ValueId x, DType to) {
  return ctx.type(x).dtype == to ? x : ctx.emit("cast", {x}, {{"to", std::string(name_of(to))}});
}

ValueId emit_number(RewriteContext& ctx, std::string_view stem, DType dtype, double value) {
  Tensor tensor = Tensor::zeros({dtype, {}});
  tensor.floats[0] = value;
  return ctx.constant(stem, tensor);
}

// ---- log_mel ----

bool fail_bins(NodeContext& ctx, const TensorType& spec, const TensorType& filters) {
  return ctx.fail(DiagCode::BadShape,
                  "the spectrum is " + to_string(spec) + " beside filters " + to_string(filters) +
                      ", wanted filters [M, n_fft / 2 + 1] and a spectrum of n_fft points or of "
                      "those bins, planar or c64");
}

std::optional<Bins> mel_bins(NodeContext& ctx, const TensorType& spec, const TensorType& filters) {
  if (spec.shape.empty() || filters.shape.size() != 2) {
    fail_bins(ctx, spec, filters);
    return std::nullopt;
  }
  const Dim bins = filters.shape[1];
  const Dim length = spec.shape.back();
  const bool is_complex = spec.dtype == DType::c64;
  const Dim points = is_complex ? length : length / 2;
  const bool fits = points == bins || (points.range().least >= 1 && points / 2 + 1 == bins);
  if (!fits || bins.range().least < 1 || (!is_complex && !length.divides_by(2))) {
    fail_bins(ctx, spec, filters);
    return std::nullopt;
  }
  return Bins{.count = bins, .imaginary = is_complex ? Dim(0) : points};
}

bool infer_log_mel(InferContext& ctx) {
  const TensorType& spec = ctx.input(0);
  const TensorType& filters = ctx.input(1);
  const DType real = spec.dtype == DType::c64 ? DType::f32 : spec.dtype;
  const bool is_complex = ctx.attrs().text("layout") == "c64";
  if (!is_float(real) || filters.dtype != real || is_complex != (spec.dtype == DType::c64)) {
    return ctx.fail(DiagCode::BadDtype,
                    "the spectrum is " + to_string(spec) + " and the filters " +
                        to_string(filters) + " with layout " + ctx.attrs().text("layout") +
                        ", wanted one float type, or c64 with layout c64 and f32 filters");
  }
  if (!mel_bins(ctx, spec, filters)) return false;
  Shape shape = spec.shape;
  shape.back() = filters.shape[0];
  ctx.set_output(0, {real, shape});
  return true;
}

// Rows of log energies that share a maximum.
size_t scope_rows(const NodeContext& ctx, const Shape& y, size_t rows) {
  const std::string scope = ctx.attrs().text("scope");
  if (scope == "frame") return 1;
  if (scope == "tensor" || y.size() < 2) return rows;
  return static_cast<size_t>(y[y.size() - 2].bound());
}

bool evaluate_log_mel(EvaluateContext& ctx) {
  const Tensor& spec = ctx.input(0);
  const Tensor& filters = ctx.input(1);
  Tensor& y = ctx.output(0);
  const auto bins = mel_bins(ctx, spec.type, filters.type);
  if (!bins) return false;
  const auto mels = static_cast<size_t>(filters.type.shape[0].bound());
  const auto count = static_cast<size_t>(bins->count.bound());
  const size_t rows = mels == 0 ? 0 : y.floats.size() / mels;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t mel = 0; mel < mels; ++mel) {
      double energy = 0;
      for (size_t bin = 0; bin < count; ++bin)
        energy += filters.floats[mel * count + bin] * energy_of(spec, *bins, row, bin);
      y.floats[row * mels + mel] =
          std::log10(std::isnan(energy) ? energy : std::max(energy, kLeastEnergy));
    }
  }
  const size_t shared = rows == 0 ? 0 : scope_rows(ctx, y.type.shape, rows) * mels;
  for (size_t first = 0; shared > 0 && first < y.floats.size(); first += shared) {
    double loudest = -std::numeric_limits<double>::infinity();
    for (size_t i = first; i < first + shared; ++i)
      loudest = std::isnan(y.floats[i]) || y.floats[i] > loudest ? y.floats[i] : loudest;
    for (size_t i = first; i < first + shared; ++i)
      y.floats[i] = (std::max(y.floats[i], loudest - kLoudnessRange) + 4) / 4;
  }
  return true;
}

Ints scope_axes(const NodeContext& ctx, size_t rank) {
  const std::string scope = ctx.attrs().text("scope");
  const size_t first = scope == "tensor" ? 0 : rank - (scope == "clip" && rank > 1 ? 2 : 1);
  Ints axes(rank - first);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(first));
  return axes;
}

bool decompose_log_mel(RewriteContext& ctx) {
  const ValueId spec = ctx.input(0);
  const TensorType type = ctx.type(ctx.node().outputs[0]);
  const auto bins = mel_bins(ctx, ctx.type(spec), ctx.type(ctx.input(1)));
  if (!bins) return false;
  ValueId energy = emit_energy(ctx, spec, *bins);
  const DType dtype = ctx.type(energy).dtype;
  const bool one_frame = type.shape.size() == 1;
  if (one_frame) energy = ctx.emit("reshape", {energy}, {{"shape", Ints{1, bins->count}}});
  ValueId mel =
      ctx.emit("matmul", {energy, emit_cast(ctx, ctx.input(1), dtype)}, {{"trans_b", true}});
  if (one_frame) mel = ctx.emit("reshape", {mel}, {{"shape", type.shape}});
  const ValueId heard = ctx.emit("max", {mel, emit_number(ctx, "least", dtype, kLeastEnergy)});
  const ValueId loudness = ctx.emit("log10", {heard});
  const ValueId loudest =
      ctx.emit("reduce_max", {loudness},
               {{"axes", scope_axes(ctx, type.shape.size())}, {"keep_dims", true}});
  const ValueId floor =
      ctx.emit("sub", {loudest, emit_number(ctx, "range", dtype, kLoudnessRange)});
  const ValueId kept = ctx.emit("max", {loudness, floor});
  const ValueId y = ctx.emit("affine", {kept}, {{"mul", 0.25}, {"add", 1.0}});
  ctx.replace_output(0, emit_cast(ctx, y, type.dtype));
  return true;
}

// ---- welch_peaks ----

struct Welch {
  Dim points = 1;  // n_fft
  int64_t segments = 1;
  int64_t peaks = 1;  // k

  [[nodiscard]] Dim bins() const { return points / 2 + 1; }
};

std::optional<Welch> welch_of(NodeContext& ctx, const TensorType& spec) {
  if (spec.shape.size() != 2 || spec.shape[1].range().least < 2 || !spec.shape[1].divides_by(2)) {
    ctx.fail(DiagCode::BadShape, "the spectrum is " + to_string(spec) +
                                     ", wanted [batch * n_segments, 2 * n_fft], n_fft at least 1");
    return std::nullopt;
  }
  const Welch welch{.points = spec.shape[1] / 2,
                    .segments = ctx.attrs().integer("n_segments"),
                    .peaks = ctx.attrs().integer("k")};
  if (spec.shape[0].divides_by(welch.segments)) return welch;
  ctx.fail(DiagCode::BadShape, "the spectrum has " + to_string(spec.shape[0]) +
                                   " rows, wanted a multiple of n_segments, " +
                                   std::to_string(welch.segments));
  return std::nullopt;
}

bool infer_welch_peaks(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  if (!is_float(dtype)) {
    return ctx.fail(DiagCode::BadDtype,
                    "the spectrum is " + std::string(name_of(dtype)) + ", wanted a float type");
  }
  const auto welch = welch_of(ctx, ctx.input(0));
  if (!welch) return false;
  const Dim batch = ctx.shape(0)[0] / welch->segments;
  if (ctx.attrs().flag("packed")) {
    ctx.set_output(0, {dtype, {batch, 2 * welch->peaks}});
    return true;
  }
  ctx.set_output(0, {DType::i32, {batch, welch->peaks}});
  ctx.set_output(1, {dtype, {batch, welch->peaks}});
  return true;
}

// Most bins stand for their mirror images too.
double weight_of(size_t bin, size_t points) {
  return bin == 0 || 2 * bin == points ? 1 : 2;
}

bool evaluate_welch_peaks(EvaluateContext& ctx) {
  const Tensor& spec = ctx.input(0);
  const auto welch = welch_of(ctx, spec.type);
  if (!welch) return false;
  const Bins parts{.count = welch->bins(), .imaginary = welch->points};
  const auto bins = static_cast<size_t>(welch->bins().bound());
  const auto points = static_cast<size_t>(welch->points.bound());
  const auto peaks = static_cast<size_t>(welch->peaks);
  const auto segments = static_cast<size_t>(welch->segments);
  const bool packed = ctx.attrs().flag("packed");
  const size_t batch = static_cast<size_t>(spec.type.shape[0].bound()) / segments;
  for (size_t item = 0; item < batch; ++item) {
    std::vector<double> powers(bins);
    for (size_t bin = 0; bin < bins; ++bin) {
      for (size_t segment = 0; segment < segments; ++segment)
        powers[bin] += energy_of(spec, parts, item * segments + segment, bin);
      powers[bin] *= weight_of(bin, points) / static_cast<double>(segments);
    }
    std::vector<size_t> order(bins);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return powers[a] > powers[b]; });
    for (size_t i = 0; i < peaks; ++i) {
      const bool missing = i >= bins;
      const double power = missing ? 0 : powers[order[i]];
      const auto bin = missing ? int64_t{-1} : static_cast<int64_t>(order[i]);
      const size_t at = item * peaks + i;
      if (packed) {
        ctx.output(0).floats[2 * at] = static_cast<double>(bin);
        ctx.output(0).floats[2 * at + 1] = power;
        continue;
      }
      ctx.output(0).integers[at] = bin;
      if (ctx.output_count() > 1) ctx.output(1).floats[at] = power;
    }
  }
  return true;
}

// Of each bin, where the run gives their number computed by it.
ValueId emit_weights(RewriteContext& ctx, const Welch& welch, DType dtype) {
  if (!welch.points.is_free()) {
    Tensor weights = Tensor::zeros({dtype, {welch.bins()}});
    for (size_t bin = 0; bin < weights.floats.size(); ++bin)
      weights.floats[bin] = weight_of(bin, static_cast<size_t>(welch.points.bound()));
    return ctx.constant("weights", weights);
  }
  const auto number = [&ctx](double value) { return ctx.scalar(DType::i64, value); };
  const ValueId doubled =
      ctx.emit("ramp", {number(0), number(2)}, {{"count", count_attribute(welch.bins())}});
  const ValueId alone =
      ctx.emit("logical_or", {ctx.emit("eq", {doubled, number(0)}),
                              ctx.emit("eq", {doubled, emit_size(ctx, welch.points)})});
  return ctx.emit("where", {alone, ctx.scalar(dtype, 1), ctx.scalar(dtype, 2)});
}

bool decompose_welch_peaks(RewriteContext& ctx) {
  const TensorType spec = ctx.type(ctx.input(0));
  const auto welch = welch_of(ctx, spec);
  if (!welch) return false;
  const Dim bins = welch->bins();
  const Dim batch = spec.shape[0] / welch->segments;
  const ValueId energy =
      emit_energy(ctx, ctx.input(0), {.count = bins, .imaginary = welch->points});
  const DType dtype = ctx.type(energy).dtype;
  const ValueId segments =
      ctx.emit("reshape", {energy}, {{"shape", Ints{batch, welch->segments, bins}}});
  const ValueId mean = ctx.emit("reduce_mean", {segments}, {{"axes", Ints{1}}});
  ValueId density = ctx.emit("mul", {mean, emit_weights(ctx, *welch, dtype)});
  // Peaks that may be more than there are bins are found behind these, where no power is.
  const bool may_miss = bins.range().least < welch->peaks;
  if (may_miss) {
    density = ctx.emit("pad", {density},
                       {{"pads", Ints{0, welch->peaks}}, {"axes", Ints{1}}, {"value", -1.0}});
  }
  const std::vector<ValueId> best = ctx.emit_all("topk", {density}, {{"k", welch->peaks}}, 2);
  const auto found = [&](ValueId x, double otherwise) {
    if (!may_miss) return x;
    const ValueId missing = ctx.emit("lt", {best[0], ctx.scalar(dtype, 0)});
    return ctx.emit("where", {missing, ctx.scalar(ctx.dtype(x), otherwise), x});
  };
  const ValueId powers = emit_cast(ctx, found(best[0], 0), spec.dtype);
  const ValueId places = found(best[1], -1);
  if (!ctx.attrs().flag("packed")) {
    ctx.replace_output(0, places);
    if (ctx.node().outputs.size() > 1) ctx.replace_output(1, powers);
    return true;
  }
  const ValueId pairs =
      ctx.emit("stack", {emit_cast(ctx, places, spec.dtype), powers}, {{"axis", int64_t{2}}});
  ctx.replace_output(0, ctx.emit("reshape", {pairs}, {{"shape", Ints{batch, 2 * welch->peaks}}}));
  return true;
}

constexpr std::string_view kScopes[] = {"clip", "tensor", "frame"};
constexpr std::string_view kMelLayouts[] = {"planar", "c64"};
constexpr AttrSpec kLogMelAttrs[] = {
    {.name = "scope", .type = AttrType::String, .default_text = "\"clip\"", .choices = kScopes},
    {.name = "layout",
     .type = AttrType::String,
     .default_text = "\"planar\"",
     .choices = kMelLayouts},
};
constexpr AttrSpec welch_count(std::string_view name) {
  return {
      .name = name, .type = AttrType::Int, .required = true, .minimum = 1, .maximum = kLargestInt};
}
constexpr AttrSpec kWelchPeaksAttrs[] = {
    welch_count("k"),
    welch_count("n_segments"),
    {.name = "packed", .type = AttrType::Bool, .default_text = "false"},
};

constexpr OpDef kSpectraOps[] = {
    {.name = "log_mel",
     .signature = "log_mel(spec, filters; scope=\"clip\", layout=\"planar\") -> y",
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attrs = kLogMelAttrs,
     .infer = infer_log_mel,
     .evaluate = evaluate_log_mel,
     .decompose = decompose_log_mel},
    {.name = "welch_peaks",
     .signature = "welch_peaks(spec; k, n_segments, packed=false) -> bins, [powers]",
     .inputs = {1, 1},
     .outputs = {1, 2},
     .attrs = kWelchPeaksAttrs,
     .infer = infer_welch_peaks,
     .evaluate = evaluate_welch_peaks,
     .decompose = decompose_welch_peaks},
};

}  // namespace

std::span<const OpDef> spectra_ops() {
  return kSpectraOps;
}

}  // namespace rlx
