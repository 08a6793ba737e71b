// SPDX-License-Identifier: Apache-2.0
// resample: separable resampling along up to three axes by tables of taps and weights.
#include "compiler/ops/vision/resample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "compiler/ir/count_attribute.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/lowering/size_values.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr size_t kMostAxes = 3;
// Taps of all axes together up to which one pass beats one pass per axis.
constexpr int64_t kMostTapsAtOnce = 16;
constexpr int64_t kLargestTap = std::numeric_limits<int32_t>::max();

// What a node resamples: its axes in ascending order.
struct Resampling {
  Ints axes;
  Ints sizes;   // of the output
  Ints counts;  // taps of an output coordinate
  std::string combine;
  Ints periods;   // none, or one of each axis (AxisTaps)
  Ints advances;  // as many

  [[nodiscard]] bool is_periodic() const { return !periods.empty(); }
  // Output coordinates of the k-th axis' table.
  [[nodiscard]] const Dim& places(size_t k) const { return is_periodic() ? periods[k] : sizes[k]; }
};

Resampling read_resampling(const NodeContext& ctx) {
  return {.axes = ctx.attrs().integers("axes"),
          .sizes = ctx.attrs().integers("sizes"),
          .counts = ctx.attrs().integers("counts"),
          .combine = ctx.attrs().text("combine"),
          .periods = ctx.attrs().integers("periods"),
          .advances = ctx.attrs().integers("advances")};
}

// Where the table of the k-th axis begins.
Dim table_begin(const Resampling& resampling, size_t k) {
  Dim begin = 0;
  for (size_t i = 0; i < k; ++i) begin += resampling.places(i) * resampling.counts[i];
  return begin;
}

bool check_lists(InferContext& ctx, const Resampling& resampling) {
  const size_t n = resampling.axes.size();
  const size_t periods = resampling.periods.size();
  if (n >= 1 && n <= kMostAxes && resampling.sizes.size() == n && resampling.counts.size() == n &&
      (periods == 0 || periods == n) && resampling.advances.size() == periods &&
      std::is_sorted(resampling.axes.begin(), resampling.axes.end())) {
    return true;
  }
  return ctx.fail(DiagCode::BadAttribute,
                  "axes, sizes and counts have " + std::to_string(n) + ", " +
                      std::to_string(resampling.sizes.size()) + " and " +
                      std::to_string(resampling.counts.size()) +
                      " values; wanted as many of each, 1 to 3, axes in ascending order, and as "
                      "many periods and advances, or none");
}

bool infer_resample(InferContext& ctx) {
  const Resampling resampling = read_resampling(ctx);
  if (!check_lists(ctx, resampling)) return false;
  const std::optional<Ints> axes = ctx.axes(resampling.axes, ctx.shape(0).size());
  if (!axes) return false;
  const TensorType table = {DType::i32, {table_begin(resampling, axes->size())}};
  if (ctx.input(1) != table || ctx.shape(2) != table.shape) {
    return ctx.fail(DiagCode::BadShape, "taps are " + to_string(ctx.input(1)) + " and weights " +
                                            to_string(ctx.input(2)) + "; wanted " +
                                            to_string(table) + " and a float of that shape");
  }
  TensorType y = {ctx.attrs().dtype("to"), ctx.shape(0)};
  for (size_t k = 0; k < axes->size(); ++k) {
    const auto axis = static_cast<size_t>((*axes)[k]);
    // The taps are places of an axis of this size, unless they follow it.
    const bool follows = resampling.is_periodic() || ctx.attrs().flag("of_run");
    if (!follows) static_cast<void>(static_cast<int64_t>(y.shape[axis]));
    y.shape[axis] = resampling.sizes[k];
  }
  const bool widens = resampling.combine == "sum" || resampling.combine == "prod";
  if (widens ? !is_float(y.dtype) || !is_float(ctx.dtype(0)) : y.dtype != ctx.dtype(0)) {
    return ctx.fail(DiagCode::BadDtype, "x is " + std::string(name_of(ctx.dtype(0))) +
                                            " and the result " + std::string(name_of(y.dtype)) +
                                            "; wanted floats for sums and products, else one type");
  }
  ctx.set_output(0, y);
  return true;
}

// ---- evaluate_resample ----

struct Running {
  double value = 0;
  int64_t integer = 0;
  double magnitude = 0;
  bool empty = true;
};

void take(Running& running, const std::string& combine, double weight, double value,
          int64_t integer) {
  if (combine == "sum") {
    running.value += weight * value;
    running.magnitude += std::abs(weight * value);
  } else if (combine == "prod") {
    running.value = running.empty ? value : running.value * value;
    running.magnitude = std::abs(running.value);
  } else {
    const bool larger = combine == "max";
    const bool better = larger ? value > running.value : value < running.value;
    const bool better_integer = larger ? integer > running.integer : integer < running.integer;
    if (running.empty || (!std::isnan(running.value) && (std::isnan(value) || better)))
      running.value = value;
    if (running.empty || better_integer) running.integer = integer;
  }
  running.empty = false;
}

// The input coordinate of an output coordinate's tap; below 0 it is absent.
int64_t source_of(const Resampling& resampling, size_t k, int64_t at, int64_t tap, int64_t in) {
  if (!resampling.is_periodic()) return tap;
  const int64_t moved = at / static_cast<int64_t>(resampling.places(k)) *
                        static_cast<int64_t>(resampling.advances[k]);
  return std::clamp<int64_t>(moved + tap, 0, in - 1);
}

bool evaluate_resample(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const Resampling resampling = read_resampling(ctx);
  const Strides read = dense_strides(x.type.shape);
  const Strides written = dense_strides(y.type.shape);
  const int64_t combinations = std::accumulate(resampling.counts.begin(), resampling.counts.end(),
                                               int64_t{1}, std::multiplies<>());
  if (resampling.combine == "sum" || resampling.combine == "prod") {
    y.magnitudes.resize(y.floats.size());
    y.terms = combinations;
  }
  for (int64_t o = 0; o < y.count(); ++o) {
    Ints at(y.type.shape.size());
    for (size_t d = 0; d < at.size(); ++d) at[d] = o / written[d] % y.type.shape[d];
    Running running{.value = resampling.combine == "prod" ? 1.0 : 0.0};
    for (int64_t combination = 0; combination < combinations; ++combination) {
      Ints from = at;
      double weight = 1;
      int64_t rest = combination;
      bool present = true;
      for (size_t k = resampling.axes.size(); k-- > 0;) {
        const auto axis = static_cast<size_t>(resampling.axes[k]);
        const int64_t place = at[axis];
        const int64_t count = resampling.counts[k];
        const int64_t begin = table_begin(resampling, k);
        const int64_t places = resampling.places(k);
        const auto entry = static_cast<size_t>(begin + place % places * count + rest % count);
        rest /= count;
        from[axis] =
            source_of(resampling, k, place, ctx.input(1).integers[entry], x.type.shape[axis]);
        weight *= ctx.input(2).floats[entry];
        present = present && from[axis] >= 0;
      }
      if (!present) continue;
      size_t source = 0;
      for (size_t d = 0; d < from.size(); ++d) source += static_cast<size_t>(from[d] * read[d]);
      take(running, resampling.combine, weight, x.is_float() ? x.floats[source] : 0,
           x.is_float() ? 0 : x.integers[source]);
    }
    const auto to = static_cast<size_t>(o);
    if (y.is_float()) {
      y.floats[to] = running.value;
      if (!y.magnitudes.empty()) y.magnitudes[to] = running.magnitude;
    } else {
      y.integers[to] = running.integer;
    }
  }
  return true;
}

// ---- lower_resample ----

// The output as rows along one dim, whose places are the columns; a row lies at one place of all
// other dims.
struct ResampleRows {
  LoopDims rows;             // operand 0: offset in x, 0 for resampled axes; operand 1: in y
  std::vector<size_t> dims;  // of the loops
  size_t column = 0;         // the dim of the columns
  Dim length = 1;
  std::optional<size_t> column_axis;  // its number among the resampled axes, where it is one
  std::vector<size_t> outer_axes;     // the numbers of the others
};

// The dim along which y has neighbours; the last one where there is none.
size_t column_dim(const TensorRef& y) {
  const size_t last = y.shape().size() - 1;
  if (y.strides[last] == 1) return last;
  for (size_t d = 0; d < last; ++d)
    if (y.strides[d] == 1 && y.shape()[d] != 1) return d;
  return last;
}

ResampleRows rows_of(const TensorRef& x, const TensorRef& y, const Ints& axes) {
  ResampleRows result{.column = column_dim(y)};
  result.length = y.shape()[result.column];
  for (size_t d = 0; d < y.shape().size(); ++d)
    if (d != result.column) result.dims.push_back(d);
  // Neighbouring rows are neighbours in y.
  std::stable_sort(result.dims.begin(), result.dims.end(), [&y](size_t a, size_t b) {
    return std::abs(y.strides[a].bound()) > std::abs(y.strides[b].bound());
  });
  for (const size_t d : result.dims) {
    const bool resampled =
        std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    result.rows.push_back(
        {.size = y.shape()[d], .strides = {resampled ? Dim(0) : x.strides[d], y.strides[d]}});
  }
  for (size_t k = 0; k < axes.size(); ++k) {
    if (static_cast<size_t>(static_cast<int64_t>(axes[k])) == result.column) {
      result.column_axis = k;
    } else {
      result.outer_axes.push_back(k);
    }
  }
  return result;
}

bool needs_raw(const std::string& combine) {
  return combine == "copy";
}

// Columns that a thread takes at once.
struct ColumnAccess {
  int64_t width = 1;       // more: they are stored as 16 bytes
  bool x_vectors = false;  // they are one access to x as well
};

// Whether `width` neighbouring columns are one access everywhere.
bool has_column_vectors(const OfferContext& at, const TensorRef& ref, size_t column,
                        int64_t width) {
  const auto bytes = static_cast<uint32_t>(width) * element_bytes(ref.dtype());
  bool fits = ref.strides[column] == 1 && ref.shape()[column].divides_by(width) &&
              at.alignment(ref) >= std::min(bytes, kWidestAccessBytes);
  for (size_t d = 0; d < ref.strides.size(); ++d)
    fits = fits && (d == column || ref.shape()[d] == 1 || ref.strides[d].divides_by(width));
  return fits;
}

ColumnAccess column_access(const OfferContext& at, const TensorRef& x, const TensorRef& y,
                           const Resampling& resampling, const ResampleRows& rows) {
  constexpr int64_t kMostHeld = 32;  // taps of the columns, in registers
  const uint32_t bytes = element_bytes(y.dtype());
  const int64_t width = kWidestAccessBytes / bytes;
  if (!has_column_vectors(at, y, rows.column, width)) return {};
  const bool vectors = !rows.column_axis && has_column_vectors(at, x, rows.column, width);
  if (needs_raw(resampling.combine)) {
    if (vectors) return {.width = width, .x_vectors = true};
    if (bytes != 2 && bytes != 4) return {};
  } else if (!is_float(y.dtype()) || bytes > 4 || !is_float(x.dtype())) {
    return {};
  }
  const int64_t held = rows.column_axis ? width * resampling.counts[*rows.column_axis] : 0;
  if (held > kMostHeld) return {};
  return {.width = width, .x_vectors = vectors && element_bytes(x.dtype()) <= 4};
}

// x as threads along y's neighbours read it best: as it stands, or, where they would read far
// apart what is read all over, a copy that has neighbours where y has them.
TensorRef neighbours_of(LowerContext& ctx, const TensorRef& x, const TensorRef& y, int64_t taps) {
  const size_t column = column_dim(y);
  const Dim& stride = x.strides[column];
  const int64_t reads = element_count(y.shape()).bound() * taps;
  if (stride == 0 || stride == 1 || x.shape()[column] == 1 ||
      element_count(x.shape()).bound() > reads) {
    return x;
  }
  if (column + 1 == x.shape().size()) return ctx.dense(x);
  return column == 1 ? ctx.channels_last(x) : x;
}

std::string identity_text(const std::string& combine, DType dtype) {
  const std::string type = "RLX_CAT(rlx_t_, " + std::string(name_of(dtype)) + ")";
  return type + (combine == "prod" ? "(1)" : "(0)");
}

// Of the k-th axis, where there are periods.
std::string period_lines(const TensorRef& x, const Resampling& resampling,
                         const std::string& suffix, std::optional<size_t> k) {
  if (!resampling.is_periodic()) return {};
  const Dim in = k ? x.shape()[static_cast<size_t>(resampling.axes[*k])] : Dim(1);
  return define_line("RLX_PERIOD_" + suffix, to_string(k ? resampling.periods[*k] : Dim(1))) +
         define_line("RLX_ADVANCE_" + suffix, to_string(k ? resampling.advances[*k] : Dim(0))) +
         define_line("RLX_IN_" + suffix, size_text(in));
}

std::string tables_text(const TensorRef& x, const TensorRef& y, const Resampling& resampling,
                        const ResampleRows& rows) {
  const int64_t places = element_count(y.shape()).range().most;
  std::string text = define_line("RLX_INDEX", index_type({&x, &y}, places));
  text += index_macro("RLX_X_ROW", merged(rows.rows), 0);
  text += index_macro("RLX_Y_ROW", merged(rows.rows), 1);
  text += define_line("RLX_Y_STEP", integer_text(y.strides[rows.column]));
  const auto table_lines = [&](const std::string& suffix, std::optional<size_t> k, size_t dim) {
    text += define_line("RLX_TAPS_" + suffix, to_string(k ? resampling.counts[*k] : Dim(1)));
    text += define_line("RLX_TABLE_" + suffix, size_text(k ? table_begin(resampling, *k) : Dim(0)));
    text += define_line("RLX_STEP_" + suffix, integer_text(x.strides[dim]));
    text += period_lines(x, resampling, suffix, k);
  };
  for (size_t i = 0; i < kMostAxes; ++i) {
    const std::string number = std::to_string(i);
    if (i >= rows.outer_axes.size()) {
      text += define_line("RLX_TAPS_" + number, "1");
      continue;
    }
    const size_t k = rows.outer_axes[i];
    const auto dim = static_cast<size_t>(static_cast<int64_t>(resampling.axes[k]));
    LoopDims own = rows.rows;
    for (size_t d = 0; d < own.size(); ++d) own[d].strides = {rows.dims[d] == dim ? 1 : 0, 0};
    text += index_macro("RLX_PLACE_" + number, own, 0);
    table_lines(number, k, dim);
  }
  table_lines("LAST", rows.column_axis, rows.column);
  return text;
}

bool lower_resample(LowerContext& ctx) {
  constexpr uint32_t kThreads = 256;
  const TensorRef y = ctx.output(0);
  const Resampling resampling = read_resampling(ctx);
  if (element_count(y.shape()) == 0) return true;
  int64_t taps = 1;
  for (const int64_t count : resampling.counts) taps *= count;
  const TensorRef x = neighbours_of(ctx, ctx.input(0), y, taps);
  const ResampleRows rows = rows_of(x, y, resampling.axes);
  const auto [width, x_vectors] = column_access(ctx, x, y, resampling, rows);
  const bool held = rows.column_axis && width * resampling.counts[*rows.column_axis] <= 32;
  const Dim row_count = loop_count(rows.rows);
  const Dim pieces = rows.length / width;
  // Neighbouring rows by one thread, which keeps its columns' taps, while that leaves enough
  // threads.
  const int64_t enough = int64_t{ctx.target().device.multiprocessors} * 2048;
  int64_t thread_rows = 1;
  while (!x_vectors && thread_rows < 8 && row_count.divides_by(2 * thread_rows) &&
         pieces * row_count / (2 * thread_rows) >= enough) {
    thread_rows *= 2;
  }
  const bool raw = needs_raw(resampling.combine);
  const std::string x_type = raw ? raw_type(x.dtype()) : std::string(name_of(x.dtype()));
  const std::string y_type = raw ? raw_type(y.dtype()) : std::string(name_of(y.dtype()));
  const DType acc = x.dtype() == DType::f16 || x.dtype() == DType::bf16 ? DType::f32 : x.dtype();
  const Dim items = pieces * (row_count / thread_rows);
  std::string combine = resampling.combine;
  std::transform(combine.begin(), combine.end(), combine.begin(),
                 [](char c) { return static_cast<char>(c - 'a' + 'A'); });
  const uint32_t x_alignment =
      x_vectors
          ? std::min(static_cast<uint32_t>(width) * element_bytes(x.dtype()), kWidestAccessBytes)
          : 0;
  auto dispatch = ctx.dispatch<KernelId::resize>();
  dispatch.workgroup({kThreads, 1, 1})
      .define("RLX_X", x_type)
      .define("RLX_Y", y_type)
      .define("RLX_Y_BYTES", element_bytes(y.dtype()))
      .define("RLX_WEIGHT", ctx.input_type(2).dtype == DType::f64 ? "f64" : "f32")
      .define("RLX_COMBINE", combine)
      .define("RLX_COPIES", raw ? 1 : 0)
      .define("RLX_SUMS", resampling.combine == "sum" ? 1 : 0)
      .define("RLX_OUTER_AXES", static_cast<int64_t>(rows.outer_axes.size()))
      .define("RLX_LAST_RESAMPLED", rows.column_axis ? 1 : 0)
      .define("RLX_HELD", held ? 1 : 0)
      .define("RLX_X_VECTORS", x_vectors ? 1 : 0)
      .define("RLX_WIDTH", width)
      .define("RLX_PIECES", integer_text(pieces))
      .define("RLX_THREAD_ROWS", thread_rows)
      .define("RLX_COUNT", integer_text(items))
      .define("RLX_IDENTITY",
              raw ? "RLX_CAT(rlx_t_, RLX_X)(0)" : identity_text(resampling.combine, acc))
      .generated("tables.inc", tables_text(x, y, resampling, rows))
      .read(&ResizeParams::taps, ctx.dense(ctx.input(1)))
      .write(&ResizeParams::y, y, width > 1 ? kWidestAccessBytes : 0)
      .grid(split_grid(ceil_div(items, kThreads)))
      .work(x.byte_range().length_bytes + byte_size(y.type), element_count(y.shape()) * taps * 2)
      .reason(std::to_string(taps) + " taps over " + std::to_string(resampling.axes.size()) +
              " axes, " + std::to_string(width) + " columns along dim " +
              std::to_string(rows.column) + " of " + std::to_string(thread_rows) +
              " rows per thread" + (x_vectors ? ", read at once" : ""));
  if (resampling.is_periodic()) dispatch.define("RLX_PERIODIC", 1);
  if (element_count(x.shape()) > 0) dispatch.read(&ResizeParams::x, x, x_alignment);
  if (resampling.combine == "sum") dispatch.read(&ResizeParams::weights, ctx.dense(ctx.input(2)));
  return true;
}

constexpr std::string_view kCombines[] = {"sum", "max", "min", "prod", "copy"};
constexpr AttrSpec kResampleAttrs[] = {
    {.name = "axes", .type = AttrType::IntList, .required = true},
    {.name = "sizes", .type = AttrType::IntList, .required = true, .minimum = 0},
    {.name = "counts", .type = AttrType::IntList, .required = true, .minimum = 1},
    {.name = "combine", .type = AttrType::String, .required = true, .choices = kCombines},
    {.name = "periods", .type = AttrType::IntList, .default_text = "[]", .minimum = 1},
    {.name = "advances", .type = AttrType::IntList, .default_text = "[]", .minimum = 0},
    // The tables are made from the sizes of the run.
    {.name = "of_run", .type = AttrType::Bool, .default_text = "false", .consumed_by_infer = true},
    {.name = "to", .type = AttrType::DTypeName, .required = true, .consumed_by_infer = true},
};

constexpr OpDef kResampleOps[] = {
    {.name = "resample",
     .signature = "resample(x, taps, weights; axes, sizes, counts, combine, periods, advances, "
                  "of_run=false, to) -> y",
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attrs = kResampleAttrs,
     .infer = infer_resample,
     .evaluate = evaluate_resample,
     .lower = lower_resample,
     .reads_strides = true,
     .place_refusal = no_place_refusal,
     .any_layout = true},
};

ValueId emit_pass(RewriteContext& ctx, ValueId x, const std::vector<AxisTaps>& tables,
                  const std::string& combine, DType to) {
  int64_t entries = 0;
  for (const AxisTaps& table : tables) entries += static_cast<int64_t>(table.taps.size());
  Tensor taps = Tensor::zeros({DType::i32, {entries}});
  Tensor weights = Tensor::zeros({table_dtype(to), {entries}});
  Ints axes;
  Ints sizes;
  Ints counts;
  Ints periods;
  Ints advances;
  size_t at = 0;
  for (const AxisTaps& table : tables) {
    for (size_t i = 0; i < table.taps.size(); ++i, ++at) {
      RLX_CHECK(table.taps[i] <= kLargestTap, "tap of " + ctx.node().name);
      taps.integers[at] = table.taps[i];
      weights.floats[at] = table.weights.empty() ? 1 : table.weights[i];
    }
    axes.push_back(static_cast<int64_t>(table.axis));
    sizes.push_back(table.out);
    counts.push_back(table.count);
    if (table.period == 0) continue;
    periods.push_back(table.period);
    advances.push_back(table.advance);
  }
  Attributes attributes = {{"axes", axes},
                           {"sizes", sizes},
                           {"counts", counts},
                           {"combine", combine},
                           {"to", std::string(name_of(to))}};
  if (!periods.empty()) {
    attributes["periods"] = periods;
    attributes["advances"] = advances;
  }
  return ctx.emit("resample", {x, ctx.constant("taps", taps), ctx.constant("weights", weights)},
                  std::move(attributes));
}

}  // namespace

bool is_identity(const AxisTaps& table, const Dim& in) {
  if (table.out != in) return false;
  const int64_t places = table.period == 0 ? static_cast<int64_t>(table.out) : table.period;
  for (int64_t o = 0; o < places; ++o) {
    double own = 0;
    for (int64_t t = 0; t < table.count; ++t) {
      const auto entry = static_cast<size_t>(o * table.count + t);
      const double weight = table.weights.empty() ? 1 : table.weights[entry];
      if (table.taps[entry] == o) own += weight;
      if (table.taps[entry] >= 0 && table.taps[entry] != o && weight != 0) return false;
    }
    if (own != 1) return false;
  }
  return true;
}

ValueId emit_resample(RewriteContext& ctx, ValueId x, std::vector<AxisTaps> tables,
                      const std::string& combine, DType to) {
  const TensorType type = ctx.type(x);
  if (tables.empty()) return x;
  int64_t taps = 1;
  for (const AxisTaps& table : tables) taps = std::min(taps * table.count, kLargestTap);
  const auto by_axis = [](const AxisTaps& a, const AxisTaps& b) { return a.axis < b.axis; };
  if (tables.size() <= kMostAxes && taps <= kMostTapsAtOnce) {
    std::sort(tables.begin(), tables.end(), by_axis);
    return emit_pass(ctx, x, tables, combine, to);
  }
  // What shrinks most goes first.
  const auto growth = [&type](const AxisTaps& table) {
    return static_cast<double>(table.out.bound()) /
           static_cast<double>(std::max<int64_t>(type.shape[table.axis].bound(), 1));
  };
  std::stable_sort(tables.begin(), tables.end(),
                   [&](const AxisTaps& a, const AxisTaps& b) { return growth(a) < growth(b); });
  const DType between = dtype_between(type.dtype, combine);
  for (size_t k = 0; k < tables.size(); ++k) {
    const bool last = k + 1 == tables.size();
    x = emit_pass(ctx, x, {tables[k]}, combine, last ? to : between);
  }
  return x;
}

DType dtype_between(DType dtype, const std::string& combine) {
  const bool widens = combine == "sum" || combine == "prod";
  return widens && dtype != DType::f64 ? DType::f32 : dtype;
}

DType table_dtype(DType result) {
  return result == DType::f64 ? DType::f64 : DType::f32;
}

ValueId emit_resample_by(RewriteContext& ctx, ValueId x, const RunTable& table,
                         const std::string& combine, DType to) {
  return ctx.emit("resample", {x, table.taps, table.weights},
                  {{"axes", Ints{static_cast<int64_t>(table.axis)}},
                   {"sizes", Ints{table.out}},
                   {"counts", Ints{table.count}},
                   {"combine", combine},
                   {"of_run", true},
                   {"to", std::string(name_of(to))}});
}

ValueId RunNumbers::column(const Dim& count) {
  const auto scalar = [this](int64_t number) {
    Tensor one = Tensor::zeros({DType::i64, {}});
    one.integers[0] = number;
    return ctx_->constant("number", one);
  };
  const ValueId line =
      ctx_->emit("ramp", {scalar(0), scalar(1)}, {{"count", count_attribute(count)}});
  return ctx_->emit("reshape", {line}, {{"shape", Ints{count, 1}}});
}

ValueId RunNumbers::row(int64_t first, int64_t count) {
  Tensor numbers = Tensor::zeros({DType::i64, {1, count}});
  std::iota(numbers.integers.begin(), numbers.integers.end(), first);
  return ctx_->constant("row", numbers);
}

ValueId RunNumbers::size(const Dim& size) {
  return emit_size(*ctx_, size);
}

ValueId RunNumbers::as(DType dtype, ValueId x) {
  return ctx_->emit("cast", {x}, {{"to", std::string(name_of(dtype))}});
}

std::span<const OpDef> resample_ops() {
  return kResampleOps;
}

}  // namespace rlx
