// SPDX-License-Identifier: Apache-2.0
// argmax and argmin (ops.md 7.3).
#include <cmath>
#include <numeric>

#include "compiler/ops/lowering/index_output.h"
#include "compiler/ops/lowering/row_offers.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/nonempty_axis.h"
#include "compiler/ops/rows/row_tables.h"

namespace rlx {

namespace {

// The axes searched together: one, or all of them (in row-major order) where the attribute is
// absent.
std::optional<Ints> searched_axes(NodeContext& ctx, size_t rank) {
  if (ctx.attrs().has("axis")) {
    const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), rank);
    if (!axis) return std::nullopt;
    return Ints{*axis};
  }
  Ints all(rank);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

bool infer_arg_reduce(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  if (!is_float(dtype) && !is_integer(dtype)) {
    return ctx.fail(DiagCode::BadDtype,
                    "x is " + std::string(name_of(dtype)) + ", wanted a float or integer type",
                    "cast x first");
  }
  if (!check_index_dtype(ctx)) return false;
  const Shape& shape = ctx.shape(0);
  const std::optional<Ints> axes = searched_axes(ctx, shape.size());
  if (!axes) return false;
  Shape result = shape;
  for (const int64_t axis : *axes) result[static_cast<size_t>(axis)] = 1;
  if (!ctx.attrs().flag("keep_dims")) {
    for (size_t i = axes->size(); i-- > 0;) result.erase(result.begin() + (*axes)[i]);
  }
  for (const int64_t axis : *axes) {
    if (!require_nonempty_axis(ctx, shape, axis, "there is nothing to choose from", result))
      return false;
  }
  ctx.set_output(0, {.dtype = ctx.attrs().dtype("index_dtype"), .shape = result});
  return true;
}

// Position of the extreme of one row.
template <typename Element>
size_t extreme(const std::vector<Element>& values, int64_t base,
               const std::vector<int64_t>& offsets, bool smallest, bool select_last) {
  size_t best = 0;
  const auto value = [&](size_t i) { return values[static_cast<size_t>(base + offsets[i])]; };
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (value(i) != value(i)) return i;
    const bool wins = smallest ? value(i) < value(best) : value(i) > value(best);
    if (wins || (select_last && value(i) == value(best))) best = i;
  }
  return best;
}

bool evaluate_arg_reduce(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const bool smallest = ctx.node().op == "argmin";
  const bool select_last = ctx.attrs().flag("select_last");
  const std::optional<Ints> axes = searched_axes(ctx, x.type.shape.size());
  if (!axes) return false;
  const RowOffsets offsets = row_offsets(x.type.shape, *axes);
  for (size_t k = 0; k < offsets.kept.size(); ++k) {
    const int64_t base = offsets.kept[k];
    const size_t best = x.is_float()
                            ? extreme(x.floats, base, offsets.reduced, smallest, select_last)
                            : extreme(x.integers, base, offsets.reduced, smallest, select_last);
    set_index(y, k, static_cast<int64_t>(best));
  }
  return true;
}

constexpr uint64_t kFoundBytes = 2 * sizeof(int64_t);  // of a chunk: the extreme and its place

struct Search {
  TensorRef x;
  TensorRef y;
  RowLoops loops;  // operand 0: x, operand 1: y
  uint32_t width = 1;

  [[nodiscard]] const RowLoops& rows() const { return loops; }
  [[nodiscard]] uint32_t lane_elements() const { return width; }
  [[nodiscard]] static uint32_t columns() { return 1; }
  [[nodiscard]] RowChunks split(const OfferContext& at, const RowPlan& plan) const;
  [[nodiscard]] std::string whole_refusal(const RowPlan&) const { return {}; }
  [[nodiscard]] StepWork work(const RowWay& way) const;
  bool emit(LowerContext& ctx, const RowWay& way) const;
};

// One dispatch: over x, or (`final`) over what the chunks' groups found, in `partial`.
void dispatch_search(LowerContext& ctx, const Search& search, const RowPlan& plan,
                     const RowChunks& chunks, uint32_t width,
                     const std::optional<TensorRef>& partial, bool final) {
  const TensorRef& x = search.x;
  const TensorRef& y = search.y;
  const Dim rows = loop_count(search.loops.kept);
  const Dim length = loop_count(search.loops.reduced);
  const Dim searched = final ? partial.value().shape()[1] : length;
  const Dim part = chunks.count == 1 ? max(searched, 1) : Dim(chunks.length);
  std::string text = define_line("RLX_INDEX", index_type({&x, &y}, (rows * length).range().most));
  text += index_macro("RLX_X_KEPT", search.loops.kept, 0);
  text += index_macro("RLX_X_REDUCED", search.loops.reduced, 0);
  text += index_macro("RLX_Y_KEPT", search.loops.kept, 1);
  auto dispatch = ctx.dispatch<KernelId::arg_reduce>();
  dispatch.workgroup({plan.threads(), 1, 1})
      .define("RLX_LANES", plan.lanes)
      .define("RLX_ROWS", plan.rows)
      .define("RLX_BY_COLUMN", plan.by_column ? 1 : 0)
      .define("RLX_ROW_COUNT", integer_text(rows))
      .define("RLX_REDUCED", integer_text(searched))
      .define("RLX_CHUNKS", chunks.count)
      .define("RLX_CHUNK_LENGTH", integer_text(part))
      .define("RLX_FINAL", final ? 1 : 0)
      .define("RLX_WIDTH", width)
      .define("RLX_X", std::string(name_of(x.dtype())))
      .define("RLX_Y", std::string(name_of(y.dtype())))
      .define("RLX_SMALLEST", ctx.node().op == "argmin" ? 1 : 0)
      .define("RLX_SELECT_LAST", ctx.attrs().flag("select_last") ? 1 : 0)
      .generated("rows.inc", text)
      .grid(split_grid(plan.groups(rows) * chunks.count))
      .work(rows * searched * element_bytes(x.dtype()), rows * searched)
      .reason(to_string(plan) +
              (chunks.count > 1 ? ", " + std::to_string(chunks.count) + " chunks" : ""));
  if (final) {
    dispatch.read(&CopyParams::x, partial.value()).write(&CopyParams::y, y);
    return;
  }
  dispatch.read(&CopyParams::x, x, width > 1 ? 16 : 0);
  dispatch.write(&CopyParams::y, partial ? *partial : y);
}

RowChunks Search::split(const OfferContext& at, const RowPlan& plan) const {
  constexpr int64_t kGroupsPerMultiprocessor = 8;
  constexpr int64_t kLeastPieces = 4;
  return split_into_chunks(loop_count(loops.reduced).bound(),
                           plan.groups(loop_count(loops.kept)).bound(),
                           kGroupsPerMultiprocessor * at.device().multiprocessors,
                           static_cast<int64_t>(plan.lanes) * width, kLeastPieces);
}

StepWork Search::work(const RowWay& way) const {
  const auto kept = static_cast<uint64_t>(loop_count(loops.kept).bound());
  const auto chunks = static_cast<uint64_t>(way.chunks.count);
  const uint64_t partial = chunks > 1 ? 2 * kept * chunks * kFoundBytes : 0;
  const Dim bytes = x.byte_range().length_bytes + byte_size(y.type);
  return {.bytes = static_cast<uint64_t>(bytes.bound()) + partial,
          .flops = kept * static_cast<uint64_t>(loop_count(loops.reduced).bound())};
}

bool Search::emit(LowerContext& ctx, const RowWay& way) const {
  const int64_t count = way.chunks.count;
  if (count == 1) {
    dispatch_search(ctx, *this, way.plan, way.chunks, width, std::nullopt, false);
    return true;
  }
  const TensorRef partial =
      ctx.scratch({.dtype = DType::i64, .shape = {loop_count(loops.kept), count, 2}}, "partial");
  dispatch_search(ctx, *this, way.plan, way.chunks, width, partial, false);
  dispatch_search(ctx, *this, plan_neighbours(count, 1), {.count = 1, .length = count}, 1, partial,
                  true);
  return true;
}

constexpr std::array kArgReduceOffers = row_offers<Search>(KernelId::arg_reduce);

bool lower_arg_reduce(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const std::optional<Ints> axes = searched_axes(ctx, x.shape().size());
  if (!axes) return false;
  const TensorRef y = ctx.output(0);
  if (element_count(y.shape()) == 0) return true;
  for (const int64_t axis : *axes) {
    const Dim& size = x.shape()[static_cast<size_t>(axis)];
    if (size.range().least > 0) continue;
    return ctx.fail(DiagCode::FreeSize,
                    "axis " + std::to_string(axis) + " of x " + to_string(x.shape()) +
                        " may be empty, wanted at least one element to choose from",
                    "give the symbol a range that leaves one");
  }

  Search search{
      .x = x,
      .y = y,
      .loops = split_rows(x.shape(), x.strides, strides_without(x.shape(), *axes), *axes)};
  search.loops.kept = by_stride(search.loops.kept);
  search.width = vector_width(ctx, x, search.loops, 0, 16 / element_bytes(x.dtype()));
  return lower_by_offers(ctx, std::span<const Offer<Search>>(kArgReduceOffers), search);
}

constexpr AttrSpec kArgReduceAttrs[] = {
    {.name = "axis", .type = AttrType::Int},
    {.name = "keep_dims",
     .type = AttrType::Bool,
     .default_text = "false",
     .consumed_by_infer = true},
    {.name = "select_last", .type = AttrType::Bool, .default_text = "false"},
    {.name = "index_dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"i32\"",
     .consumed_by_infer = true},
};

constexpr OpDef arg_op(std::string_view name, std::string_view signature) {
  return {.name = name,
          .signature = signature,
          .inputs = {1, 1},
          .outputs = {1, 1},
          .attrs = kArgReduceAttrs,
          .infer = infer_arg_reduce,
          .evaluate = evaluate_arg_reduce,
          .lower = lower_arg_reduce};
}

constexpr OpDef kArgReduceOps[] = {
    arg_op("argmax",
           "argmax(x; axis=all, keep_dims=false, select_last=false, index_dtype=i32) -> y"),
    arg_op("argmin",
           "argmin(x; axis=all, keep_dims=false, select_last=false, index_dtype=i32) -> y"),
};

}  // namespace

std::vector<std::string> arg_reduce_offer_names() {
  return offer_names(std::span<const Offer<Search>>(kArgReduceOffers));
}

std::span<const OpDef> arg_reduce_ops() {
  return kArgReduceOps;
}

}  // namespace rlx
