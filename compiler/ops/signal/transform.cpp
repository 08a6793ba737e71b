// SPDX-License-Identifier: Apache-2.0
// What every Fourier transform shares: forms of complex tensors, the definition, plans and tables.
#include "compiler/ops/signal/transform.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "compiler/ir/count_attribute.h"
#include "compiler/support/check.h"
#include "compiler/support/complex_bits.h"

namespace rlx {
namespace {

// Points of a row in 32 KiB of shared memory.
constexpr int64_t kMostSinglePoints = 4096;
constexpr int64_t kMostDoublePoints = 2048;

std::string text_of(SignalForm form) {
  return std::string(kSignalForms[static_cast<size_t>(form)]);
}

}  // namespace

SignalForm signal_form(std::string_view name) {
  const auto found = std::find(std::begin(kSignalForms), std::end(kSignalForms), name);
  RLX_CHECK(found != std::end(kSignalForms), "form of a signal: " + std::string(name));
  return static_cast<SignalForm>(found - std::begin(kSignalForms));
}

Divisor divisor(std::string_view name) {
  const auto found = std::find(std::begin(kDivisors), std::end(kDivisors), name);
  RLX_CHECK(found != std::end(kDivisors), "divisor of a transform: " + std::string(name));
  return static_cast<Divisor>(found - std::begin(kDivisors));
}

Divisor divisor_of(std::string_view norm, bool inverse) {
  if (norm == "ortho") return Divisor::Root;
  return norm == (inverse ? "backward" : "forward") ? Divisor::Points : Divisor::One;
}

double transform_scale(Divisor divisor, int64_t points) {
  const auto n = static_cast<double>(points);
  return divisor == Divisor::One ? 1 : 1 / (divisor == Divisor::Root ? std::sqrt(n) : n);
}

std::optional<Shape> complex_shape(NodeContext& ctx, const TensorType& x, SignalForm form) {
  Shape shape = x.shape;
  const bool is_complex = x.dtype == DType::c64;
  if (is_complex != (form == SignalForm::Complex) || (!is_complex && !is_float(x.dtype))) {
    ctx.fail(DiagCode::BadDtype, "x is " + to_string(x) + ", wanted " +
                                     (form == SignalForm::Complex ? "c64" : "a float type") +
                                     " for layout " + text_of(form));
    return std::nullopt;
  }
  if (form == SignalForm::Interleaved) {
    if (shape.size() < 2 || !(shape.back() == 2)) {
      ctx.fail(DiagCode::BadShape, "x is " + to_string(x) +
                                       ", wanted a last axis of 2 behind others for layout " +
                                       text_of(form));
      return std::nullopt;
    }
    shape.pop_back();
  }
  if (form == SignalForm::Planar) {
    if (shape.empty() || !shape.back().divides_by(2)) {
      ctx.fail(DiagCode::BadShape,
               "x is " + to_string(x) + ", wanted an even last axis for layout " + text_of(form));
      return std::nullopt;
    }
    shape.back() /= 2;
  }
  return shape;
}

std::optional<TensorType> transform_type(InferContext& ctx, const Transform& transform,
                                         const Shape& shape) {
  const DType x = ctx.dtype(0);
  const DType real = x == DType::c64 ? DType::f32 : x;
  if (!plan_of(transform, real)) {
    ctx.fail(DiagCode::Limit, "a transform of " + to_string(transform.points) +
                                  " points, wanted 1 to " +
                                  std::to_string(kMostSinglePoints * kMostSinglePoints / 2));
    return std::nullopt;
  }
  if (transform.to == SignalForm::Complex && real == DType::f64) {
    ctx.fail(DiagCode::BadDtype, "x is f64, of which there are no complex numbers",
             "layout \"interleaved\" or \"planar\" keeps f64");
    return std::nullopt;
  }
  const bool planar = transform.from == SignalForm::Planar || transform.to == SignalForm::Planar;
  if (planar && transform.axis + 1 != shape.size()) {
    ctx.fail(DiagCode::BadAttribute, "layout planar along axis " + std::to_string(transform.axis) +
                                         " of " + std::to_string(shape.size()) +
                                         ", wanted the last axis");
    return std::nullopt;
  }
  Shape result = shape;
  if (transform.hop > 0) {
    const Dim& length = shape.back();
    if ((length - transform.frame).range().least < 0) {
      ctx.fail(DiagCode::BadShape,
               "the signal has " + to_string(length) + " points, wanted at least the " +
                   to_string(transform.frame) + " of a frame",
               length.is_free() ? "give the size a minimum, as in --dim size=MIN:MAX" : "");
      return std::nullopt;
    }
    result.back() = (length - transform.frame) / transform.hop + 1;
    result.push_back(transform.bins);
  } else {
    result[transform.axis] = transform.bins;
  }
  if (transform.to == SignalForm::Planar) result.back() *= 2;
  if (transform.to == SignalForm::Interleaved) result.push_back(2);
  return TensorType{transform.to == SignalForm::Complex ? DType::c64 : real, result};
}

// ---- the definition, more precise than f64, whose errors it is to show ----

namespace {

struct Precise {
  long double re = 0;
  long double im = 0;
};

std::vector<Precise> precise_roots(int64_t n, bool inverse) {
  std::vector<Precise> roots;
  for (int64_t k = 0; k < n; ++k) {
    const long double turn = 2 * std::numbers::pi_v<long double> * static_cast<long double>(k) /
                             static_cast<long double>(n);
    roots.push_back({std::cos(turn), inverse ? std::sin(turn) : -std::sin(turn)});
  }
  return roots;
}

int64_t least_factor(int64_t n) {
  for (int64_t factor = 2; factor * factor <= n; ++factor) {
    if (n % factor == 0) return factor;
  }
  return n;
}

// The sums over every `stride`-th of `x` from `first` on, n of them; roots are those of x's count.
std::vector<Precise> precise_sums(const std::vector<Precise>& x, size_t first, size_t stride,
                                  const std::vector<Precise>& roots) {
  const size_t n = x.size() / stride;
  if (n == 1) return {x[first]};
  const auto parts = static_cast<size_t>(least_factor(static_cast<int64_t>(n)));
  std::vector<std::vector<Precise>> sums;
  for (size_t part = 0; part < parts; ++part)
    sums.push_back(precise_sums(x, first + part * stride, stride * parts, roots));
  std::vector<Precise> result(n);
  for (size_t k = 0; k < n; ++k) {
    for (size_t part = 0; part < parts; ++part) {
      const Precise& root = roots[part * k % n * stride];
      const Precise& sum = sums[part][k % (n / parts)];
      result[k].re += sum.re * root.re - sum.im * root.im;
      result[k].im += sum.re * root.im + sum.im * root.re;
    }
  }
  return result;
}

// The dense tensors of one evaluation: rows of `length` elements, `inner` apart.
struct Rows {
  SignalForm form = SignalForm::Real;
  int64_t length = 1;
  int64_t inner = 1;

  // The place of element i of a row among complex elements.
  [[nodiscard]] int64_t element(int64_t row, int64_t i) const {
    return (row / inner * length + i) * inner + row % inner;
  }
  // Of the real part among real numbers, and how much further on the imaginary part is.
  [[nodiscard]] size_t real_place(int64_t element) const {
    if (form == SignalForm::Interleaved) return static_cast<size_t>(2 * element);
    if (form == SignalForm::Planar)
      return static_cast<size_t>(element / length * 2 * length + element % length);
    return static_cast<size_t>(element);
  }
  [[nodiscard]] size_t imaginary_step() const {
    return form == SignalForm::Planar ? static_cast<size_t>(length) : 1;
  }
};

Precise element_of(const Tensor& x, const Rows& rows, int64_t element) {
  if (rows.form == SignalForm::Complex) {
    const std::complex<double> z = complex_from_bits(x.integers[static_cast<size_t>(element)]);
    return {z.real(), z.imag()};
  }
  const size_t place = rows.real_place(element);
  const bool real = rows.form == SignalForm::Real;
  return {x.floats[place], real ? 0 : x.floats[place + rows.imaginary_step()]};
}

void set_result(Tensor& y, const Rows& rows, int64_t element, std::complex<double> value,
                double magnitude) {
  if (rows.form == SignalForm::Complex) {
    const auto place = static_cast<size_t>(element);
    y.integers[place] = complex_to_bits(value);
    y.magnitudes[2 * place] = y.magnitudes[2 * place + 1] = magnitude;
    return;
  }
  const size_t place = rows.real_place(element);
  y.floats[place] = value.real();
  y.magnitudes[place] = magnitude;
  if (rows.form == SignalForm::Real) return;
  y.floats[place + rows.imaginary_step()] = value.imag();
  y.magnitudes[place + rows.imaginary_step()] = magnitude;
}

// A half of a spectrum that is one of a real signal.
void mirror(std::vector<Precise>& x) {
  const size_t n = x.size();
  x[0].im = 0;
  if (n % 2 == 0) x[n / 2].im = 0;
  for (size_t k = n / 2 + 1; k < n; ++k) x[k] = {x[n - k].re, -x[n - k].im};
}

Shape dense_complex_shape(const Tensor& tensor, SignalForm form) {
  Shape shape = tensor.type.shape;
  if (form == SignalForm::Interleaved) shape.pop_back();
  if (form == SignalForm::Planar) shape.back() /= 2;
  return shape;
}

}  // namespace

Tensor transformed(const Tensor& x, const Transform& transform, const Tensor* window,
                   const TensorType& type) {
  Tensor y = Tensor::zeros(type);
  const Shape from = dense_complex_shape(x, transform.from);
  const Shape to = dense_complex_shape(y, transform.to);
  const bool framed = transform.hop > 0;
  const size_t axis = framed ? from.size() - 1 : transform.axis;
  const int64_t n = transform.points;
  const int64_t bins = transform.bins;
  const double scale = transform_scale(transform.divisor, n);
  Rows read{.form = transform.from, .length = from[axis]};
  for (size_t d = axis + 1; d < from.size(); ++d) read.inner *= static_cast<int64_t>(from[d]);
  const Rows written{.form = transform.to, .length = bins, .inner = read.inner};
  const int64_t frames = framed ? static_cast<int64_t>(to[to.size() - 2]) : 1;
  const int64_t given = std::min<int64_t>(framed ? int64_t{transform.frame} : read.length,
                                          transform.half ? n / 2 + 1 : n);
  const std::vector<Precise> roots = precise_roots(n, transform.inverse);
  y.magnitudes.assign(transform.to == SignalForm::Complex ? 2 * y.integers.size() : y.floats.size(),
                      0);
  y.terms = n * std::max<int64_t>(x.terms, 1);
  const int64_t rows = element_count(to) / bins;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<Precise> points(static_cast<size_t>(n));
    long double earlier = 0;
    for (int64_t i = 0; i < given; ++i) {
      Precise& point = points[static_cast<size_t>(i)];
      const int64_t element = read.element(row / frames, row % frames * transform.hop + i);
      point = element_of(x, read, element);
      if (!x.magnitudes.empty()) earlier += x.magnitudes[read.real_place(element)];
      if (window == nullptr) continue;
      point.re *= window->floats[static_cast<size_t>(i)];
      point.im *= window->floats[static_cast<size_t>(i)];
    }
    if (transform.half) mirror(points);
    long double magnitude = earlier;
    if (x.magnitudes.empty()) {
      for (const Precise& point : points) magnitude += std::hypot(point.re, point.im);
    }
    const std::vector<Precise> sums = precise_sums(points, 0, 1, roots);
    for (int64_t k = 0; k < bins; ++k) {
      const Precise& sum = sums[static_cast<size_t>(k)];
      set_result(y, written, written.element(row, k),
                 {static_cast<double>(sum.re * scale), static_cast<double>(sum.im * scale)},
                 static_cast<double>(magnitude * scale));
    }
  }
  return y;
}

// ---- plans and tables ----

namespace {

// The radices of powers of two: few passes of about as many points, 16 at most, and first one that
// spreads well over the banks of shared memory.
const std::vector<int64_t>& power_radices(int64_t power) {
  static const std::vector<std::vector<int64_t>> kRadices = {
      {},      {2},      {4},       {8},         {4, 4},      {8, 4},      {8, 8},
      {16, 8}, {16, 16}, {8, 8, 8}, {16, 4, 16}, {16, 8, 16}, {16, 16, 16}};
  return kRadices.at(static_cast<size_t>(power));
}

// Entries of a pass's table for each q (shaders/fft.kernel).
int64_t roots_of_turn(int64_t radix) {
  return radix > 4 ? 4 : 2;
}

}  // namespace

std::optional<std::vector<TransformPass>> transform_passes(int64_t points) {
  if (points > kMostSinglePoints) return std::nullopt;
  std::vector<int64_t> radices;
  for (const int64_t radix : {7, 5, 3}) {
    for (; points % radix == 0; points /= radix) radices.push_back(radix);
  }
  if (!std::has_single_bit(static_cast<uint64_t>(points))) return std::nullopt;
  const auto& powers = power_radices(std::countr_zero(static_cast<uint64_t>(points)));
  radices.insert(radices.end(), powers.begin(), powers.end());
  if (radices.empty()) radices.push_back(1);
  std::vector<TransformPass> passes;
  int64_t done = 1;
  int64_t roots = 0;
  for (const int64_t radix : radices) {
    passes.push_back({.radix = radix, .done = done, .roots_at = roots});
    roots += done * roots_of_turn(radix);
    done *= radix;
  }
  return passes;
}

namespace {

int64_t pass_roots(int64_t points) {
  const std::vector<TransformPass> passes = transform_passes(points).value();
  return passes.back().roots_at + passes.back().done * roots_of_turn(passes.back().radix);
}

}  // namespace

RootsTable roots_table(const TransformPlan& plan) {
  RootsTable table;
  table.columns_at = pass_roots(plan.rows());
  table.entries = table.columns_at;
  if (plan.columns > 1) table.entries += pass_roots(plan.columns);
  table.fold_at = table.entries;
  if (plan.folds) table.entries += plan.points;
  table.far_at = table.entries;
  table.near_at = table.far_at + plan.rows();
  if (plan.columns > 1) table.entries = table.near_at + plan.columns;
  return table;
}

namespace {

// The columns of a transform of which rows and columns fit and have passes, as near to a square as
// may be.
std::optional<int64_t> columns_of(int64_t points, int64_t most) {
  if (points <= most) return transform_passes(points) ? std::optional(int64_t{1}) : std::nullopt;
  auto rows = static_cast<int64_t>(std::sqrt(static_cast<double>(points)));
  for (; rows * most >= points; --rows) {
    if (points % rows == 0 && transform_passes(rows) && transform_passes(points / rows))
      return points / rows;
  }
  return std::nullopt;
}

}  // namespace

std::optional<TransformPlan> plan_transform(const Dim& points, DType arithmetic) {
  const int64_t most = arithmetic == DType::f64 ? kMostDoublePoints : kMostSinglePoints;
  const auto [least, longest] = points.range();
  if (least < 1 || longest > most * most) return std::nullopt;
  const auto own_columns = points.is_free() ? std::nullopt : columns_of(longest, most);
  if (own_columns) return TransformPlan{.points = longest, .columns = *own_columns};
  const auto longer = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * longest - 1)));
  const auto columns = columns_of(longer, most);
  if (!columns) return std::nullopt;
  return TransformPlan{.points = longer, .columns = *columns, .chirps = true};
}

std::optional<TransformPlan> plan_of(const Transform& transform, DType arithmetic) {
  if (transform.points.is_free()) return plan_transform(transform.points, arithmetic);
  const int64_t half = transform.points.bound() / 2;
  const bool real_x = transform.from == SignalForm::Real && !transform.half && !transform.inverse &&
                      transform.bins <= half + 1;
  const bool real_y = transform.half && transform.to == SignalForm::Real;
  if (transform.points.divides_by(2) && (real_x || real_y)) {
    auto plan = plan_transform(half, arithmetic);
    if (plan && plan->columns == 1 && !plan->chirps) {
      plan->folds = true;
      return plan;
    }
  }
  return plan_transform(transform.points, arithmetic);
}

namespace {

using Numbers = std::vector<std::complex<double>>;

// e^(-2 pi i k / turn), 0 <= k < turn, by an angle of an eighth of a turn at most, which loses no
// precision.
std::complex<double> root_of(int64_t k, int64_t turn) {
  const int64_t quarter = 4 * k / turn;
  const int64_t rest = 4 * k - quarter * turn;  // of a quarter, in parts of 4 turns
  const bool mirrored = 2 * rest > turn;
  const double angle = std::numbers::pi / 2 * static_cast<double>(mirrored ? turn - rest : rest) /
                       static_cast<double>(turn);
  const double along = mirrored ? std::sin(angle) : std::cos(angle);
  const double across = mirrored ? std::cos(angle) : std::sin(angle);
  const std::array<std::complex<double>, 4> turned = {
      std::complex{along, -across}, {-across, -along}, {-along, across}, {across, along}};
  return turned.at(static_cast<size_t>(quarter));
}

// e^(-2 pi i k * step / turn) for k < count.
void add_roots(Numbers& table, int64_t count, int64_t step, int64_t turn) {
  for (int64_t k = 0; k < count; ++k) table.push_back(root_of(k * step % turn, turn));
}

void add_pass_roots(Numbers& table, int64_t points) {
  const std::vector<TransformPass> passes = transform_passes(points).value();
  for (const TransformPass& pass : passes) {
    for (int64_t q = 0; q < pass.done; ++q) {
      std::vector<int64_t> powers = {1, 2};
      if (pass.radix > 4) powers.insert(powers.end(), {4, pass.radix > 8 ? 8 : 3});
      for (const int64_t power : powers) {
        const int64_t turn = pass.done * pass.radix;
        table.push_back(root_of(q * power % turn, turn));
      }
    }
  }
}

Numbers roots_of(const TransformPlan& plan) {
  Numbers table;
  add_pass_roots(table, plan.rows());
  if (plan.columns > 1) add_pass_roots(table, plan.columns);
  if (plan.folds) add_roots(table, plan.points, 1, 2 * plan.points);
  if (plan.columns > 1) {
    add_roots(table, plan.rows(), plan.columns, plan.points);
    add_roots(table, plan.columns, 1, plan.points);
  }
  RLX_CHECK(static_cast<int64_t>(table.size()) == roots_table(plan).entries, "roots of a plan");
  return table;
}

// e^(-pi i k^2 / n).
Numbers chirp_of(int64_t points) {
  Numbers table;
  for (int64_t k = 0; k < points; ++k) table.push_back(root_of(k * k % (2 * points), 2 * points));
  return table;
}

// The transform in place of a power of two points.
void transform_on_host(Numbers& x) {
  const size_t n = x.size();
  Numbers twiddles;
  add_roots(twiddles, static_cast<int64_t>(n / 2), 1, static_cast<int64_t>(n));
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n / 2;
    for (; (j & bit) != 0; bit /= 2) j ^= bit;
    j |= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (size_t half = 1; half < n; half *= 2) {
    for (size_t first = 0; first < n; first += 2 * half) {
      for (size_t k = 0; k < half; ++k) {
        const std::complex<double> odd = x[first + k + half] * twiddles[k * (n / half / 2)];
        x[first + k + half] = x[first + k] - odd;
        x[first + k] += odd;
      }
    }
  }
}

// What the spectrum of the chirped signal is multiplied by: that of the conjugate chirp, divided
// by the points of the convolution.
Numbers response_of(const Numbers& chirp, int64_t points) {
  Numbers response(static_cast<size_t>(points));
  for (size_t k = 0; k < chirp.size(); ++k) {
    response[k] = std::conj(chirp[k]) / static_cast<double>(response.size());
    if (k > 0) response[response.size() - k] = response[k];
  }
  transform_on_host(response);
  return response;
}

Attributes attributes_of(const Transform& transform) {
  return {{"points", count_attribute(transform.points)},
          {"axis", static_cast<int64_t>(transform.axis)},
          {"inverse", transform.inverse},
          {"divisor", std::string(kDivisors[static_cast<size_t>(transform.divisor)])},
          {"from", text_of(transform.from)},
          {"to", text_of(transform.to)},
          {"half", transform.half},
          {"bins", count_attribute(transform.bins)},
          {"hop", transform.hop},
          {"frame", count_attribute(transform.frame)}};
}

ValueId emit_table(RewriteContext& ctx, std::string_view stem, DType dtype, const Numbers& values) {
  Tensor table = Tensor::zeros({dtype, {static_cast<int64_t>(values.size()), 2}});
  for (size_t i = 0; i < values.size(); ++i) {
    table.floats[2 * i] = values[i].real();
    table.floats[2 * i + 1] = values[i].imag();
  }
  return ctx.constant(stem, table);
}

// The same two tables where the run gives the length, computed by it.
ValueId emit_chirp(RewriteContext& ctx, DType dtype, const Dim& points, int64_t convolved) {
  return ctx.emit("chirp", {},
                  {{"points", count_attribute(points)},
                   {"convolved", convolved},
                   {"dtype", std::string(name_of(dtype))}});
}

ValueId emit_response(RewriteContext& ctx, DType dtype, const Dim& points, int64_t convolved,
                      ValueId twiddles) {
  const Transform transform{.points = convolved,
                            .from = SignalForm::Interleaved,
                            .to = SignalForm::Interleaved,
                            .bins = convolved};
  const ValueId chirp = emit_chirp(ctx, dtype, points, convolved);
  return ctx.emit("fourier", {chirp, std::nullopt, twiddles, std::nullopt, std::nullopt},
                  attributes_of(transform));
}

}  // namespace

ValueId emit_transform(RewriteContext& ctx, ValueId x, const Transform& transform,
                       std::optional<ValueId> window) {
  const DType dtype = ctx.type(x).dtype == DType::f64 ? DType::f64 : DType::f32;
  const TransformPlan plan = plan_of(transform, dtype).value();
  const ValueId twiddles = emit_table(ctx, "twiddles", dtype, roots_of(plan));
  std::vector<std::optional<ValueId>> inputs = {x, window, twiddles, std::nullopt, std::nullopt};
  if (plan.chirps && transform.points.is_free()) {
    inputs[3] = emit_chirp(ctx, dtype, transform.points, 0);
    inputs[4] = emit_response(ctx, dtype, transform.points, plan.points, twiddles);
  } else if (plan.chirps) {
    const Numbers chirp = chirp_of(transform.points);
    inputs[3] = emit_table(ctx, "chirp", dtype, chirp);
    inputs[4] = emit_table(ctx, "response", dtype, response_of(chirp, plan.points));
  }
  return ctx.emit("fourier", inputs, attributes_of(transform));
}

}  // namespace rlx
