// SPDX-License-Identifier: Apache-2.0
// Lowering of topk, sort and argsort, and of draws from each row's first elements, which the last
// of their steps orders and draws from. Tiles of a row are sorted in shared memory by (key, place),
// so that equals keep their order. A row that fits one tile is done. Of a longer row
//   the first k of each tile are all that can count, where k is at most half a tile: they make a
//   shorter row, until one tile holds it. Where k is small they are found without sorting the
//   others;
//   otherwise sorted runs are merged two by two, no longer than k.
// Of rows of a free length there are as many stages as the longest takes; shorter ones pass through
// the last of them as they are.
#include "compiler/ops/rows/sort_lower.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/rows/row_tables.h"
#include "schema/rounding.h"

namespace rlx {

namespace {

constexpr uint32_t kThreads = 256;
constexpr int64_t kMostInTile = 2048;    // 24 KiB of 64-bit keys and places
constexpr int64_t kLeastInGroup = 1024;  // of short rows
constexpr int64_t kLongestRow = (int64_t{1} << 32) - 2;

// A row-major row of keys and their places.
struct KeyRows {
  TensorRef keys;
  TensorRef places;
  Dim length = 0;
};

struct Order {
  TensorRef x;  // the ordered axis last
  std::optional<TensorRef> values;
  std::optional<TensorRef> indices;
  RowLoops loops;  // operand 0: x, operand 1: values and indices
  Dim rows = 0;
  Dim length = 0;  // of a row of x
  Dim wanted = 0;  // of a row of values and indices
  int64_t tile = 0;
  bool descending = false;
  bool nan_least = false;
  std::optional<RowDraw> draw = std::nullopt;  // values: logprob, indices: id

  [[nodiscard]] bool wide() const { return element_bytes(x.dtype()) == 8; }
  // At the largest sizes.
  [[nodiscard]] uint64_t result_bytes() const {
    const Dim bytes =
        (values ? byte_size(values->type) : Dim()) + (indices ? byte_size(indices->type) : Dim());
    return static_cast<uint64_t>(bytes.bound());
  }
};

// The same elements with the axis at the end.
TensorRef axis_last(TensorRef view, int64_t axis) {
  std::rotate(view.type.shape.begin() + axis, view.type.shape.begin() + axis + 1,
              view.type.shape.end());
  std::rotate(view.strides.begin() + axis, view.strides.begin() + axis + 1, view.strides.end());
  return view;
}

std::string rows_text(const Order& order, const Dim& scratch_length) {
  const TensorRef& y = order.values ? *order.values : *order.indices;
  std::string text = define_line(
      "RLX_INDEX",
      index_type({&order.x, &y}, (order.rows * scratch_length).range().most + 4 * kMostInTile));
  text += index_macro("RLX_X_KEPT", order.loops.kept, 0);
  text += index_macro("RLX_X_REDUCED", order.loops.reduced, 0);
  text += index_macro("RLX_Y_KEPT", order.loops.kept, 1);
  text += index_macro("RLX_Y_REDUCED", order.loops.reduced, 1);
  return text;
}

KeyRows scratch_rows(LowerContext& ctx, const Order& order, const Dim& length) {
  const Shape shape = {order.rows, length};
  return {.keys = ctx.scratch({order.wide() ? DType::i64 : DType::u32, shape}, "keys"),
          .places = ctx.scratch({DType::u32, shape}, "places"),
          .length = length};
}

// Threads that draw from a row.
uint32_t draw_lanes(const Order& order) {
  return plan_neighbours(order.wanted, 1).lanes;
}

// The draw in the last step. `rows`: that a workgroup has.
void bind_draw(DispatchBuilder<SortParams>& dispatch, const Order& order, int64_t rows) {
  const RowDraw& draw = *order.draw;
  const uint32_t lanes = draw_lanes(order);
  dispatch.define("RLX_CANDIDATES", order.wanted.bound())
      .define("RLX_DRAW_LANES", lanes)
      .define("RLX_DRAW_THREADS", std::min<int64_t>(kThreads, rows * lanes))
      .define("RLX_HAS_TEMPERATURE", draw.temperature != 1 ? 1 : 0)
      .define("RLX_HAS_TOP_P", draw.top_p < 1 ? 1 : 0)
      .define("RLX_HAS_MIN_P", draw.min_p > 0 ? 1 : 0)
      .define("RLX_HAS_LOGPROB", draw.logprob ? 1 : 0)
      .generated("filters.inc",
                 define_line("RLX_TEMPERATURE", literal(DType::f32, draw.temperature)) +
                     define_line("RLX_TOP_P", literal(DType::f32, draw.top_p)) +
                     define_line("RLX_MIN_P",
                                 literal(DType::f32, draw.min_p > 0 ? std::log(draw.min_p) : 0.0)) +
                     define_line("RLX_STREAM", integer_literal(DType::u32, draw.stream)))
      .read(&SortParams::seed, draw.seed)
      .read(&SortParams::step, draw.step);
}

// The next run's step. Nothing else of a stage that is not the last reads the step, and the last
// one is told another place of it: so the new one may take its place, as it may where a single
// workgroup draws.
void bind_next_step(LowerContext& ctx, DispatchBuilder<SortParams>& dispatch, Order& order,
                    bool last, const Dim& groups) {
  const bool writes = order.draw && order.draw->next_step;
  dispatch.define("RLX_NEXT_STEP", writes ? 1 : 0);
  if (!writes) return;
  RowDraw& draw = *order.draw;
  dispatch.write(&SortParams::next_step, *draw.next_step);
  if (!last || groups == 1) dispatch.allow_in_place_state(draw.step.buffer);
  if (last) return;
  dispatch.read(&SortParams::step, draw.step);
  draw.step = ctx.scratch(draw.step.type, "step");
  draw.next_step.reset();
  dispatch.write(&SortParams::held_step, draw.step);
}

// What both kernels are told, and where the result goes: `to`, or values and indices.
void bind_result(DispatchBuilder<SortParams>& dispatch, const Order& order,
                 const std::optional<KeyRows>& from, const std::optional<KeyRows>& to) {
  const bool last = !to.has_value();
  dispatch.define("RLX_ROW_COUNT", integer_text(order.rows))
      .define("RLX_WIDE", order.wide() ? 1 : 0)
      .define("RLX_LAST", last ? 1 : 0)
      .define("RLX_DRAWS", last && order.draw ? 1 : 0)
      .define("RLX_HAS_VALUES", last && order.values ? 1 : 0)
      .define("RLX_HAS_INDICES", last && order.indices ? 1 : 0)
      .define("RLX_RAW", raw_type(order.x.dtype()))
      .define("RLX_I", std::string(name_of(order.indices ? order.indices->dtype() : DType::i32)));
  const bool copies_values = last && order.values && !order.draw;
  if (!from || copies_values) dispatch.read(&SortParams::x, order.x);
  if (from) {
    dispatch.read(&SortParams::keys, from->keys).read(&SortParams::places, from->places);
  }
  if (to) {
    dispatch.write(&SortParams::values, to->keys).write(&SortParams::indices, to->places);
    return;
  }
  if (order.values) dispatch.write(&SortParams::values, *order.values);
  if (order.indices) dispatch.write(&SortParams::indices, *order.indices);
}

// Sorts tiles of x or of `from` and keeps `keep` of each; without `to` the result is the op's.
void dispatch_tiles(LowerContext& ctx, Order& order, const std::optional<KeyRows>& from,
                    const std::optional<KeyRows>& to, const Dim& keep) {
  const Dim length = from ? from->length : order.length;
  const Dim row_tiles = ceil_div(length, order.tile);
  const int64_t tiles = std::max<int64_t>(1, kLeastInGroup / order.tile);
  const Dim groups = ceil_div(order.rows * row_tiles, tiles);
  const LoopDims& along = order.loops.reduced;
  const bool by_column =
      !from && tiles > 1 && row_tiles == 1 && !along.empty() && along.back().strides[0] != 1;
  const bool draws = !to && order.draw;
  auto dispatch = ctx.dispatch<KernelId::sort>();
  dispatch.workgroup({kThreads, 1, 1})
      .define("RLX_MERGE", 0)
      .define("RLX_TILE", order.tile)
      .define("RLX_TILES", tiles)
      .define("RLX_COLS", integer_text(length))
      .define("RLX_ROW_TILES", integer_text(row_tiles))
      .size("RLX_KEEP", keep)
      .define("RLX_BY_COLUMN", by_column ? 1 : 0)
      .define("RLX_FROM_KEYS", from ? 1 : 0)
      .define("RLX_DESCENDING", order.descending ? 1 : 0)
      .define("RLX_NAN_LEAST", order.nan_least ? 1 : 0)
      .define("RLX_X", std::string(name_of(order.x.dtype())))
      .generated("rows.inc", rows_text(order, row_tiles * order.tile))
      .grid(split_grid(groups))
      .work(order.rows * length * element_bytes(order.x.dtype()), 0)
      .reason("tiles of " + std::to_string(order.tile) + ", " + to_string(row_tiles) +
              " to a row, the first " + to_string(keep) + (draws ? " drawn from" : " kept"));
  bind_result(dispatch, order, from, to);
  if (draws) bind_draw(dispatch, order, tiles);
  bind_next_step(ctx, dispatch, order, !to, groups);
}

// How one stage of merging divides a row.
struct MergeStage {
  Dim length = 0;  // of the row
  Dim run = 0;     // sorted elements; the last run may be shorter
  Dim merged = 0;  // kept of each two
  Dim next_runs = 0;
  Dim next_length = 0;

  [[nodiscard]] bool is_last() const { return next_runs.bound() == 1; }
};

// Of a free length all elements are kept up to the last stage: what every stage cuts off would
// depend on the stages before it, in expressions that grow with each.
MergeStage merge_stage(const Dim& length, const Dim& run, const Dim& wanted) {
  if (length.is_free()) {
    MergeStage stage{.length = length, .run = run, .merged = 2 * run};
    stage.next_runs = ceil_div(length, stage.merged);
    stage.next_length = length;
    if (stage.is_last()) stage.merged = wanted;
    return stage;
  }
  const Dim runs = ceil_div(length, run);
  MergeStage stage{.length = length, .run = run, .merged = min(2 * run, wanted)};
  stage.next_runs = (runs + 1) / 2;
  const Dim rest = length - (stage.next_runs - 1) * 2 * run;
  stage.next_length = (stage.next_runs - 1) * stage.merged + min(stage.merged, rest);
  return stage;
}

void dispatch_merge(LowerContext& ctx, const Order& order, const MergeStage& stage,
                    const KeyRows& from, const std::optional<KeyRows>& to) {
  const Dim run_tiles = ceil_div(stage.merged, kMostInTile);
  const Dim groups = order.rows * stage.next_runs * run_tiles;
  const uint64_t element = element_bytes(from.keys.dtype()) + sizeof(uint32_t);
  auto dispatch = ctx.dispatch<KernelId::sort>();
  dispatch.workgroup({kThreads, 1, 1})
      .define("RLX_MERGE", 1)
      .define("RLX_NEXT_STEP", 0)
      .define("RLX_TILE", kMostInTile)
      .define("RLX_LENGTH", integer_text(stage.length))
      .define("RLX_RUN", integer_text(stage.run))
      .define("RLX_MERGED", integer_text(stage.merged))
      .define("RLX_NEXT_LENGTH", integer_text(stage.next_length))
      .define("RLX_NEXT_RUNS", integer_text(stage.next_runs))
      .define("RLX_RUN_TILES", integer_text(run_tiles))
      .generated("rows.inc", rows_text(order, stage.length))
      .grid(split_grid(groups))
      .work(2 * order.rows * stage.next_length * element, 0)
      .reason("runs of " + to_string(stage.run) + " merged, " + to_string(stage.merged) + " kept");
  bind_result(dispatch, order, from, to);
}

// ---- selecting ----

constexpr int64_t kSelectThreads = 512;
constexpr int64_t kMostSelected = 512;
// Of more, on an H200, their parts' first elements are too many to be ranked.
constexpr int64_t kMostByParts = 170;
constexpr int64_t kFewInSelection = 2048;  // four elements to a thread
constexpr int64_t kMostInSelection = 4096;
constexpr int64_t kSelectionBytes = 32 * 1024 - 64;

// Parts of a tile. Half more than elements wanted leave half more candidates than those. 1: the
// last one is found by counting.
int64_t selection_parts(const Order& order) {
  if (order.wanted.bound() > kMostByParts) return 1;
  const auto wanted = static_cast<uint64_t>(order.wanted.bound());
  return std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(wanted + wanted / 2)), 64,
                             kSelectThreads);
}

// A workgroup holds the first of each part, as many parts as elements are wanted, and what its
// reductions exchange.
int64_t selection_bytes(const Order& order, int64_t tile) {
  const int64_t parts = selection_parts(order);
  const int64_t held = order.wanted.bound() * (parts > 1 ? tile / parts : 1) + parts;
  const int64_t drawing = order.draw ? draw_lanes(order) * 16 : 0;
  return held * (order.wide() ? 12 : 8) + kSelectThreads * (order.wide() ? 20 : 12) + drawing;
}

// 0 where as many cannot be selected.
int64_t most_to_select_from(const Order& order) {
  int64_t tile = kMostInSelection;
  while (tile >= 4 * order.wanted.bound()) {
    if (selection_bytes(order, tile) <= kSelectionBytes) return tile;
    tile /= 2;
  }
  return 0;
}

// Elements that a workgroup selects from: few where the rest then fits one workgroup.
int64_t selection_tile(const Order& order, int64_t length) {
  const int64_t most = most_to_select_from(order);
  if (length <= most) {
    return std::max(kSelectThreads,
                    static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length))));
  }
  const int64_t left = ceil_div(length, kFewInSelection) * order.wanted.bound();
  return left <= most ? std::min(kFewInSelection, most) : most;
}

void dispatch_selection(LowerContext& ctx, Order& order, const std::optional<KeyRows>& from,
                        const std::optional<KeyRows>& to, int64_t tile) {
  const Dim length = from ? from->length : order.length;
  const Dim row_tiles = ceil_div(length, tile);
  const int64_t parts = selection_parts(order);
  const bool draws = !to && order.draw;
  auto dispatch = ctx.dispatch<KernelId::sort>();
  dispatch.workgroup({static_cast<uint32_t>(kSelectThreads), 1, 1})
      .define("RLX_MERGE", 2)
      .define("RLX_TILE", tile)
      .define("RLX_LANES", kSelectThreads / parts)
      .define("RLX_ROWS", parts)
      .define("RLX_COLS", integer_text(length))
      .define("RLX_ROW_TILES", integer_text(row_tiles))
      .define("RLX_KEEP", order.wanted.bound())
      .define("RLX_BY_COLUMN", 0)
      .define("RLX_FROM_KEYS", from ? 1 : 0)
      .define("RLX_DESCENDING", order.descending ? 1 : 0)
      .define("RLX_NAN_LEAST", order.nan_least ? 1 : 0)
      .define("RLX_X", std::string(name_of(order.x.dtype())))
      .generated("rows.inc", rows_text(order, row_tiles * tile))
      .grid(split_grid(order.rows * row_tiles))
      .work(order.rows * length * element_bytes(order.x.dtype()), 0)
      .reason("the first " + to_string(order.wanted) + " of every " + std::to_string(tile) +
              " selected, " + to_string(row_tiles) + " times in a row" +
              (draws ? ", and drawn from" : ""));
  bind_result(dispatch, order, from, to);
  if (draws) bind_draw(dispatch, order, 1);
  bind_next_step(ctx, dispatch, order, !to, order.rows * row_tiles);
}

bool keep_selected(LowerContext& ctx, const Order& wanted) {
  Order order = wanted;
  std::optional<KeyRows> from;
  for (;;) {
    const Dim length = from ? from->length : order.length;
    const int64_t tile = selection_tile(order, length.bound());
    if (length.bound() <= tile) {
      dispatch_selection(ctx, order, from, std::nullopt, tile);
      return true;
    }
    const KeyRows to = scratch_rows(ctx, order, ceil_div(length, tile) * order.wanted);
    dispatch_selection(ctx, order, from, to, tile);
    from = to;
  }
}

bool keep_first_of_tiles(LowerContext& ctx, const Order& wanted) {
  Order order = wanted;
  std::optional<KeyRows> from;
  for (Dim length = order.length; length > order.tile;) {
    length = ceil_div(length, order.tile) * order.wanted;
    const KeyRows to = scratch_rows(ctx, order, length);
    dispatch_tiles(ctx, order, from, to, order.wanted);
    from = to;
  }
  dispatch_tiles(ctx, order, from, std::nullopt, order.wanted);
  return true;
}

// With tiles of half a row where one would hold it.
Order in_several_tiles(Order order) {
  if (order.length <= order.tile) order.tile /= 2;
  return order;
}

bool merge_tiles(LowerContext& ctx, const Order& whole) {
  Order order = in_several_tiles(whole);
  const Dim row_tiles = ceil_div(order.length, order.tile);
  KeyRows from = scratch_rows(ctx, order, row_tiles * order.tile);
  dispatch_tiles(ctx, order, std::nullopt, from, order.tile);
  Dim run = order.tile;
  for (;;) {
    const MergeStage stage = merge_stage(from.length, run, order.wanted);
    if (stage.is_last()) {
      dispatch_merge(ctx, order, stage, from, std::nullopt);
      return true;
    }
    const KeyRows to = scratch_rows(ctx, order, stage.next_length);
    dispatch_merge(ctx, order, stage, from, to);
    from = to;
    run = stage.merged;
  }
}

// ---- the choice ----

// Bytes of so many keys and places of each row, at the largest sizes as all that is compared.
uint64_t key_bytes(const Order& order, const Dim& length) {
  const uint64_t element = (order.wide() ? sizeof(uint64_t) : sizeof(uint32_t)) + sizeof(uint32_t);
  return static_cast<uint64_t>((order.rows * length).bound()) * element;
}

double step_bound(const OfferContext& at, uint64_t bytes) {
  return thread_bound_microseconds(at.device(), {.bytes = bytes, .flops = 0});
}

std::string tiles_refusal(const OfferContext&, const Order& order) {
  if (order.length <= order.tile || 2 * order.wanted <= order.tile) return {};
  return "more than " + std::to_string(order.tile / 2) + " wanted of rows that no tile holds";
}

double tiles_bound(const OfferContext& at, const Order& order) {
  auto read = static_cast<uint64_t>(byte_size(order.x.type).bound());
  double total = 0;
  for (Dim length = order.length; length > order.tile;) {
    length = ceil_div(length, order.tile) * order.wanted;
    total += step_bound(at, read + key_bytes(order, length));
    read = key_bytes(order, length);
  }
  return total + step_bound(at, read + order.result_bytes());
}

double merges_bound(const OfferContext& at, const Order& whole) {
  const Order order = in_several_tiles(whole);
  Dim length = round_up(order.length, order.tile);
  double total = step_bound(
      at, static_cast<uint64_t>(byte_size(order.x.type).bound()) + key_bytes(order, length));
  for (Dim run = order.tile;;) {
    const MergeStage stage = merge_stage(length, run, order.wanted);
    const uint64_t read = key_bytes(order, length);
    if (stage.is_last()) return total + step_bound(at, read + order.result_bytes());
    length = stage.next_length;
    run = stage.merged;
    total += step_bound(at, read + key_bytes(order, length));
  }
}

std::string selection_refusal(const OfferContext&, const Order& order) {
  if (order.length.bound() <= kSelectThreads) return "rows that one tile sorts";
  if (order.wanted.is_free() || order.wanted.bound() > kMostSelected)
    return "more than " + std::to_string(kMostSelected) + " wanted";
  if (4 * order.wanted.bound() > order.length.bound()) return "more than a fourth wanted";
  if (most_to_select_from(order) == 0)
    return "a workgroup has no room to select " + to_string(order.wanted) + " from enough others";
  return {};
}

double selection_bound(const OfferContext& at, const Order& order) {
  auto read = static_cast<uint64_t>(byte_size(order.x.type).bound());
  double total = 0;
  int64_t length = order.length.bound();
  for (int64_t tile = selection_tile(order, length); length > tile;
       tile = selection_tile(order, length)) {
    length = ceil_div(length, tile) * order.wanted.bound();
    total += step_bound(at, read + key_bytes(order, length));
    read = key_bytes(order, length);
  }
  return total + step_bound(at, read + order.result_bytes());
}

constexpr std::array kSortOffers = {
    // Few candidates instead of sorting: one step, or one more each time that rows become shorter.
    Offer<Order>{.kernel = KernelId::sort,
                 .form = "selection",
                 .rank = 0,
                 .estimate = Estimate::Bound,
                 .refusal = selection_refusal,
                 .microseconds = selection_bound,
                 .emit = keep_selected},
    // One step, or one more each time that rows become shorter by their tiles' rest.
    Offer<Order>{.kernel = KernelId::sort,
                 .form = "tiles",
                 .rank = 1,
                 .estimate = Estimate::Bound,
                 .refusal = tiles_refusal,
                 .microseconds = tiles_bound,
                 .emit = keep_first_of_tiles},
    // Takes everything; a step more each time that runs become twice as long.
    Offer<Order>{.kernel = KernelId::sort,
                 .form = "merged runs",
                 .rank = 2,
                 .estimate = Estimate::Bound,
                 .refusal =
                     [](const OfferContext&, const Order& order) {
                       return std::string(order.draw ? "no merge ends with a draw" : "");
                     },
                 .microseconds = merges_bound,
                 .emit = merge_tiles},
};

int64_t tile_of(const Dim& length) {
  const auto most = std::clamp<int64_t>(length.range().most, 2, kMostInTile);
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(most)));
}

// Where a result with the axis last is written: in place, or in scratch that is transposed later,
// since long rows across memory would be written a few bytes at a time.
std::optional<TensorRef> written(LowerContext& ctx, const std::optional<TensorRef>& result,
                                 bool apart, const char* name) {
  if (!result || !apart) return result;
  return ctx.scratch(result->type, name);
}

}  // namespace

bool lower_draw(LowerContext& ctx, int64_t count, const RowDraw& draw) {
  const TensorRef x = ctx.dense_input(0);
  const Dim length = x.shape().back();
  const auto last = static_cast<int64_t>(x.shape().size()) - 1;
  Order order{.x = x,
              .values = draw.logprob,
              .indices = draw.id,
              .loops = split_rows(x.shape(), x.strides, x.strides, {last}),
              .rows = element_count(Shape(x.shape().begin(), x.shape().end() - 1)),
              .length = length,
              .wanted = count,
              .tile = tile_of(length),
              .descending = true,
              .nan_least = true,
              .draw = draw};
  return lower_by_offers(ctx, std::span<const Offer<Order>>(kSortOffers), order);
}

bool lower_sort(LowerContext& ctx) {
  constexpr int64_t kShort = 64;  // rows up to this length are read and written as they lie
  const auto axis = ctx.axis(ctx.attrs().integer("axis"), ctx.input_type(0).shape.size());
  if (!axis) return false;
  const bool has_values = ctx.node().op != "argsort";
  std::optional<TensorRef> values;
  std::optional<TensorRef> indices;
  if (has_values) values = axis_last(ctx.output(0), *axis);
  if (!has_values) indices = axis_last(ctx.output(0), *axis);
  if (has_values && ctx.has_output(1)) indices = axis_last(ctx.output(1), *axis);
  const bool descending = sorts_descending(ctx);
  const TensorRef result = values ? *values : *indices;
  if (element_count(result.shape()) == 0) return true;

  TensorRef x = axis_last(ctx.input(0), *axis);
  const Dim length = x.shape().back();
  const Dim wanted = result.shape().back();
  const int64_t longest = length.range().most;
  if (longest > kLongestRow) {
    return ctx.fail(DiagCode::Limit, "an axis of " + to_string(length) +
                                         " elements, wanted at most " +
                                         std::to_string(kLongestRow));
  }
  if (length > kShort && x.strides.back() != 1) x = ctx.dense(x);
  const bool apart = wanted > kShort && result.strides.back() != 1;
  Order order{.x = x,
              .values = written(ctx, values, apart, "values"),
              .indices = written(ctx, indices, apart, "indices"),
              .loops = {},
              .rows = element_count(Shape(x.shape().begin(), x.shape().end() - 1)),
              .length = length,
              .wanted = wanted,
              .tile = tile_of(length),
              .descending = descending,
              .nan_least = ctx.attrs().flag("nan_least") && is_float(x.dtype())};
  const TensorRef& target = order.values ? *order.values : *order.indices;
  const auto last = static_cast<int64_t>(x.shape().size()) - 1;
  order.loops = split_rows(x.shape(), x.strides, target.strides, {last});
  if (!lower_by_offers(ctx, std::span<const Offer<Order>>(kSortOffers), order)) return false;
  if (apart && values)
    emit_strided_copy(ctx.state().options, ctx.program(), ctx.new_step(), *order.values, *values);
  if (apart && indices)
    emit_strided_copy(ctx.state().options, ctx.program(), ctx.new_step(), *order.indices, *indices);
  return true;
}

std::vector<std::string> sort_offer_names() {
  return offer_names(std::span<const Offer<Order>>(kSortOffers));
}

}  // namespace rlx
