// SPDX-License-Identifier: Apache-2.0
// suppress_boxes and non_max_suppression (ops.md 7.5): boxes that overlap none of a better score.
#include <algorithm>
#include <array>
#include <limits>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/index_output.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// A bit of shared memory each.
constexpr int64_t kMostBoxes = int64_t{1} << 17;

bool check_boxes(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "boxes") || !check_float_input(ctx, 1, "scores")) return false;
  const Shape& boxes = ctx.shape(0);
  const Shape& scores = ctx.shape(1);
  if (boxes.size() != 3 || scores.size() != 3 || boxes[2] != 4 || boxes[0] != scores[0] ||
      boxes[1] != scores[2]) {
    return ctx.fail(DiagCode::BadShape,
                    "boxes are " + to_string(boxes) + " and scores " + to_string(scores) +
                        "; wanted [images, boxes, 4] and [images, classes, boxes]");
  }
  if (boxes[1].range().most > kMostBoxes) {
    return ctx.fail(
        DiagCode::Limit,
        "there are " + to_string(boxes[1]) + " boxes; wanted at most " + std::to_string(kMostBoxes),
        "take those of the best scores first, with topk");
  }
  return true;
}

// Of each image and class.
Dim most_kept(const NodeContext& ctx, const Shape& boxes) {
  return min(Dim(ctx.attrs().integer("max_per_class")), boxes[1]);
}

bool infer_suppress(InferContext& ctx) {
  if (!check_boxes(ctx)) return false;
  if (ctx.dtype(2) != DType::i32 || ctx.shape(2) != ctx.shape(1)) {
    return ctx.fail(DiagCode::BadShape, "order is " + to_string(ctx.input(2)) + "; wanted i32 " +
                                            to_string(ctx.shape(1)));
  }
  const Shape& scores = ctx.shape(1);
  ctx.set_output(0, {DType::i32, {scores[0], scores[1], most_kept(ctx, ctx.shape(0))}});
  return true;
}

// ---- evaluation ----

struct Overlap {
  bool is_centred = false;
  double most = 0;
  std::optional<double> score;
};

Overlap overlap_of(const NodeContext& ctx) {
  Overlap overlap{.is_centred = ctx.attrs().flag("center_point_box"),
                  .most = ctx.attrs().real("iou_threshold"),
                  .score = {}};
  if (ctx.attrs().has("score_threshold")) overlap.score = ctx.attrs().real("score_threshold");
  return overlap;
}

struct Box {
  std::array<double, 2> low;
  std::array<double, 2> high;
  [[nodiscard]] double area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

Box box_at(const Tensor& boxes, int64_t i, bool is_centred) {
  const double* v = boxes.floats.data() + i * 4;
  Box box{};
  for (size_t d = 0; d < 2; ++d) {
    box.low[d] = is_centred ? v[d] - v[d + 2] / 2 : std::min(v[d], v[d + 2]);
    box.high[d] = is_centred ? v[d] + v[d + 2] / 2 : std::max(v[d], v[d + 2]);
  }
  return box;
}

bool overlaps(const Box& a, const Box& b, double most) {
  double common = 1;
  for (size_t d = 0; d < 2; ++d) {
    const double side = std::min(a.high[d], b.high[d]) - std::max(a.low[d], b.low[d]);
    if (!(side > 0)) return false;
    common *= side;
  }
  const double all = a.area() + b.area() - common;
  return all > 0 && common / all > most;
}

// The boxes of one image that are kept, as `order` has them.
std::vector<int64_t> kept_boxes(const Overlap& overlap, const Tensor& boxes, int64_t first_box,
                                const double* scores, const std::vector<int64_t>& order,
                                size_t most) {
  std::vector<int64_t> kept;
  std::vector<Box> others;
  for (const int64_t place : order) {
    if (kept.size() == most) break;
    if (overlap.score && !(scores[place] > *overlap.score)) continue;
    const Box box = box_at(boxes, first_box + place, overlap.is_centred);
    if (std::any_of(others.begin(), others.end(),
                    [&](const Box& other) { return overlaps(other, box, overlap.most); }))
      continue;
    kept.push_back(place);
    others.push_back(box);
  }
  return kept;
}

bool evaluate_suppress(EvaluateContext& ctx) {
  const Tensor& boxes = ctx.input(0);
  const Tensor& scores = ctx.input(1);
  Tensor& kept = ctx.output(0);
  const Overlap overlap = overlap_of(ctx);
  const int64_t count = boxes.type.shape[1];
  const int64_t classes = scores.type.shape[1];
  const int64_t most = kept.type.shape[2];
  for (int64_t row = 0; row < scores.type.shape[0] * classes; ++row) {
    const auto begin = ctx.input(2).integers.begin() + row * count;
    const std::vector<int64_t> order(begin, begin + count);
    const std::vector<int64_t> found =
        kept_boxes(overlap, boxes, row / classes * count, scores.floats.data() + row * count, order,
                   static_cast<size_t>(most));
    for (int64_t i = 0; i < most; ++i) {
      const auto at = static_cast<size_t>(i);
      kept.integers[static_cast<size_t>(row * most + i)] = at < found.size() ? found[at] : -1;
    }
  }
  return true;
}

// ---- lowering ----

bool lower_suppress(LowerContext& ctx) {
  constexpr uint32_t kThreads = 256;
  const TensorRef boxes = ctx.dense_input(0);
  const TensorRef scores = ctx.dense_input(1);
  const TensorRef order = ctx.dense_input(2);
  const TensorRef kept = ctx.output(0);
  if (element_count(kept.shape()) == 0) return true;
  const Overlap overlap = overlap_of(ctx);
  const Dim& count = boxes.shape()[1];
  const Dim rows = scores.shape()[0] * scores.shape()[1];
  const bool is_wide = boxes.dtype() == DType::f64 || scores.dtype() == DType::f64;
  const DType real = is_wide ? DType::f64 : DType::f32;
  auto dispatch = ctx.dispatch<KernelId::suppress_boxes>();
  dispatch.workgroup({kThreads, 1, 1})
      .size("RLX_ROWS", rows)
      .size("RLX_CLASSES", scores.shape()[1])
      .size("RLX_BOXES", count)
      .define("RLX_WORDS", ceil_div(count.range().most, 32))
      .size("RLX_MOST", kept.shape()[2])
      .define("RLX_X", std::string(name_of(boxes.dtype())))
      .define("RLX_S", std::string(name_of(scores.dtype())))
      .define("RLX_REAL", "rlx_" + std::string(name_of(real)))
      .define("RLX_IOU", literal(real, overlap.most))
      .define("RLX_HAS_SCORE", overlap.score ? 1 : 0)
      .define("RLX_SCORE", literal(real, overlap.score.value_or(0)))
      .define("RLX_CENTER", overlap.is_centred ? 1 : 0)
      .read(&SuppressParams::boxes, boxes)
      .read(&SuppressParams::order, order)
      .write(&SuppressParams::kept, kept)
      .grid(split_grid(rows))
      .work(byte_size(boxes.type) + byte_size(scores.type) + byte_size(order.type), 0)
      .reason("a group per image and class");
  if (overlap.score) dispatch.read(&SuppressParams::scores, scores);
  return true;
}

// ---- non_max_suppression: rows (image, class, box) of all that are kept ----

Dim most_rows(const NodeContext& ctx, const Shape& boxes, const Shape& scores) {
  if (ctx.attrs().has("max_count")) return ctx.attrs().integer("max_count");
  return scores[0] * scores[1] * most_kept(ctx, boxes);
}

bool infer_non_max(InferContext& ctx) {
  if (!check_boxes(ctx) || !check_index_dtype(ctx)) return false;
  const DType index_dtype = ctx.attrs().dtype("index_dtype");
  ctx.set_output(0, {index_dtype, {most_rows(ctx, ctx.shape(0), ctx.shape(1)), 3}});
  ctx.set_output(1, {index_dtype, {}});
  return true;
}

bool evaluate_non_max(EvaluateContext& ctx) {
  const Tensor& boxes = ctx.input(0);
  const Tensor& scores = ctx.input(1);
  const Overlap overlap = overlap_of(ctx);
  const int64_t count = boxes.type.shape[1];
  const int64_t classes = scores.type.shape[1];
  const auto most = static_cast<size_t>(most_kept(ctx, boxes.type.shape));
  Tensor& rows = ctx.output(0);
  for (size_t i = 0; i < static_cast<size_t>(rows.count()); ++i) set_index(rows, i, -1);
  int64_t found = 0;
  for (int64_t row = 0; row < scores.type.shape[0] * classes; ++row) {
    const double* values = scores.floats.data() + row * count;
    std::vector<int64_t> order(static_cast<size_t>(count));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return values[b] == values[b] && (values[a] > values[b] || values[a] != values[a]);
    });
    for (const int64_t box :
         kept_boxes(overlap, boxes, row / classes * count, values, order, most)) {
      const std::array<int64_t, 3> entry = {row / classes, row % classes, box};
      for (size_t d = 0; d < entry.size() && found < rows.type.shape[0]; ++d)
        set_index(rows, static_cast<size_t>(found) * 3 + d, entry[d]);
      ++found;
    }
  }
  if (ctx.output_count() > 1) set_index(ctx.output(1), 0, found);
  return true;
}

bool decompose_non_max(RewriteContext& ctx) {
  const DType index_dtype = ctx.attrs().dtype("index_dtype");
  const ValueId boxes = ctx.input(0);
  const ValueId scores = ctx.input(1);
  const Shape& shape = ctx.shape(scores);
  const Dim most = most_rows(ctx, ctx.shape(boxes), ctx.shape(scores));
  if ((shape[0] * shape[1] * most_kept(ctx, ctx.shape(boxes))).range().most == 0) {
    const std::vector<ValueId> outputs = ctx.node().outputs;
    for (size_t i = 0; i < outputs.size(); ++i)
      ctx.replace_output(i, ctx.filled(ctx.type(outputs[i]), i == 0 ? -1 : 0));
    return true;
  }
  const ValueId order =
      ctx.emit("argsort", {scores}, {{"axis", int64_t{-1}}, {"descending", true}});
  Attributes attributes = ctx.node().attributes;
  attributes.erase("max_count");
  attributes.erase("index_dtype");
  const ValueId kept = ctx.emit("suppress_boxes", {boxes, scores, order}, std::move(attributes));
  const ValueId is_kept = ctx.emit("ge", {kept, ctx.scalar(DType::i32, 0)});
  const int64_t bound = most.range().most;
  const std::vector<ValueId> found = ctx.emit_all(
      "nonzero", {is_kept}, {{"max_count", bound}, {"index_dtype", std::string("i64")}}, 2);
  // Rows that are left are -1 in each column, and name the last place.
  const ValueId box = ctx.emit("gather_nd", {kept, found[0]});
  const auto columns = [&](int64_t start, int64_t length) {
    return ctx.emit("narrow", {found[0]},
                    {{"axis", int64_t{1}}, {"start", start}, {"len", length}});
  };
  const ValueId is_row = ctx.emit("ge", {columns(0, 1), ctx.scalar(DType::i64, 0)});
  const ValueId wide = ctx.cast(ctx.reshape(box, {bound, 1}), DType::i64);
  const ValueId last = ctx.emit("where", {is_row, wide, ctx.scalar(DType::i64, -1)});
  ValueId rows = ctx.emit("concat", {columns(0, 2), last}, {{"axis", int64_t{1}}});
  if (most.is_free()) {
    rows =
        ctx.emit("slice", {rows}, {{"axes", Ints{0}}, {"starts", Ints{0}}, {"ends", Ints{most}}});
  }
  ctx.replace_output(0, ctx.cast(rows, index_dtype));
  if (ctx.node().outputs.size() > 1) ctx.replace_output(1, ctx.cast(found[1], index_dtype));
  return true;
}

constexpr AttrSpec kMostPerClass = {.name = "max_per_class",
                                    .type = AttrType::Int,
                                    .required = true,
                                    .minimum = 0,
                                    .consumed_by_infer = true};
constexpr AttrSpec kIouThreshold = {
    .name = "iou_threshold", .type = AttrType::Float, .default_text = "0", .minimum = 0};
constexpr AttrSpec kScoreThreshold = {.name = "score_threshold", .type = AttrType::Float};
constexpr AttrSpec kCentredBoxes = {
    .name = "center_point_box", .type = AttrType::Bool, .default_text = "false"};

constexpr AttrSpec kSuppressAttrs[] = {kMostPerClass, kIouThreshold, kScoreThreshold,
                                       kCentredBoxes};
constexpr AttrSpec kNonMaxAttrs[] = {
    kMostPerClass,
    kIouThreshold,
    kScoreThreshold,
    kCentredBoxes,
    {.name = "max_count", .type = AttrType::Int, .minimum = 0, .consumed_by_infer = true},
    {.name = "index_dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"i32\"",
     .consumed_by_infer = true},
};

constexpr OpDef kSuppressBoxesOps[] = {
    {.name = "suppress_boxes",
     .signature = "suppress_boxes(boxes, scores, order; max_per_class, iou_threshold=0, "
                  "score_threshold, center_point_box=false) -> kept",
     .inputs = {3, 3},
     .attrs = kSuppressAttrs,
     .infer = infer_suppress,
     .evaluate = evaluate_suppress,
     .lower = lower_suppress},
};

constexpr OpDef kSuppressionOps[] = {
    {.name = "non_max_suppression",
     .signature = "non_max_suppression(boxes, scores; max_per_class, iou_threshold=0, "
                  "score_threshold, center_point_box=false, max_count, index_dtype=i32) -> rows, "
                  "[count]",
     .inputs = {2, 2},
     .outputs = {1, 2},
     .attrs = kNonMaxAttrs,
     .infer = infer_non_max,
     .evaluate = evaluate_non_max,
     .decompose = decompose_non_max},
};

}  // namespace

std::span<const OpDef> suppress_boxes_ops() {
  return kSuppressBoxesOps;
}

std::span<const OpDef> suppression_ops() {
  return kSuppressionOps;
}

}  // namespace rlx
