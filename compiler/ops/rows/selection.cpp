// SPDX-License-Identifier: Apache-2.0
// unique, compress and masked_select with a bound on their rows (ops.md 7.5): how many there are is
// a result of its own; rows that are left hold 0, indices -1.
#include <algorithm>
#include <numeric>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/index_output.h"

namespace rlx {
namespace {

void take_element(Tensor& y, int64_t to, const Tensor& from, int64_t i) {
  if (y.is_float()) y.floats[static_cast<size_t>(to)] = from.floats[static_cast<size_t>(i)];
  if (!y.is_float()) y.integers[static_cast<size_t>(to)] = from.integers[static_cast<size_t>(i)];
}

// ---- rows of x: along an axis, or every element where none is given ----

struct ChosenRows {
  std::optional<int64_t> axis;
  Dim count;    // rows
  Shape row;    // of one of them
  Shape shape;  // [count, row...]
};

std::optional<ChosenRows> chosen_rows(NodeContext& ctx, const Shape& x) {
  if (!ctx.attrs().has("axis")) {
    const Dim count = element_count(x);
    return ChosenRows{.axis = {}, .count = count, .row = {}, .shape = {count}};
  }
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), x.size());
  if (!axis) return std::nullopt;
  ChosenRows rows{.axis = axis, .count = x[static_cast<size_t>(*axis)], .row = x, .shape = {}};
  rows.row.erase(rows.row.begin() + *axis);
  rows.shape = rows.row;
  rows.shape.insert(rows.shape.begin(), rows.count);
  return rows;
}

Dim most_rows(const NodeContext& ctx, const Dim& count) {
  return ctx.attrs().has("max_count") ? Dim(ctx.attrs().integer("max_count")) : count;
}

// The result: x with `most` rows.
Shape result_of(const ChosenRows& rows, const Dim& most) {
  Shape shape = rows.row;
  shape.insert(shape.begin() + rows.axis.value_or(0), most);
  return shape;
}

// Row i of a tensor whose rows lie along the axis: its elements' places.
std::vector<int64_t> places_of(const ChosenRows& rows, const Shape& shape, int64_t row) {
  if (!rows.axis) return {row};
  const int64_t inner = element_count(Shape(shape.begin() + *rows.axis + 1, shape.end()));
  const int64_t outer = element_count(Shape(shape.begin(), shape.begin() + *rows.axis));
  const int64_t length = shape[static_cast<size_t>(*rows.axis)];
  std::vector<int64_t> places;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) places.push_back((o * length + row) * inner + i);
  }
  return places;
}

void take_row(const ChosenRows& rows, Tensor& y, int64_t to, const Tensor& x, int64_t from) {
  const std::vector<int64_t> target = places_of(rows, y.type.shape, to);
  const std::vector<int64_t> source = places_of(rows, x.type.shape, from);
  for (size_t i = 0; i < target.size(); ++i) take_element(y, target[i], x, source[i]);
}

// x as [count, row...].
ValueId as_rows(RewriteContext& ctx, ValueId x, const ChosenRows& rows) {
  if (!rows.axis) return ctx.reshape(x, rows.shape);
  Ints order = axes_from(0, ctx.shape(x).size());
  std::rotate(order.begin(), order.begin() + *rows.axis, order.begin() + *rows.axis + 1);
  return ctx.transpose(x, order);
}

ValueId from_rows(RewriteContext& ctx, ValueId x, const ChosenRows& rows) {
  Ints order = axes_from(1, ctx.shape(x).size());
  order.insert(order.begin() + rows.axis.value_or(0), 0);
  return ctx.transpose(x, order);
}

// `value` in rows that are there, `rest` in those that are left. is_row: [rows].
ValueId only_rows(RewriteContext& ctx, ValueId is_row, ValueId value, double rest) {
  Shape shape(ctx.shape(value).size(), 1);
  shape[0] = ctx.shape(is_row)[0];
  return ctx.emit("where", {ctx.reshape(is_row, shape), value, ctx.scalar(ctx.dtype(value), rest)});
}

// Places of true elements, [most], -1 behind them, and their number.
struct Found {
  ValueId places;
  ValueId count;
  ValueId is_row;
};

Found find_true(RewriteContext& ctx, ValueId flags, const Dim& most) {
  const std::vector<ValueId> found = ctx.emit_all(
      "nonzero", {flags},
      {{"max_count", static_cast<int64_t>(most)}, {"index_dtype", std::string("i64")}}, 2);
  const ValueId places = ctx.reshape(found[0], {most});
  return {.places = places,
          .count = found[1],
          .is_row = ctx.emit("ge", {places, ctx.scalar(DType::i64, 0)})};
}

ValueId rows_at(RewriteContext& ctx, ValueId x, ValueId places) {
  return ctx.emit("gather", {x, places}, {{"axis", int64_t{0}}, {"checked", false}});
}

// ---- compress and masked_select ----

bool check_selection(InferContext& ctx) {
  return check_dtype(ctx, 0, DTypeSet::NumberOrBool) &&
         check_dtype(ctx, 1, DTypeSet::NumberOrBool) && check_index_dtype(ctx);
}

bool infer_compress(InferContext& ctx) {
  if (!check_selection(ctx)) return false;
  const auto rows = chosen_rows(ctx, ctx.shape(0));
  if (!rows) return false;
  const Shape& condition = ctx.shape(1);
  if (condition.size() != 1 || condition[0].range().most > rows->count.range().most) {
    return ctx.fail(DiagCode::BadShape, "condition is " + to_string(condition) +
                                            ", wanted one truth for each of up to " +
                                            to_string(rows->count) + " rows");
  }
  ctx.set_output(0, {ctx.dtype(0), result_of(*rows, most_rows(ctx, condition[0]))});
  ctx.set_output(1, {ctx.attrs().dtype("index_dtype"), {}});
  return true;
}

bool evaluate_compress(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const auto rows = chosen_rows(ctx, x.type.shape);
  if (!rows) return false;
  const int64_t most = most_rows(ctx, ctx.input(1).type.shape[0]);
  int64_t found = 0;
  for (int64_t i = 0; i < ctx.input(1).count(); ++i) {
    if (real_at(ctx.input(1), i) == 0) continue;
    if (found < most) take_row(*rows, y, found, x, i);
    ++found;
  }
  if (ctx.output_count() > 1) set_index(ctx.output(1), 0, found);
  return true;
}

bool decompose_compress(RewriteContext& ctx) {
  const auto rows = chosen_rows(ctx, ctx.shape(ctx.input(0)));
  if (!rows) return false;
  const Dim most = most_rows(ctx, ctx.shape(ctx.input(1))[0]);
  if (rows->count.range().most == 0) {
    ctx.replace_output(0, ctx.filled(ctx.type(ctx.node().outputs[0]), 0));
    if (ctx.node().outputs.size() > 1)
      ctx.replace_output(1, ctx.filled(ctx.type(ctx.node().outputs[1]), 0));
    return true;
  }
  const Found found = find_true(ctx, ctx.input(1), most);
  const ValueId taken = rows_at(ctx, as_rows(ctx, ctx.input(0), *rows), found.places);
  const ValueId y = only_rows(ctx, found.is_row, taken, 0);
  ctx.replace_output(0, from_rows(ctx, y, *rows));
  if (ctx.node().outputs.size() > 1)
    ctx.replace_output(1, ctx.cast(found.count, ctx.attrs().dtype("index_dtype")));
  return true;
}

bool infer_masked_select(InferContext& ctx) {
  if (!check_selection(ctx)) return false;
  const auto shape = broadcast_shapes(ctx.shape(0), ctx.shape(1));
  if (!shape) {
    return ctx.fail(DiagCode::BadShape, "x " + to_string(ctx.shape(0)) + " and mask " +
                                            to_string(ctx.shape(1)) + " do not broadcast");
  }
  ctx.set_output(0, {ctx.dtype(0), {most_rows(ctx, element_count(*shape))}});
  ctx.set_output(1, {ctx.attrs().dtype("index_dtype"), {}});
  return true;
}

bool evaluate_masked_select(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Tensor& mask = ctx.input(1);
  Tensor& y = ctx.output(0);
  const auto shape = broadcast_shapes(x.type.shape, mask.type.shape);
  if (!shape) return false;
  int64_t found = 0;
  for_each_broadcast(*shape, {&x.type.shape, &mask.type.shape}, [&](int64_t, const int64_t* in) {
    if (real_at(mask, in[1]) == 0) return;
    if (found < y.type.shape[0]) take_element(y, found, x, in[0]);
    ++found;
  });
  if (ctx.output_count() > 1) set_index(ctx.output(1), 0, found);
  return true;
}

bool decompose_masked_select(RewriteContext& ctx) {
  const auto shape = broadcast_shapes(ctx.shape(ctx.input(0)), ctx.shape(ctx.input(1)));
  if (!shape) return false;
  const Shape flat = {element_count(*shape)};
  const ValueId x = ctx.reshape(ctx.expand(ctx.input(0), *shape), flat);
  const ValueId mask = ctx.reshape(ctx.expand(ctx.input(1), *shape), flat);
  const std::vector<ValueId> results =
      ctx.emit_all("compress", {x, mask}, ctx.node().attributes, 2);
  for (size_t i = 0; i < ctx.node().outputs.size(); ++i) ctx.replace_output(i, results[i]);
  return true;
}

// ---- unique ----

enum UniqueOutput : size_t { kRows, kCount, kFirst, kInverse, kCounts };

// ChosenRows are ordered column by column, each by a stable sort.
constexpr int64_t kMostColumns = 64;

bool infer_unique(InferContext& ctx) {
  if (!check_dtype(ctx, 0, DTypeSet::NumberOrBool) || !check_index_dtype(ctx)) return false;
  const auto rows = chosen_rows(ctx, ctx.shape(0));
  if (!rows) return false;
  if (rows->count.is_free()) {
    return ctx.fail(DiagCode::UnsupportedOp, "the number of rows is free",
                    "bind it with --dim: unique takes fixed sizes alone");
  }
  const Dim columns = element_count(rows->row);
  if (rows->axis && (columns.range().most > kMostColumns || columns.is_free())) {
    return ctx.fail(DiagCode::Limit,
                    "a row has " + to_string(columns) + " elements; wanted at most " +
                        std::to_string(kMostColumns),
                    "make one number of each row first");
  }
  const DType index_dtype = ctx.attrs().dtype("index_dtype");
  const Dim most = most_rows(ctx, rows->count);
  ctx.set_output(kRows, {ctx.dtype(0), result_of(*rows, most)});
  ctx.set_output(kCount, {index_dtype, {}});
  ctx.set_output(kFirst, {index_dtype, {most}});
  ctx.set_output(kInverse, {index_dtype, {rows->count}});
  ctx.set_output(kCounts, {index_dtype, {most}});
  return true;
}

// Where NaN stands: behind all numbers, each a value of its own.
int order_of(double a, double b) {
  if (a != a || b != b) return (a != a ? 1 : 0) - (b != b ? 1 : 0);
  return a < b ? -1 : (a > b ? 1 : 0);
}

bool evaluate_unique(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const auto rows = chosen_rows(ctx, x.type.shape);
  if (!rows) return false;
  const int64_t count = rows->count;
  std::vector<std::vector<int64_t>> places;
  for (int64_t i = 0; i < count; ++i) places.push_back(places_of(*rows, x.type.shape, i));
  const auto compare = [&](int64_t a, int64_t b) {
    const std::vector<int64_t>& left = places[static_cast<size_t>(a)];
    const std::vector<int64_t>& right = places[static_cast<size_t>(b)];
    for (size_t i = 0; i < left.size(); ++i) {
      const auto l = static_cast<size_t>(left[i]);
      const auto r = static_cast<size_t>(right[i]);
      const int order = x.is_float()
                            ? order_of(x.floats[l], x.floats[r])
                            : (x.integers[l] < x.integers[r] ? -1 : x.integers[l] > x.integers[r]);
      if (order != 0) return order;
    }
    return 0;
  };
  const auto differs = [&](int64_t a, int64_t b) {
    if (compare(a, b) != 0) return true;
    const std::vector<int64_t>& all = places[static_cast<size_t>(a)];
    return x.is_float() && std::any_of(all.begin(), all.end(), [&](int64_t i) {
             return x.floats[static_cast<size_t>(i)] != x.floats[static_cast<size_t>(i)];
           });
  };
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  const bool is_consecutive = ctx.attrs().flag("consecutive");
  if (!is_consecutive)
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  std::vector<std::vector<int64_t>> groups;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || differs(order[i - 1], order[i])) groups.emplace_back();
    groups.back().push_back(order[i]);
  }
  if (!ctx.attrs().flag("sorted"))
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.front() < b.front(); });
  const int64_t most = most_rows(ctx, rows->count);
  const auto wants = [&](size_t i) { return ctx.output_count() > i; };
  if (wants(kCount)) set_index(ctx.output(kCount), 0, static_cast<int64_t>(groups.size()));
  for (int64_t i = 0; i < most; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool is_row = at < groups.size();
    if (is_row) take_row(*rows, ctx.output(kRows), i, x, groups[at].front());
    if (wants(kFirst)) set_index(ctx.output(kFirst), at, is_row ? groups[at].front() : -1);
    if (wants(kCounts))
      set_index(ctx.output(kCounts), at, is_row ? static_cast<int64_t>(groups[at].size()) : 0);
  }
  for (size_t g = 0; g < groups.size() && wants(kInverse); ++g) {
    for (const int64_t member : groups[g])
      set_index(ctx.output(kInverse), static_cast<size_t>(member), static_cast<int64_t>(g));
  }
  return true;
}

// What unique finds before rows are cut to the bound. All i64.
struct Groups {
  ValueId places;  // of the rows in x, [rows], -1 behind them
  ValueId counts;  // [rows]
  ValueId inverse;
  ValueId count;
  ValueId is_row;
};

ValueId numbered(RewriteContext& ctx, const Dim& count) {
  return ctx.emit("ramp", {ctx.scalar(DType::i64, 0), ctx.scalar(DType::i64, 1)},
                  {{"count", static_cast<int64_t>(count)}});
}

ValueId rows_from(RewriteContext& ctx, ValueId x, int64_t start, const Dim& length) {
  return ctx.emit("narrow", {x},
                  {{"axis", int64_t{0}}, {"start", start}, {"len", static_cast<int64_t>(length)}});
}

// The order of the rows of `flat` [count, columns], equal ones by place.
ValueId row_order(RewriteContext& ctx, ValueId flat) {
  const Dim columns = ctx.shape(flat)[1];
  std::optional<ValueId> order;
  for (int64_t c = columns; c-- > 0;) {
    const ValueId column =
        ctx.emit("narrow", {flat}, {{"axis", int64_t{1}}, {"start", c}, {"len", int64_t{1}}});
    ValueId keys = ctx.reshape(column, {ctx.shape(flat)[0]});
    if (order) keys = rows_at(ctx, keys, *order);
    const ValueId next =
        ctx.emit("argsort", {keys}, {{"axis", int64_t{0}}, {"index_dtype", std::string("i64")}});
    order = order ? rows_at(ctx, *order, next) : next;
  }
  return order ? *order : numbered(ctx, ctx.shape(flat)[0]);
}

Groups grouped(RewriteContext& ctx, ValueId flat, int64_t most) {
  const Dim count = ctx.shape(flat)[0];
  const bool is_consecutive = ctx.attrs().flag("consecutive");
  const ValueId order = is_consecutive ? numbered(ctx, count) : row_order(ctx, flat);
  const ValueId rows = is_consecutive ? flat : rows_at(ctx, flat, order);
  const ValueId differs =
      ctx.emit("ne", {rows_from(ctx, rows, 1, count - 1), rows_from(ctx, rows, 0, count - 1)});
  const ValueId changes = ctx.reduce("reduce_any", differs, {1}, NodeBuilder::Axes::Drop);
  const ValueId flags =
      ctx.emit("concat", {ctx.filled({DType::bool_, {1}}, 1), changes}, {{"axis", int64_t{0}}});
  const ValueId number =
      ctx.emit("sub", {ctx.emit("cumsum", {ctx.cast(flags, DType::i64)}, {{"axis", int64_t{0}}}),
                       ctx.scalar(DType::i64, 1)});
  // One more than wanted, as a group ends where the next one begins.
  const Found found = find_true(ctx, flags, most + 1);
  const ValueId starts = rows_from(ctx, found.places, 0, most);
  const ValueId next = rows_from(ctx, found.places, 1, most);
  const ValueId is_row = rows_from(ctx, found.is_row, 0, most);
  const ValueId has_next = rows_from(ctx, found.is_row, 1, most);
  const ValueId ends = ctx.emit(
      "where",
      {has_next, next, ctx.scalar(DType::i64, static_cast<double>(static_cast<int64_t>(count)))});
  const ValueId zeros = ctx.filled({DType::i64, {count}}, 0);
  return {.places = only_rows(ctx, is_row, rows_at(ctx, order, starts), -1),
          .counts = only_rows(ctx, is_row, ctx.emit("sub", {ends, starts}), 0),
          .inverse = ctx.emit("scatter_elements", {zeros, order, number}, {{"axis", int64_t{0}}}),
          .count = found.count,
          .is_row = is_row};
}

// Groups in the order of their first rows. Precondition: all groups are there.
Groups by_first(RewriteContext& ctx, const Groups& groups, const Dim& count) {
  const ValueId behind = ctx.scalar(DType::i64, static_cast<double>(static_cast<int64_t>(count)));
  const ValueId keys = ctx.emit("where", {groups.is_row, groups.places, behind});
  const ValueId order =
      ctx.emit("argsort", {keys}, {{"axis", int64_t{0}}, {"index_dtype", std::string("i64")}});
  const ValueId zeros = ctx.filled({DType::i64, {count}}, 0);
  const ValueId rank =
      ctx.emit("scatter_elements", {zeros, order, numbered(ctx, count)}, {{"axis", int64_t{0}}});
  return {.places = rows_at(ctx, groups.places, order),
          .counts = rows_at(ctx, groups.counts, order),
          .inverse = rows_at(ctx, rank, groups.inverse),
          .count = groups.count,
          .is_row = groups.is_row};
}

bool decompose_unique(RewriteContext& ctx) {
  const auto rows = chosen_rows(ctx, ctx.shape(ctx.input(0)));
  if (!rows) return false;
  const std::vector<ValueId> outputs = ctx.node().outputs;
  if (rows->count == 0) {
    for (size_t i = 0; i < outputs.size(); ++i)
      ctx.replace_output(i, ctx.filled(ctx.type(outputs[i]), i == kFirst ? -1 : 0));
    return true;
  }
  const int64_t count = rows->count;
  const int64_t most = most_rows(ctx, rows->count);
  const ValueId x = as_rows(ctx, ctx.input(0), *rows);
  const ValueId flat = ctx.reshape(x, {count, element_count(rows->row)});
  const bool is_sorted = ctx.attrs().flag("sorted");
  // In another order than the values', all groups are wanted first.
  const int64_t all = is_sorted ? std::min(most, count) : count;
  Groups groups = grouped(ctx, flat, all);
  if (!is_sorted && !ctx.attrs().flag("consecutive")) groups = by_first(ctx, groups, count);
  const auto fitted = [&](ValueId value, double rest) {
    if (most <= all) return rows_from(ctx, value, 0, most);
    Shape shape = ctx.shape(value);
    shape[0] = most - all;
    return ctx.emit("concat", {value, ctx.filled({ctx.dtype(value), shape}, rest)},
                    {{"axis", int64_t{0}}});
  };
  const ValueId taken = only_rows(ctx, groups.is_row, rows_at(ctx, x, groups.places), 0);
  const DType index_dtype = ctx.attrs().dtype("index_dtype");
  // In the order of the outputs, all made before the last that is wanted is replaced: the node, and
  // the place of what is made, go with it.
  std::vector<ValueId> results = {from_rows(ctx, fitted(taken, 0), *rows)};
  for (const ValueId value :
       {groups.count, fitted(groups.places, -1), groups.inverse, fitted(groups.counts, 0)})
    results.push_back(ctx.cast(value, index_dtype));
  for (size_t i = 0; i < outputs.size(); ++i) ctx.replace_output(i, results[i]);
  return true;
}

constexpr AttrSpec kChosenCount = {
    .name = "max_count", .type = AttrType::Int, .minimum = 0, .consumed_by_infer = true};
constexpr AttrSpec kChosenAxis = {.name = "axis", .type = AttrType::Int};
constexpr AttrSpec kChosenIndexDType = {.name = "index_dtype",
                                        .type = AttrType::DTypeName,
                                        .default_text = "\"i32\"",
                                        .consumed_by_infer = true};
constexpr AttrSpec kUniqueAttrs[] = {
    kChosenCount,
    kChosenAxis,
    {.name = "sorted", .type = AttrType::Bool, .default_text = "true"},
    {.name = "consecutive", .type = AttrType::Bool, .default_text = "false"},
    kChosenIndexDType,
};
constexpr AttrSpec kCompressAttrs[] = {kChosenCount, kChosenAxis, kChosenIndexDType};
constexpr AttrSpec kMaskedSelectAttrs[] = {kChosenCount, kChosenIndexDType};

constexpr OpDef kSelectionOps[] = {
    {.name = "unique",
     .signature = "unique(x; max_count, axis, sorted=true, consecutive=false, index_dtype=i32) -> "
                  "y, [count], [first], [inverse], [counts]",
     .inputs = {1, 1},
     .outputs = {1, 5},
     .attrs = kUniqueAttrs,
     .infer = infer_unique,
     .evaluate = evaluate_unique,
     .decompose = decompose_unique},
    {.name = "compress",
     .signature = "compress(x, condition; max_count, axis, index_dtype=i32) -> y, [count]",
     .inputs = {2, 2},
     .outputs = {1, 2},
     .attrs = kCompressAttrs,
     .infer = infer_compress,
     .evaluate = evaluate_compress,
     .decompose = decompose_compress},
    {.name = "masked_select",
     .signature = "masked_select(x, mask; max_count, index_dtype=i32) -> y, [count]",
     .inputs = {2, 2},
     .outputs = {1, 2},
     .attrs = kMaskedSelectAttrs,
     .infer = infer_masked_select,
     .evaluate = evaluate_masked_select,
     .decompose = decompose_masked_select},
};

}  // namespace

std::span<const OpDef> selection_ops() {
  return kSelectionOps;
}

}  // namespace rlx
