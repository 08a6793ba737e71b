// SPDX-License-Identifier: Apache-2.0
// draw_topk: the draw of `sample` (ops.md 12.1) from the k largest of each row, in the steps of
// topk.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ops/generation/draw.h"
#include "compiler/ops/lowering/index_output.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/rows/sort_lower.h"

namespace rlx {
namespace {

bool infer_draw_topk(InferContext& ctx) {
  const TensorType& logits = ctx.input(0);
  if (!is_short_float(logits.dtype) && logits.dtype != DType::f32) {
    return ctx.fail(DiagCode::BadDtype, "logits are " + std::string(name_of(logits.dtype)) +
                                            ", wanted f32, f16 or bf16");
  }
  const int64_t k = ctx.attrs().integer("k");
  if (logits.shape.empty() || k > logits.shape.back().range().least) {
    return ctx.fail(DiagCode::BadShape, "logits are " + to_string(logits) + ", wanted at least " +
                                            std::to_string(k) + " in the last axis, at every size");
  }
  if (ctx.input(1) != TensorType{DType::i64, {}} || ctx.input(2) != TensorType{DType::u32, {}})
    return ctx.fail(DiagCode::BadDtype, "seed and step are no i64[] and u32[]");
  if (!check_index_dtype(ctx)) return false;
  const Shape rows(logits.shape.begin(), logits.shape.end() - 1);
  if (ctx.node().outputs.size() > 2 && element_count(rows).range().least < 1)
    return ctx.fail(DiagCode::BadShape, "next_step is wanted of what may have no rows");
  ctx.set_output(0, {ctx.attrs().dtype("index_dtype"), rows});
  ctx.set_output(1, {DType::f32, rows});
  ctx.set_output(2, {DType::u32, {}});
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

// The places of the k largest, greatest first and of equals the first; NaN counts as -inf.
std::vector<size_t> largest(std::vector<double> row, size_t k) {
  for (double& logit : row) logit = std::isnan(logit) ? kNoScore : logit;
  std::vector<size_t> places(row.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::stable_sort(places.begin(), places.end(),
                   [&](size_t a, size_t b) { return row[a] > row[b]; });
  places.resize(k);
  return places;
}

bool evaluate_draw_topk(EvaluateContext& ctx) {
  const Tensor& logits = ctx.input(0);
  const Draw draw{.seed = static_cast<uint64_t>(ctx.input(1).integers[0]),
                  .step = static_cast<uint32_t>(ctx.input(2).integers[0]),
                  .stream = static_cast<uint32_t>(ctx.attrs().integer("stream"))};
  const auto k = static_cast<size_t>(ctx.attrs().integer("k"));
  const auto length = static_cast<size_t>(static_cast<int64_t>(logits.type.shape.back()));
  for (size_t row = 0; row * length < logits.floats.size(); ++row) {
    const auto begin = logits.floats.begin() + static_cast<std::ptrdiff_t>(row * length);
    const std::vector<double> all(begin, begin + static_cast<std::ptrdiff_t>(length));
    const std::vector<size_t> places = largest(all, k);
    std::vector<double> ordered;
    for (const size_t place : places) ordered.push_back(all[place]);
    const std::vector<double> kept = kept_scores(ordered, ctx.attrs());
    std::vector<double> noisy = kept;
    double sum = 0;
    for (size_t i = 0; i < k; ++i) {
      noisy[i] += gumbel_noise(draw, static_cast<uint32_t>(row), places[i]);
      sum += kept[i] == kNoScore ? 0 : std::exp(kept[i] - kept[0]);
    }
    const auto best =
        static_cast<size_t>(std::max_element(noisy.begin(), noisy.end()) - noisy.begin());
    set_index(ctx.output(0), row, static_cast<int64_t>(places[best]));
    if (ctx.output_count() < 2) continue;
    // A row without an entry has no probabilities.
    ctx.output(1).floats[row] = sum > 0 ? kept[best] - kept[0] - std::log(sum) : NAN;
  }
  if (ctx.output_count() > 2) ctx.output(2).integers[0] = step_after(draw.step);
  return true;
}

bool lower_draw_topk(LowerContext& ctx) {
  RowDraw draw{.seed = ctx.input(1),
               .step = ctx.input(2),
               .id = ctx.output(0),
               .logprob = std::nullopt,
               .next_step = std::nullopt,
               .temperature = ctx.attrs().real("temperature"),
               .top_p = ctx.attrs().real("top_p"),
               .min_p = ctx.attrs().real("min_p"),
               .stream = ctx.attrs().integer("stream")};
  if (ctx.has_output(1)) {
    const TensorRef logprob = ctx.output(1);
    if (ctx.is_read(1)) draw.logprob = logprob;
  }
  if (ctx.has_output(2)) draw.next_step = ctx.output(2);
  return lower_draw(ctx, ctx.attrs().integer("k"), draw);
}

constexpr AttrSpec kDrawTopk[] = {
    {.name = "k",
     .type = AttrType::Int,
     .required = true,
     .minimum = 1,
     .maximum = double{kMostDrawnFrom}},
    {.name = "temperature", .type = AttrType::Float, .default_text = "1", .minimum = 0},
    {.name = "top_p", .type = AttrType::Float, .default_text = "1", .maximum = 1},
    {.name = "min_p", .type = AttrType::Float, .default_text = "0", .minimum = 0, .maximum = 1},
    kGivenStreamAttr,
    {.name = "index_dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"i32\"",
     .consumed_by_infer = true},
};

constexpr OpDef kDrawTopkOps[] = {
    {.name = "draw_topk",
     .signature = "draw_topk(logits, seed, step; k, temperature=1, top_p=1, min_p=0, stream, "
                  "index_dtype=i32) -> id, [logprob], [next_step]",
     .inputs = {3, 3},
     .outputs = {1, 3},
     .attrs = kDrawTopk,
     .infer = infer_draw_topk,
     .evaluate = evaluate_draw_topk,
     .lower = lower_draw_topk,
     .keeps_f32 = 1},
};

}  // namespace

std::span<const OpDef> draw_topk_ops() {
  return kDrawTopkOps;
}

}  // namespace rlx
