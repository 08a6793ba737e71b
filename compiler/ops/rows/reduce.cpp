// SPDX-License-Identifier: Apache-2.0
// Reductions over any axes (ops.md 7.1): interface, shape rule and reference evaluation; the
// lowering is in reduce_lower.cpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/reduce_chain.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/rows/reduce_lower.h"
#include "compiler/support/check.h"
#include "compiler/support/complex_bits.h"

namespace rlx {

namespace {

enum class Takes : uint8_t { NumbersAndComplex, Numbers, Floats, Bools };

struct KindRow {
  std::string_view op;
  Takes takes;
};
constexpr KindRow kKinds[] = {
    {"reduce_sum", Takes::NumbersAndComplex},
    {"reduce_mean", Takes::NumbersAndComplex},
    {"reduce_max", Takes::Numbers},
    {"reduce_min", Takes::Numbers},
    {"reduce_prod", Takes::Numbers},
    {"reduce_l1", Takes::Floats},
    {"reduce_l2", Takes::Floats},
    {"reduce_sum_square", Takes::Floats},
    {"reduce_log_sum", Takes::Floats},
    {"reduce_log_sum_exp", Takes::Floats},
    {"reduce_any", Takes::Bools},
    {"reduce_all", Takes::Bools},
    {"variance", Takes::Floats},
};

Takes takes(std::string_view op) {
  for (const KindRow& row : kKinds) {
    if (row.op == op) return row.takes;
  }
  RLX_CHECK(false, "no reduction " + std::string(op));
}

bool check_dtype(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  const std::string got = "x is " + std::string(name_of(dtype)) + ", wanted ";
  switch (takes(ctx.node().op)) {
    case Takes::NumbersAndComplex:
      if (is_float(dtype) || is_integer(dtype) || dtype == DType::c64) return true;
      return ctx.fail(DiagCode::BadDtype, got + "a float or integer type or c64",
                      dtype == DType::bool_ ? "cast x first, or use reduce_any or reduce_all" : "");
    case Takes::Numbers:
      if (is_float(dtype) || is_integer(dtype)) return true;
      return ctx.fail(DiagCode::BadDtype, got + "a float or integer type",
                      dtype == DType::bool_ ? "cast x first, or use reduce_any or reduce_all" : "");
    case Takes::Floats:
      if (is_float(dtype)) return true;
      return ctx.fail(DiagCode::BadDtype, got + "f32, f16, bf16 or f64", "cast x first");
    case Takes::Bools:
      if (dtype == DType::bool_) return true;
      return ctx.fail(DiagCode::BadDtype, got + "bool", "compare x with 0 first");
  }
  return false;
}

bool infer_reduce(InferContext& ctx) {
  if (!check_dtype(ctx)) return false;
  const Shape& shape = ctx.shape(0);
  const std::optional<Ints> axes = reduced_axes(ctx, shape.size());
  if (!axes) return false;
  const bool keep_dims = ctx.attrs().flag("keep_dims");
  Shape result;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (std::find(axes->begin(), axes->end(), static_cast<int64_t>(d)) == axes->end()) {
      result.push_back(shape[d]);
    } else if (keep_dims) {
      result.push_back(1);
    }
  }
  ctx.set_output(0, {.dtype = ctx.dtype(0), .shape = result});
  return true;
}

// The elements of one row in reduced order.
struct FloatRow {
  const std::vector<double>& values;
  int64_t base;
  const std::vector<int64_t>& offsets;

  [[nodiscard]] double operator[](size_t i) const {
    return values[static_cast<size_t>(base + offsets[i])];
  }
  [[nodiscard]] size_t size() const { return offsets.size(); }
  template <typename Map>
  [[nodiscard]] double sum(Map map) const {
    double total = 0;
    for (size_t i = 0; i < size(); ++i) total += map((*this)[i]);
    return total;
  }
  template <typename Better>
  [[nodiscard]] double extreme(double start, Better better) const {
    double best = start;
    for (size_t i = 0; i < size(); ++i) {
      const double value = (*this)[i];
      if (std::isnan(value)) return value;
      if (better(value, best)) best = value;
    }
    return best;
  }
};

struct Result {
  double value;
  double magnitude;  // S of class sum(n): what the rounding error of the sum is relative to
};

Result evaluate_variance(const FloatRow& row, double correction) {
  const auto n = static_cast<double>(row.size());
  const double mean = row.sum([](double v) { return v; }) / n;
  const double mean_magnitude = row.sum([](double v) { return std::abs(v); }) / n;
  const double squares = row.sum([&](double v) { return (v - mean) * (v - mean); });
  const double value = squares / std::max(0.0, n - correction);
  // An error of the mean of u * k * mean_magnitude, k = 8 + 2 sqrt(n), enters squared.
  const double mean_error = std::ldexp(1.0, -24) * (8 + 2 * std::sqrt(n)) * mean_magnitude;
  return {.value = value, .magnitude = value + mean_error * mean_magnitude};
}

Result evaluate_log_sum_exp(const FloatRow& row) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double top = row.extreme(-infinity, std::greater<>());
  const double shift = std::isinf(top) ? 0.0 : top;
  const double log_sum = std::log(row.sum([&](double v) { return std::exp(v - shift); }));
  return {.value = shift + log_sum, .magnitude = std::abs(shift) + std::abs(log_sum) + 1};
}

Result evaluate_float(std::string_view op, const FloatRow& row, double correction) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto n = static_cast<double>(row.size());
  const double sum_of_magnitudes = row.sum([](double v) { return std::abs(v); });
  const double squares = row.sum([](double v) { return v * v; });
  const double sum = row.sum([](double v) { return v; });
  if (op == "reduce_sum") return {sum, sum_of_magnitudes};
  if (op == "reduce_mean") return {sum / n, sum_of_magnitudes / n};
  if (op == "reduce_max") return {row.extreme(-infinity, std::greater<>()), 0};
  if (op == "reduce_min") return {row.extreme(infinity, std::less<>()), 0};
  if (op == "reduce_l1") return {sum_of_magnitudes, sum_of_magnitudes};
  if (op == "reduce_l2") return {std::sqrt(squares), std::sqrt(squares)};
  if (op == "reduce_sum_square") return {squares, squares};
  if (op == "reduce_log_sum") {
    return {std::log(sum), std::abs(sum_of_magnitudes / sum) + std::abs(std::log(sum))};
  }
  if (op == "reduce_log_sum_exp") return evaluate_log_sum_exp(row);
  if (op == "variance") return evaluate_variance(row, correction);
  RLX_CHECK(op == "reduce_prod", "no reduction " + std::string(op));
  double product = 1;
  for (size_t i = 0; i < row.size(); ++i) product *= row[i];
  return {product, std::abs(product)};
}

// Two's complement wrap to the dtype.
int64_t wrap(DType dtype, uint64_t value) {
  const uint32_t bits = 8 * element_bytes(dtype);
  if (bits == 64) return static_cast<int64_t>(value);
  const uint64_t low = value & ((uint64_t{1} << bits) - 1);
  const bool negative = kind_of(dtype) == DTypeKind::Int && (low >> (bits - 1)) != 0;
  return static_cast<int64_t>(negative ? low - (uint64_t{1} << bits) : low);
}

int64_t evaluate_integers(std::string_view op, DType dtype, const std::vector<int64_t>& row) {
  if (op == "reduce_any")
    return std::any_of(row.begin(), row.end(), [](int64_t v) { return v != 0; });
  if (op == "reduce_all")
    return std::all_of(row.begin(), row.end(), [](int64_t v) { return v != 0; });
  if (op == "reduce_max") {
    return row.empty() ? integer_range(dtype).lowest : *std::max_element(row.begin(), row.end());
  }
  if (op == "reduce_min") {
    return row.empty() ? integer_range(dtype).highest : *std::min_element(row.begin(), row.end());
  }
  uint64_t sum = 0;
  uint64_t product = 1;
  for (const int64_t value : row) {
    sum += static_cast<uint64_t>(value);
    product *= static_cast<uint64_t>(value);
  }
  if (op == "reduce_prod") return wrap(dtype, product);
  if (op == "reduce_sum") return wrap(dtype, sum);
  RLX_CHECK(op == "reduce_mean", "no integer reduction " + std::string(op));
  return row.empty() ? 0 : static_cast<int64_t>(sum) / static_cast<int64_t>(row.size());
}

bool evaluate_result(EvaluateContext& ctx, const Tensor& x, Tensor& y) {
  const std::optional<Ints> axes = reduced_axes(ctx, x.type.shape.size());
  if (!axes) return false;
  const RowOffsets offsets = row_offsets(x.type.shape, *axes);
  const bool is_variance = ctx.node().op == "variance";
  const auto correction =
      is_variance ? static_cast<double>(ctx.attrs().integer("correction")) : 0.0;
  if (x.is_float()) y.magnitudes.resize(offsets.kept.size());
  y.terms = static_cast<int64_t>(offsets.reduced.size());
  for (size_t k = 0; k < offsets.kept.size(); ++k) {
    if (x.is_float()) {
      const FloatRow row{x.floats, offsets.kept[k], offsets.reduced};
      const Result result = evaluate_float(ctx.node().op, row, correction);
      y.floats[k] = result.value;
      y.magnitudes[k] = result.magnitude;
    } else {
      std::vector<int64_t> row;
      for (const int64_t offset : offsets.reduced) {
        row.push_back(x.integers[static_cast<size_t>(offsets.kept[k] + offset)]);
      }
      y.integers[k] = evaluate_integers(ctx.node().op, x.type.dtype, row);
    }
  }
  return true;
}

// The sums or means of both parts.
void evaluate_complex(std::string_view op, const Tensor& x, const RowOffsets& offsets, Tensor& y) {
  y.terms = static_cast<int64_t>(offsets.reduced.size());
  y.magnitudes.resize(2 * offsets.kept.size());
  const double count = op == "reduce_mean" ? static_cast<double>(y.terms) : 1.0;
  for (size_t k = 0; k < offsets.kept.size(); ++k) {
    std::complex<double> sum;
    for (const int64_t offset : offsets.reduced) {
      const std::complex<double> z =
          complex_from_bits(x.integers[static_cast<size_t>(offsets.kept[k] + offset)]);
      sum += z;
      y.magnitudes[2 * k] += std::abs(z.real()) / count;
      y.magnitudes[2 * k + 1] += std::abs(z.imag()) / count;
    }
    y.integers[k] = complex_to_bits(sum / count);
  }
}

bool evaluate_reduce(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (x.type.dtype == DType::c64) {
    const Ints axes = reduced_axes(ctx, x.type.shape.size()).value();
    evaluate_complex(ctx.node().op, x, row_offsets(x.type.shape, axes), ctx.output(0));
    return true;
  }
  if (ctx.node().region.empty()) return evaluate_result(ctx, ctx.input(0), ctx.output(0));
  bool good = true;
  for (size_t r = 0; r < ctx.output_count(); ++r)
    good = good && evaluate_result(ctx, evaluate_reduce_chain(ctx, r), ctx.output(r));
  return good;
}

// Complex numbers part by part; other types have kernels.
bool decompose_complex_reduction(RewriteContext& ctx) {
  if (ctx.dtype(ctx.input(0)) != DType::c64) return true;
  const auto reduced = [&](std::string_view part) {
    return ctx.emit(ctx.node().op, {ctx.emit(part, {ctx.input(0)})}, ctx.node().attributes);
  };
  ctx.replace_output(0, ctx.emit("complex", {reduced("real"), reduced("imag")}));
  return true;
}

// ---- gradients ----

// A reduction's parts as its gradient reads them, with the reduced axes kept.
class ReduceGradient {
 public:
  explicit ReduceGradient(GradientContext& ctx)
      : ctx_(ctx),
        x_(ctx.input(0)),
        axes_(reduced_axes(ctx, ctx.shape(x_).size()).value()),
        kept_(ctx.shape(x_)) {
    for (const Dim& axis : axes_) kept_[static_cast<size_t>(static_cast<int64_t>(axis))] = 1;
  }
  [[nodiscard]] ValueId x() const { return x_; }
  ValueId y() { return ctx_.reshape(ctx_.output(0), kept_); }
  ValueId dy() { return ctx_.reshape(ctx_.gradient(), kept_); }
  ValueId call(std::string_view op, ValueId a, ValueId b) { return ctx_.emit(op, {a, b}); }
  ValueId sum(ValueId value) { return ctx_.reduce("reduce_sum", value, axes_); }
  ValueId mean(ValueId value) { return ctx_.reduce("reduce_mean", value, axes_); }
  ValueId number(double value) { return ctx_.scalar(ctx_.dtype(x_), value); }
  // How many elements a result is made of, less so many.
  ValueId count(double less = 0) {
    Shape reduced;
    for (const Dim& axis : axes_)
      reduced.push_back(ctx_.shape(x_)[static_cast<size_t>(static_cast<int64_t>(axis))]);
    const Dim elements = element_count(reduced);
    if (!elements.is_free()) return number(static_cast<double>(elements.bound()) - less);
    const ValueId ones = ctx_.filled({ctx_.dtype(x_), reduced}, 1);
    const ValueId total =
        ctx_.reduce("reduce_sum", ones, axes_from(0, reduced.size()), NodeBuilder::Axes::Drop);
    return ctx_.affine(total, 1, -less);
  }
  void give(ValueId dx) { ctx_.give(0, ctx_.expand(dx, ctx_.shape(x_))); }

 private:
  GradientContext& ctx_;
  ValueId x_;
  Ints axes_;
  Shape kept_;
};

// The product of all others: of those before it and of those behind it. No division, for elements
// may be 0.
bool product_gradient(GradientContext& ctx) {
  const Shape shape = ctx.shape(ctx.input(0));
  const Ints reduced = reduced_axes(ctx, shape.size()).value();
  Ints perm;
  for (const Dim& axis : axes_from(0, shape.size())) {
    if (std::ranges::find(reduced, axis) == reduced.end()) perm.push_back(axis);
  }
  Shape rows;
  for (const Dim& axis : perm) rows.push_back(shape[static_cast<size_t>(int64_t{axis})]);
  perm.insert(perm.end(), reduced.begin(), reduced.end());
  Ints inverse(perm.size());
  Shape moved;
  for (size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<size_t>(int64_t{perm[i]})] = static_cast<int64_t>(i);
    moved.push_back(shape[static_cast<size_t>(int64_t{perm[i]})]);
  }
  Shape one = rows;
  one.emplace_back(1);
  const Shape parts(moved.begin() + static_cast<std::ptrdiff_t>(rows.size()), moved.end());
  rows.push_back(element_count(parts));
  const ValueId x = ctx.reshape(ctx.transpose(ctx.input(0), perm), rows);
  const auto last = static_cast<int64_t>(rows.size()) - 1;
  const auto running = [&](bool from_behind) {
    return ctx.emit("cumprod", {x},
                    {{"axis", last}, {"exclusive", true}, {"reverse", from_behind}});
  };
  const ValueId others = ctx.emit("mul", {running(false), running(true)});
  const ValueId dx = ctx.emit("mul", {others, ctx.reshape(ctx.gradient(), one)});
  ctx.give(0, ctx.transpose(ctx.reshape(dx, moved), inverse));
  return true;
}

bool reduce_gradient(GradientContext& ctx) {
  ReduceGradient r(ctx);
  const std::string& op = ctx.node().op;
  const ValueId dy = r.dy();
  if (op == "reduce_sum") {
    r.give(dy);
  } else if (op == "reduce_mean") {
    r.give(r.call("div", dy, r.count()));
  } else if (op == "reduce_sum_square") {
    r.give(r.call("mul", ctx.affine(dy, 2), r.x()));
  } else if (op == "reduce_l1") {
    r.give(r.call("mul", dy, ctx.emit("sign", {r.x()})));
  } else if (op == "reduce_l2") {
    const ValueId y = r.y();
    const ValueId factor =
        ctx.emit("where", {r.call("eq", y, r.number(0)), r.number(0), r.call("div", dy, y)});
    r.give(r.call("mul", factor, r.x()));
  } else if (op == "reduce_log_sum") {
    r.give(r.call("mul", dy, ctx.emit("exp", {ctx.emit("neg", {r.y()})})));
  } else if (op == "reduce_log_sum_exp") {
    r.give(r.call("mul", dy, ctx.emit("exp", {r.call("sub", r.x(), r.y())})));
  } else if (op == "variance") {
    const auto correction = static_cast<double>(ctx.attrs().integer("correction"));
    const ValueId centred = r.call("sub", r.x(), r.mean(r.x()));
    r.give(r.call("mul", r.call("div", ctx.affine(dy, 2), r.count(correction)), centred));
  } else {  // reduce_max, reduce_min: evenly to all that are equal
    const ValueId hit = r.call("eq", r.x(), r.y());
    const ValueId hits = r.sum(ctx.cast(hit, ctx.dtype(r.x())));
    r.give(ctx.emit("where", {hit, r.call("div", dy, hits), r.number(0)}));
  }
  return true;
}

constexpr AttrSpec kReduceAttrs[] = {
    {.name = "axes", .type = AttrType::IntList},
    {.name = "keep_dims",
     .type = AttrType::Bool,
     .default_text = "false",
     .consumed_by_infer = true},
};
constexpr AttrSpec kVarianceAttrs[] = {
    {.name = "axes", .type = AttrType::IntList},
    {.name = "keep_dims",
     .type = AttrType::Bool,
     .default_text = "false",
     .consumed_by_infer = true},
    {.name = "correction", .type = AttrType::Int, .default_text = "1", .minimum = 0},
};

constexpr OpDef reduction(std::string_view name, std::string_view signature,
                          bool (*gradient)(GradientContext&) = reduce_gradient,
                          bool (*decompose)(RewriteContext&) = nullptr) {
  return {.name = name,
          .signature = signature,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attrs = kReduceAttrs,
          .infer = infer_reduce,
          .evaluate = evaluate_reduce,
          .decompose = decompose,
          .gradient = gradient,
          .lower = lower_reduce,
          .reads_strides = true};
}

constexpr OpDef kReduceOps[] = {
    reduction("reduce_sum", "reduce_sum(x; axes=all, keep_dims=false) -> y", reduce_gradient,
              decompose_complex_reduction),
    reduction("reduce_mean", "reduce_mean(x; axes=all, keep_dims=false) -> y", reduce_gradient,
              decompose_complex_reduction),
    reduction("reduce_max", "reduce_max(x; axes=all, keep_dims=false) -> y"),
    reduction("reduce_min", "reduce_min(x; axes=all, keep_dims=false) -> y"),
    reduction("reduce_prod", "reduce_prod(x; axes=all, keep_dims=false) -> y", product_gradient),
    reduction("reduce_l1", "reduce_l1(x; axes=all, keep_dims=false) -> y"),
    reduction("reduce_l2", "reduce_l2(x; axes=all, keep_dims=false) -> y"),
    reduction("reduce_sum_square", "reduce_sum_square(x; axes=all, keep_dims=false) -> y"),
    reduction("reduce_log_sum", "reduce_log_sum(x; axes=all, keep_dims=false) -> y"),
    reduction("reduce_log_sum_exp", "reduce_log_sum_exp(x; axes=all, keep_dims=false) -> y"),
    reduction("reduce_any", "reduce_any(x; axes=all, keep_dims=false) -> y"),
    reduction("reduce_all", "reduce_all(x; axes=all, keep_dims=false) -> y"),
    {.name = "variance",
     .signature = "variance(x; axes=all, keep_dims=false, correction=1) -> y",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kVarianceAttrs,
     .infer = infer_reduce,
     .evaluate = evaluate_reduce,
     .gradient = reduce_gradient,
     .lower = lower_reduce,
     .reads_strides = true},
};

}  // namespace

std::optional<Ints> reduced_axes(NodeContext& ctx, size_t rank) {
  if (ctx.attrs().has("axes")) return ctx.axes(ctx.attrs().integers("axes"), rank);
  Ints all(rank);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::span<const OpDef> reduce_ops() {
  return kReduceOps;
}

}  // namespace rlx
