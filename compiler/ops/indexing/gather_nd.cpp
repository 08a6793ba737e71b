// SPDX-License-Identifier: Apache-2.0
// gather_nd and gather_elements (ops.md 8): slices and elements of x at places that tuples of an
// index tensor name, no access outside x.
#include <algorithm>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/places.h"
#include "compiler/ops/nonempty_axis.h"
#include "schema/plan_header.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

bool is_elements(const NodeContext& ctx) {
  return ctx.node().op == "gather_elements";
}

bool clamps(const NodeContext& ctx) {
  return ctx.attrs().text("oob") == "clamp";
}

bool infer_elements(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0)) || !check_index_dtype(ctx, 1)) return false;
  const Shape& from = ctx.shape(0);
  const Shape& index = ctx.shape(1);
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), from.size());
  if (!axis) return false;
  if (index.size() != from.size()) {
    return ctx.fail(DiagCode::BadRank,
                    "index " + to_string(index) + " and x " + to_string(from) + " differ in rank");
  }
  // A run that made the index larger would read beyond x.
  const DecidedOrders decided;
  for (size_t d = 0; d < from.size(); ++d) {
    if (static_cast<int64_t>(d) == *axis || index[d] <= from[d]) continue;
    return ctx.fail(DiagCode::BadShape, "index " + to_string(index) + " is larger than x " +
                                            to_string(from) + " in axis " + std::to_string(d));
  }
  Shape to = index;
  if (clamps(ctx) && !require_nonempty_axis(ctx, from, *axis, kNothingToClampTo, to)) return false;
  ctx.set_output(0, {ctx.dtype(0), std::move(to)});
  return true;
}

bool infer_nd(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0)) || !check_index_dtype(ctx, 1)) return false;
  const Shape& from = ctx.shape(0);
  const Shape& index = ctx.shape(1);
  const auto batch = static_cast<size_t>(ctx.attrs().integer("batch_dims"));
  if (index.empty() || batch > from.size() || batch + 1 > index.size()) {
    return ctx.fail(DiagCode::BadRank, "batch_dims is " + std::to_string(batch) + " for x " +
                                           to_string(from) + " and index " + to_string(index) +
                                           ", whose last dim holds the tuples");
  }
  for (size_t d = 0; d < batch; ++d) {
    if (from[d] == index[d]) continue;
    return ctx.fail(DiagCode::BadShape, "batch dim " + std::to_string(d) + " is " +
                                            to_string(from[d]) + " in x and " +
                                            to_string(index[d]) + " in index");
  }
  const int64_t coordinates = index.back();
  if (coordinates > static_cast<int64_t>(from.size() - batch)) {
    return ctx.fail(DiagCode::BadShape, "tuples of " + std::to_string(coordinates) +
                                            " coordinates for x " + to_string(from) + " behind " +
                                            std::to_string(batch) + " batch dims");
  }
  Shape to(index.begin(), index.end() - 1);
  const auto first = static_cast<int64_t>(batch) + coordinates;
  to.insert(to.end(), from.begin() + first, from.end());
  if (to.size() > kMaxRank) {
    return ctx.fail(DiagCode::BadRank, "output " + to_string(to) + " has rank above 8");
  }
  for (int64_t axis = static_cast<int64_t>(batch); axis < first; ++axis) {
    if (clamps(ctx) && !require_nonempty_axis(ctx, from, axis, kNothingToClampTo, to)) return false;
  }
  ctx.set_output(0, {ctx.dtype(0), std::move(to)});
  return true;
}

// The tuples of the index as places of x, in elements by `strides`; row: the dims of x behind them.
struct Gathered {
  PlaceMap map;
  LoopDims row;
};

Gathered elements_of(NodeContext& ctx, const Shape& index, const Shape& x, const Strides& strides) {
  const auto axis = static_cast<size_t>(*ctx.axis(ctx.attrs().integer("axis"), x.size()));
  Gathered gathered;
  gathered.map.axes = {{.size = x[axis], .stride = strides[axis]}};
  for (size_t d = 0; d < index.size(); ++d) {
    gathered.map.base.push_back({.size = index[d], .strides = {d == axis ? Dim() : strides[d], 0}});
  }
  gathered.map.tuples = element_count(index);
  return gathered;
}

Gathered slices_of(NodeContext& ctx, const Shape& index, const Shape& x, const Strides& strides) {
  const auto batch = static_cast<size_t>(ctx.attrs().integer("batch_dims"));
  Gathered gathered;
  for (size_t d = 0; d + 1 < index.size(); ++d) {
    gathered.map.base.push_back({.size = index[d], .strides = {d < batch ? strides[d] : Dim(), 0}});
  }
  const size_t first = batch + static_cast<size_t>(index.back());
  for (size_t d = batch; d < first; ++d) {
    gathered.map.axes.push_back({.size = x[d], .stride = strides[d]});
  }
  for (size_t d = first; d < x.size(); ++d) {
    gathered.row.push_back({.size = x[d], .strides = {strides[d], 0}});
  }
  gathered.map.tuples = element_count(Shape(index.begin(), index.end() - 1));
  return gathered;
}

Gathered gathered_of(NodeContext& ctx, const Shape& index, const Shape& x, const Strides& strides) {
  Gathered gathered =
      is_elements(ctx) ? elements_of(ctx, index, x, strides) : slices_of(ctx, index, x, strides);
  const bool zero = ctx.attrs().text("oob") == "zero";
  gathered.map.outside = zero ? Outside::Drop : Outside::Clamp;
  return gathered;
}

bool evaluate_gather_nd(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Tensor& index = ctx.input(1);
  Tensor& y = ctx.output(0);
  const Shape& from = x.type.shape;
  const Gathered gathered = gathered_of(ctx, index.type.shape, from, dense_strides(from));
  const int64_t row = loop_count(gathered.row);
  if (has_place_outside(gathered.map, index)) ctx.report_outside();
  for (int64_t i = 0; i < y.count(); ++i) {
    const std::optional<int64_t> place = place_of(gathered.map, index, i / row);
    if (!place) continue;
    const auto source = static_cast<size_t>(*place + i % row);
    if (x.is_float()) y.floats[static_cast<size_t>(i)] = x.floats[source];
    if (!x.is_float()) y.integers[static_cast<size_t>(i)] = x.integers[source];
  }
  return true;
}

// Bytes that one thread moves: as far as rows, their starts and both sides allow.
int64_t word_bytes(const LowerContext& ctx, const TensorRef& x, const TensorRef& y,
                   const Gathered& gathered) {
  const int64_t element = element_bytes(x.dtype());
  if (!is_contiguous(gathered.row)) return element;
  int64_t word = std::min(ctx.alignment(x), ctx.alignment(y));
  const auto fits = [&](const Dim& elements) { return (elements * element).divides_by(word); };
  const auto all_fit = [&] {
    return fits(loop_count(gathered.row)) &&
           std::all_of(gathered.map.base.begin(), gathered.map.base.end(),
                       [&](const LoopDim& dim) { return fits(dim.strides[0]); }) &&
           std::all_of(gathered.map.axes.begin(), gathered.map.axes.end(),
                       [&](const PlaceAxis& axis) { return fits(axis.stride); });
  };
  while (word > element && !all_fit()) word /= 2;
  return word;
}

bool lower_gather_nd(LowerContext& ctx) {
  // A place below 0 stands for none, so views that run backwards are copied.
  TensorRef x = ctx.input(0);
  const bool backwards =
      std::any_of(x.strides.begin(), x.strides.end(), [](const Dim& stride) { return stride < 0; });
  if (backwards) x = ctx.dense(x);
  const TensorRef index = ctx.dense_input(1);
  const TensorRef y = ctx.output(0);
  Gathered gathered = gathered_of(ctx, index.shape(), x.shape(), x.strides);
  gathered.row = merged(gathered.row);
  const int64_t word = word_bytes(ctx, x, y, gathered);
  const int64_t word_elements = word / element_bytes(x.dtype());
  const bool contiguous = word_elements > 1 || is_contiguous(gathered.row);
  const Dim row_words = loop_count(gathered.row) / word_elements;
  gathered.map.base = merged(in_words(gathered.map.base, word_elements));
  for (PlaceAxis& axis : gathered.map.axes) axis.stride /= word_elements;
  const Dim words = gathered.map.tuples * row_words;
  const int64_t items = words_per_thread(words);
  const int64_t per_group = items * kCopyWorkgroup;
  std::string text = place_text(gathered.map, index.dtype(), words + per_group);
  text += contiguous ? define_line("RLX_X_COLUMN(i)", "(i)")
                     : index_macro("RLX_X_COLUMN", gathered.row, 0);
  ctx.dispatch<KernelId::gather_nd>()
      .workgroup({kCopyWorkgroup})
      .define("RLX_WORD_BYTES", word)
      .define("RLX_ROW_WORDS", integer_text(row_words))
      .define("RLX_ITEMS", items)
      .generated("place.inc", text + wide_define("RLX_COUNT", words))
      .read(&GatherParams::x, x, static_cast<uint32_t>(word))
      .read(&GatherParams::index, index)
      .count_index_errors()
      .write(&GatherParams::y, y, static_cast<uint32_t>(word))
      .grid(split_grid(ceil_div(words, per_group)))
      .work(2 * byte_size(y.type) + byte_size(index.type), 0)
      .reason("slices of " + to_string(row_words * word) + " bytes in words of " +
              std::to_string(word) + (items > 1 ? ", 4 per thread" : ""));
  return true;
}

constexpr std::string_view kGatherNdOutside[] = {"clamp", "zero"};
const AttrSpec kElementsAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .default_text = "0"},
    {.name = "oob",
     .type = AttrType::String,
     .default_text = "\"clamp\"",
     .choices = kGatherNdOutside},
};
const AttrSpec kNdAttrs[] = {
    {.name = "batch_dims", .type = AttrType::Int, .default_text = "0", .minimum = 0},
    {.name = "oob",
     .type = AttrType::String,
     .default_text = "\"clamp\"",
     .choices = kGatherNdOutside},
};

// Into zeros, where the elements were. An index outside reads a clamped place but writes none.
bool gather_nd_gradient(GradientContext& ctx) {
  const bool elements = ctx.node().op == "gather_elements";
  if (!elements && ctx.attrs().integer("batch_dims") != 0) {
    return ctx.fail(DiagCode::UnknownOp, "with batch_dims it has no gradient",
                    "write the batch into the index");
  }
  const ValueId zeros = ctx.filled(ctx.type(ctx.input(0)), 0);
  Attributes attributes = {{"reduction", std::string("add")}};
  if (elements) attributes["axis"] = ctx.attrs().integer("axis");
  ctx.give(0, ctx.emit(elements ? "scatter_elements" : "scatter_nd",
                       {zeros, ctx.input(1), ctx.gradient()}, std::move(attributes)));
  return true;
}

const OpDef kGatherNdOps[] = {
    {.name = "gather_elements",
     .signature = "gather_elements(x, index; axis=0, oob=\"clamp\") -> y",
     .inputs = {2, 2},
     .attrs = kElementsAttrs,
     .infer = infer_elements,
     .evaluate = evaluate_gather_nd,
     .gradient = gather_nd_gradient,
     .lower = lower_gather_nd,
     .index_inputs = 1u << 1},
    {.name = "gather_nd",
     .signature = "gather_nd(x, index; batch_dims=0, oob=\"clamp\") -> y",
     .inputs = {2, 2},
     .attrs = kNdAttrs,
     .infer = infer_nd,
     .evaluate = evaluate_gather_nd,
     .gradient = gather_nd_gradient,
     .lower = lower_gather_nd,
     .index_inputs = 1u << 1},
};

}  // namespace

std::span<const OpDef> gather_nd_ops() {
  return kGatherNdOps;
}

}  // namespace rlx
