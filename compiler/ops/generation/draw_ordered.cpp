// SPDX-License-Identifier: Apache-2.0
// draw_ordered: the draw of `sample` (ops.md 12.1) from candidates in the order of its filters, in
// one step.
#include <algorithm>
#include <cmath>

#include "compiler/ops/generation/draw.h"
#include "compiler/ops/lowering/index_output.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"

namespace rlx {
namespace {

bool infer_draw_ordered(InferContext& ctx) {
  const TensorType& scores = ctx.input(0);
  if ((!is_short_float(scores.dtype) && scores.dtype != DType::f32) || scores.shape.size() != 2) {
    return ctx.fail(DiagCode::BadShape,
                    "scores are " + to_string(scores) + ", wanted f32, f16 or bf16 of rank 2");
  }
  const Dim& count = scores.shape[1];
  if (count.is_free() || count.bound() < 1 || count.bound() > kMostOrderedCandidates) {
    return ctx.fail(DiagCode::BadShape, "a row has " + to_string(count) +
                                            " candidates, wanted 1 to " +
                                            std::to_string(kMostOrderedCandidates));
  }
  if (ctx.input(1) != TensorType{DType::i32, scores.shape}) {
    return ctx.fail(DiagCode::BadShape,
                    "index is " + to_string(ctx.input(1)) + ", wanted i32 of the scores' shape");
  }
  if (ctx.input(2) != TensorType{DType::i64, {}} || ctx.input(3) != TensorType{DType::u32, {}})
    return ctx.fail(DiagCode::BadDtype, "seed and step are no i64[] and u32[]");
  if (!check_index_dtype(ctx)) return false;
  ctx.set_output(0, {ctx.attrs().dtype("index_dtype"), {scores.shape[0]}});
  ctx.set_output(1, {DType::f32, {scores.shape[0]}});
  return true;
}

// What filters leave of a row, kNoScore elsewhere.
std::vector<double> kept_scores(std::vector<double> row, const AttributeReader& attrs) {
  for (double& score : row)
    score = std::isnan(score) ? kNoScore : score / attrs.real("temperature");
  const double infinity = -kNoScore;
  if (row[0] == infinity) {
    for (double& score : row) score = score == infinity ? 0.0 : kNoScore;
  }
  const double top = row[0];
  double sum = 0;
  for (const double score : row) sum += score == kNoScore ? 0 : std::exp(score - top);
  double before = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double share = row[i] == kNoScore ? 0 : std::exp(row[i] - top) / sum;
    const bool is_likely = std::exp(row[i] - top) >= attrs.real("min_p");
    if ((i > 0 && before >= attrs.real("top_p")) || !is_likely) row[i] = kNoScore;
    before += share;
  }
  return row;
}

bool evaluate_draw_ordered(EvaluateContext& ctx) {
  const Tensor& scores = ctx.input(0);
  const Draw draw{.seed = static_cast<uint64_t>(ctx.input(2).integers[0]),
                  .step = static_cast<uint32_t>(ctx.input(3).integers[0]),
                  .stream = static_cast<uint32_t>(ctx.attrs().integer("stream"))};
  const auto count = static_cast<size_t>(static_cast<int64_t>(scores.type.shape[1]));
  for (size_t row = 0; row * count < scores.floats.size(); ++row) {
    const auto begin = scores.floats.begin() + static_cast<std::ptrdiff_t>(row * count);
    const std::vector<double> kept =
        kept_scores({begin, begin + static_cast<std::ptrdiff_t>(count)}, ctx.attrs());
    std::vector<double> noisy = kept;
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const int64_t number = ctx.input(1).integers[row * count + i];
      noisy[i] += gumbel_noise(draw, static_cast<uint32_t>(row), static_cast<uint64_t>(number));
      sum += kept[i] == kNoScore ? 0 : std::exp(kept[i] - kept[0]);
    }
    const auto best =
        static_cast<size_t>(std::max_element(noisy.begin(), noisy.end()) - noisy.begin());
    set_index(ctx.output(0), row, ctx.input(1).integers[row * count + best]);
    if (ctx.output_count() < 2) continue;
    // A row without an entry has no probabilities.
    ctx.output(1).floats[row] = sum > 0 ? kept[best] - kept[0] - std::log(sum) : NAN;
  }
  return true;
}

bool lower_draw_ordered(LowerContext& ctx) {
  const TensorRef scores = ctx.input(0);
  const Dim rows = scores.shape()[0];
  if (rows.bound() == 0) return true;
  const Dim count = scores.shape()[1];
  const RowPlan plan = plan_neighbours(count, 1);
  const double temperature = ctx.attrs().real("temperature");
  const double top_p = ctx.attrs().real("top_p");
  const double min_p = ctx.attrs().real("min_p");
  const TensorRef id = ctx.output(0);
  const bool has_logprob = ctx.node().outputs.size() > 1;
  auto dispatch = ctx.dispatch<KernelId::draw>();
  dispatch.workgroup({plan.threads(), 1, 1})
      .define("RLX_LANES", plan.lanes)
      .define("RLX_ROWS", plan.rows)
      .define("RLX_BY_COLUMN", 0)
      .define("RLX_ROW_COUNT", integer_text(rows))
      .define("RLX_COUNT", count.bound())
      .define("RLX_STREAM", integer_literal(DType::u32, ctx.attrs().integer("stream")))
      .define("RLX_X", std::string(name_of(scores.dtype())))
      .define("RLX_I", std::string(name_of(id.dtype())))
      .define("RLX_HAS_TEMPERATURE", temperature != 1 ? 1 : 0)
      .define("RLX_HAS_TOP_P", top_p < 1 ? 1 : 0)
      .define("RLX_HAS_MIN_P", min_p > 0 ? 1 : 0)
      .define("RLX_HAS_LOGPROB", has_logprob ? 1 : 0)
      .generated(
          "draw.inc",
          define_line("RLX_TEMPERATURE", literal(DType::f32, temperature)) +
              define_line("RLX_TOP_P", literal(DType::f32, top_p)) +
              define_line("RLX_MIN_P", literal(DType::f32, min_p > 0 ? std::log(min_p) : 0.0)))
      .read(&DrawParams::scores, scores)
      .read(&DrawParams::index, ctx.input(1))
      .read(&DrawParams::seed, ctx.input(2))
      .read(&DrawParams::step, ctx.input(3))
      .write(&DrawParams::id, id)
      .grid(split_grid(plan.groups(rows)))
      .work(byte_size(scores.type) * 2, element_count(scores.shape()) * 8)
      .reason("a draw from " + to_string(count) + ", " + to_string(plan));
  if (has_logprob) dispatch.write(&DrawParams::logprob, ctx.output(1));
  return true;
}

constexpr AttrSpec kDrawOrdered[] = {
    {.name = "temperature", .type = AttrType::Float, .default_text = "1", .minimum = 0},
    {.name = "top_p", .type = AttrType::Float, .default_text = "1", .maximum = 1},
    {.name = "min_p", .type = AttrType::Float, .default_text = "0", .minimum = 0, .maximum = 1},
    kGivenStreamAttr,
    {.name = "index_dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"i32\"",
     .consumed_by_infer = true},
};

constexpr OpDef kDrawOrderedOps[] = {
    {.name = "draw_ordered",
     .signature = "draw_ordered(scores, index, seed, step; temperature=1, top_p=1, min_p=0, "
                  "stream, index_dtype=i32) -> id, [logprob]",
     .inputs = {4, 4},
     .outputs = {1, 2},
     .attrs = kDrawOrdered,
     .infer = infer_draw_ordered,
     .evaluate = evaluate_draw_ordered,
     .lower = lower_draw_ordered,
     .keeps_f32 = 1},
};

}  // namespace

std::span<const OpDef> draw_ordered_ops() {
  return kDrawOrderedOps;
}

}  // namespace rlx
