// SPDX-License-Identifier: Apache-2.0
// sample (ops.md 12.1), which becomes draw_topk where filters leave little, and else a sort of what
// they leave; and add_gumbel: scores with the noise whose maximum is a draw.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/ops/generation/draw.h"
#include "compiler/ops/lowering/index_output.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/rows/sort_lower.h"

namespace rlx {
namespace {

constexpr size_t kSeedOfSample = 1;  // logits, [seed], [step]
constexpr uint32_t kSampleOptional[] = {1, 2};
constexpr uint32_t kGumbelOptional[] = {1};
// ---- add_gumbel(scores, [index], seed, step): [rows, count] to f32 ----

bool infer_gumbel(InferContext& ctx) {
  const TensorType& scores = ctx.input(0);
  if ((!is_short_float(scores.dtype) && scores.dtype != DType::f32) || scores.shape.size() != 2) {
    return ctx.fail(DiagCode::BadShape,
                    "scores are " + to_string(scores) + ", wanted f32, f16 or bf16 of rank 2");
  }
  if (ctx.has_input(1) && ctx.input(1) != TensorType{DType::i32, scores.shape}) {
    return ctx.fail(DiagCode::BadShape,
                    "index is " + to_string(ctx.input(1)) + ", wanted i32 of the scores' shape");
  }
  if (ctx.input(2) != TensorType{DType::i64, {}} || ctx.input(3) != TensorType{DType::u32, {}})
    return ctx.fail(DiagCode::BadDtype, "seed and step are no i64[] and u32[]");
  ctx.set_output(0, {DType::f32, scores.shape});
  return true;
}

bool evaluate_gumbel(EvaluateContext& ctx) {
  const Draw draw{.seed = static_cast<uint64_t>(ctx.input(2).integers[0]),
                  .step = static_cast<uint32_t>(ctx.input(3).integers[0]),
                  .stream = static_cast<uint32_t>(ctx.attrs().integer("stream"))};
  const Tensor& scores = ctx.input(0);
  const int64_t count = scores.type.shape[1];
  for (size_t i = 0; i < scores.floats.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const int64_t index = ctx.has_input(1) ? ctx.input(1).integers[i] : place % count;
    ctx.output(0).floats[i] =
        scores.floats[i] +
        gumbel_noise(draw, static_cast<uint32_t>(place / count), static_cast<uint64_t>(index));
  }
  return true;
}

std::string scalar_gumbel(const ScalarContext& ctx) {
  const std::string index =
      ctx.operand(1).empty() ? coordinate_name(1) : "rlx_widen(" + ctx.operand(1) + ")";
  return ctx.operand(0) + " + rlx_gumbel(" + ctx.operand(2) + ", " + ctx.operand(3) + ", " +
         integer_literal(DType::u32, ctx.attrs().integer("stream")) + ", " + coordinate_name(2) +
         ", " + index + ")";
}

// ---- sample(logits, [seed], [step]) ----

struct Filters {
  double temperature = 1;
  int64_t top_k = 0;  // 0: all
  double top_p = 1;
  double min_p = 0;

  [[nodiscard]] bool orders() const { return top_k > 0 || top_p < 1; }
};

Filters filters_of(const AttributeReader& attrs) {
  Filters filters{.temperature = attrs.real("temperature"),
                  .top_k = attrs.integer("top_k"),
                  .top_p = attrs.real("top_p"),
                  .min_p = attrs.real("min_p")};
  if (filters.top_p <= 0) filters.top_k = 1;  // no prefix is shorter than one entry
  return filters;
}

bool infer_sample(InferContext& ctx) {
  const TensorType& logits = ctx.input(0);
  if (!is_short_float(logits.dtype) && logits.dtype != DType::f32) {
    return ctx.fail(DiagCode::BadDtype, "logits are " + std::string(name_of(logits.dtype)) +
                                            ", wanted f32, f16 or bf16");
  }
  if (logits.shape.empty() || logits.shape.back().range().least < 1) {
    return ctx.fail(DiagCode::BadShape, "logits are " + to_string(logits) +
                                            ", wanted at least one entry in the last axis");
  }
  const int64_t top_k = ctx.attrs().integer("top_k");
  const Dim& entries = logits.shape.back();
  if (entries.is_free() && top_k > entries.range().least) {
    return ctx.fail(DiagCode::FreeSize, "top_k is " + std::to_string(top_k) +
                                            ", and a row may have fewer entries at some size");
  }
  if (!check_draw(ctx, kSeedOfSample) || !check_index_dtype(ctx)) return false;
  const Shape rows(logits.shape.begin(), logits.shape.end() - 1);
  ctx.set_output(0, {ctx.attrs().dtype("index_dtype"), rows});
  ctx.set_output(1, {DType::f32, rows});
  ctx.set_output(2, {DType::u32, {}});
  return true;
}

// One row: scores of the entries that may be drawn, kNoScore for the others.
std::vector<double> scores_of(std::vector<double> row) {
  const double infinity = -kNoScore;
  for (double& logit : row) logit = std::isnan(logit) ? kNoScore : logit;
  if (std::find(row.begin(), row.end(), infinity) == row.end()) return row;
  for (double& logit : row) logit = logit == infinity ? 0.0 : kNoScore;
  return row;
}

// The share of each score in the sum of exponentials.
std::vector<double> shares_of(const std::vector<double>& scores) {
  const double top = *std::max_element(scores.begin(), scores.end());
  std::vector<double> shares;
  double sum = 0;
  for (const double score : scores) {
    shares.push_back(score == kNoScore ? 0 : std::exp(score - top));
    sum += shares.back();
  }
  for (double& share : shares) share /= sum;
  return shares;
}

void filter(const Filters& filters, std::vector<double>& scores) {
  if (filters.orders()) {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    const size_t kept = filters.top_k > 0
                            ? std::min(static_cast<size_t>(filters.top_k), order.size())
                            : order.size();
    for (size_t i = kept; i < order.size(); ++i) scores[order[i]] = kNoScore;
    const std::vector<double> shares = shares_of(scores);
    double before = 0;
    for (const size_t place : order) {
      if (filters.top_p < 1 && before > 0 && before >= filters.top_p) scores[place] = kNoScore;
      before += shares[place];
    }
  }
  const std::vector<double> shares = shares_of(scores);
  const double least = filters.min_p * *std::max_element(shares.begin(), shares.end());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (shares[i] < least) scores[i] = kNoScore;
  }
}

bool evaluate_sample(EvaluateContext& ctx) {
  const Tensor& logits = ctx.input(0);
  const Draw draw = draw_of(ctx, kSeedOfSample);
  const Filters filters = filters_of(ctx.attrs());
  const auto entries = static_cast<size_t>(static_cast<int64_t>(logits.type.shape.back()));
  for (size_t row = 0; row * entries < logits.floats.size(); ++row) {
    const auto begin = logits.floats.begin() + static_cast<std::ptrdiff_t>(row * entries);
    std::vector<double> scores = scores_of({begin, begin + static_cast<std::ptrdiff_t>(entries)});
    const bool greedy = filters.temperature == 0;
    const bool has_any = *std::max_element(scores.begin(), scores.end()) != kNoScore;
    std::vector<double> noisy = scores;
    if (!greedy && has_any) {
      for (double& score : scores) score /= filters.temperature;
      filter(filters, scores);
      for (size_t i = 0; i < entries; ++i)
        noisy[i] = scores[i] + gumbel_noise(draw, static_cast<uint32_t>(row), i);
    }
    const auto best =
        static_cast<size_t>(std::max_element(noisy.begin(), noisy.end()) - noisy.begin());
    set_index(ctx.output(0), row, static_cast<int64_t>(best));
    if (ctx.output_count() < 2) continue;
    // A row without an entry has no probabilities.
    ctx.output(1).floats[row] = greedy ? 0 : has_any ? std::log(shares_of(scores)[best]) : NAN;
  }
  if (ctx.output_count() > 2) ctx.output(2).integers[0] = step_after(draw.step);
  return true;
}

ValueId score_constant(RewriteContext& ctx, std::string_view stem, double value) {
  Tensor tensor = Tensor::zeros({DType::f32, {}});
  tensor.floats[0] = value;
  return ctx.constant(stem, tensor);
}

const Attributes& last_axis() {
  static const Attributes attributes{{"axis", int64_t{-1}}};
  return attributes;
}

// f32 [rows, entries] without NaN.
ValueId clean_logits(RewriteContext& ctx, ValueId x) {
  if (ctx.type(x).dtype != DType::f32) x = ctx.emit("cast", {x}, {{"to", std::string("f32")}});
  return ctx.emit("where", {ctx.emit("is_nan", {x}), score_constant(ctx, "none", kNoScore), x});
}

// Scores of what may be drawn, the greatest of each row [rows, 1], and where they stand in the row
// if not in order.
struct Candidates {
  ValueId scores{};
  ValueId top{};
  std::optional<ValueId> index = std::nullopt;
};

// The first of each row.
ValueId first_scores(RewriteContext& ctx, ValueId scores) {
  return ctx.emit("narrow", {scores},
                  {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"len", int64_t{1}}});
}

// How many entries of a row the filters order and keep.
Dim ordered_count(const Filters& filters, const Dim& entries) {
  const bool takes_all =
      filters.top_k == 0 || (!entries.is_free() && filters.top_k >= entries.range().most);
  return takes_all ? entries : Dim(filters.top_k);
}

// They and their places, in the order of the draw's filters: the greatest is the first, and NaN
// counts as -inf.
std::vector<ValueId> in_order(RewriteContext& ctx, ValueId logits, const Filters& filters,
                              const Dim& entries) {
  if (ordered_count(filters, entries) == entries)
    return ctx.emit_all("sort", {logits}, {{"descending", true}, {"nan_least", true}}, 2);
  return ctx.emit_all("topk", {logits}, {{"k", filters.top_k}, {"nan_least", true}}, 2);
}

Candidates ordered(RewriteContext& ctx, ValueId scores, const Filters& filters,
                   const Dim& entries) {
  const std::vector<ValueId> found = in_order(ctx, scores, filters, entries);
  return {.scores = found[0], .top = first_scores(ctx, found[0]), .index = found[1]};
}

Candidates unordered(RewriteContext& ctx, ValueId scores) {
  return {.scores = scores,
          .top = ctx.emit("reduce_max", {scores}, {{"axes", Ints{1}}, {"keep_dims", true}})};
}

// 0 in place of the infinite ones where a row has any, which alone remain.
void level_infinite(RewriteContext& ctx, Candidates& candidates) {
  const ValueId none = score_constant(ctx, "none", kNoScore);
  const ValueId most = score_constant(ctx, "most", -kNoScore);
  const ValueId zero = score_constant(ctx, "zero", 0);
  const ValueId is_infinite = ctx.emit("eq", {candidates.top, most});
  const ValueId alone = ctx.emit("where", {ctx.emit("eq", {candidates.scores, most}), zero, none});
  candidates.scores = ctx.emit("where", {is_infinite, alone, candidates.scores});
  candidates.top = candidates.index ? first_scores(ctx, candidates.scores)
                                    : ctx.emit("where", {is_infinite, zero, candidates.top});
}

// The entries before which the sum of probabilities is below top_p.
ValueId keep_prefix(RewriteContext& ctx, ValueId scores, double top_p) {
  const ValueId shares = ctx.emit("softmax", {scores}, last_axis());
  const ValueId before = ctx.emit("cumsum", {shares}, {{"axis", int64_t{1}}, {"exclusive", true}});
  const ValueId keeps = ctx.emit("lt", {before, score_constant(ctx, "top_p", top_p)});
  return ctx.emit("where", {keeps, scores, score_constant(ctx, "none", kNoScore)});
}

// Those at least min_p times as likely as the greatest, which earlier filters keep.
ValueId keep_likely(RewriteContext& ctx, ValueId scores, ValueId top, double min_p) {
  const ValueId least = score_constant(ctx, "min_p", std::log(min_p));
  const ValueId keeps = ctx.emit("ge", {ctx.emit("sub", {scores, top}), least});
  return ctx.emit("where", {keeps, scores, score_constant(ctx, "none", kNoScore)});
}

// The draw from a few entries in the order of the filters.
void draw_from_few(RewriteContext& ctx, const Filters& filters, int64_t count, const Dim& rows) {
  const size_t outputs = ctx.node().outputs.size();
  // Without a row there may be no step that writes next_step.
  const size_t drawn_outputs = rows.range().least > 0 ? outputs : std::min<size_t>(outputs, 2);
  const std::vector<ValueId> drawn = ctx.emit_all(
      "draw_topk", {ctx.input(0), seed_of(ctx, kSeedOfSample), step_of(ctx, kSeedOfSample)},
      {{"k", count},
       {"temperature", filters.temperature},
       {"top_p", filters.top_k == 1 ? 1.0 : filters.top_p},
       {"min_p", filters.min_p},
       {"stream", stream_of(ctx)},
       {"index_dtype", ctx.attrs().text("index_dtype")}},
      drawn_outputs);
  for (size_t i = 0; i < drawn_outputs; ++i) ctx.replace_output(i, drawn[i]);
  if (drawn_outputs < outputs) ctx.replace_output(2, step_after(ctx, kSeedOfSample));
}

bool decompose_sample(RewriteContext& ctx) {
  const Filters filters = filters_of(ctx.attrs());
  const Shape& shape = ctx.type(ctx.input(0)).shape;
  const Shape kept(shape.begin(), shape.end() - 1);
  const Dim entries = shape.back();
  const bool greedy = filters.temperature == 0;
  const std::string index_dtype = ctx.attrs().text("index_dtype");
  const size_t outputs = ctx.node().outputs.size();
  const Dim rows = element_count(kept);
  const Dim count = ordered_count(filters, entries);
  if (!greedy && filters.orders() && !count.is_free() && count.bound() <= kMostDrawnFrom) {
    draw_from_few(ctx, filters, count, rows);
    return true;
  }
  const ValueId logits = ctx.emit("reshape", {ctx.input(0)}, {{"shape", Ints{rows, entries}}});
  ValueId scores = clean_logits(ctx, logits);
  if (!greedy && filters.temperature != 1)
    scores = ctx.emit("div", {scores, score_constant(ctx, "temperature", filters.temperature)});
  Candidates candidates{.scores = scores};
  ValueId noisy = scores;
  if (!greedy) {
    candidates = filters.orders() ? ordered(ctx, scores, filters, entries) : unordered(ctx, scores);
    level_infinite(ctx, candidates);
    if (filters.top_p < 1 && filters.top_k != 1)
      candidates.scores = keep_prefix(ctx, candidates.scores, filters.top_p);
    if (filters.min_p > 0)
      candidates.scores = keep_likely(ctx, candidates.scores, candidates.top, filters.min_p);
    noisy = ctx.emit("add_gumbel",
                     {candidates.scores, candidates.index, seed_of(ctx, kSeedOfSample),
                      step_of(ctx, kSeedOfSample)},
                     {{"stream", stream_of(ctx)}});
  }
  const ValueId best = ctx.emit("argmax", {noisy}, {{"axis", int64_t{1}}, {"keep_dims", true}});
  ValueId ids = best;
  if (candidates.index)
    ids = ctx.emit("gather_elements", {*candidates.index, best}, {{"axis", int64_t{1}}});
  if (index_dtype != "i32") ids = ctx.emit("cast", {ids}, {{"to", index_dtype}});
  ctx.replace_output(0, ctx.emit("reshape", {ids}, {{"shape", kept}}));
  if (outputs > 2) ctx.replace_output(2, step_after(ctx, kSeedOfSample));
  if (outputs < 2) return true;
  if (greedy) {
    ctx.replace_output(1, ctx.emit("fill", {}, {{"shape", kept}, {"value", 0.0}}));
    return true;
  }
  const ValueId logs = ctx.emit("log_softmax", {candidates.scores}, last_axis());
  const ValueId drawn = ctx.emit("gather_elements", {logs, best}, {{"axis", int64_t{1}}});
  ctx.replace_output(1, ctx.emit("reshape", {drawn}, {{"shape", kept}}));
  return true;
}

constexpr AttrSpec kSample[] = {
    {.name = "temperature", .type = AttrType::Float, .default_text = "1", .minimum = 0},
    {.name = "top_k", .type = AttrType::Int, .default_text = "0", .minimum = 0},
    {.name = "top_p", .type = AttrType::Float, .default_text = "1", .maximum = 1},
    {.name = "min_p", .type = AttrType::Float, .default_text = "0", .minimum = 0, .maximum = 1},
    kSeedAttr,
    kStreamAttr,
    {.name = "index_dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"i32\"",
     .consumed_by_infer = true},
};
constexpr AttrSpec kGumbel[] = {kGivenStreamAttr};

constexpr OpDef kSampleOps[] = {
    {.name = "sample",
     .signature = "sample(logits, [seed], [step]; temperature=1, top_k=0, top_p=1, min_p=0, seed, "
                  "stream, index_dtype=i32) -> ids, [logprob], [next_step]",
     .inputs = {1, 3},
     .outputs = {1, 3},
     .attrs = kSample,
     .infer = infer_sample,
     .evaluate = evaluate_sample,
     .decompose = decompose_sample,
     .optional_inputs = kSampleOptional,
     .seed_input = kSeedOfSample,
     .next_step_output = 2},
    {.name = "add_gumbel",
     .signature = "add_gumbel(scores, [index], seed, step; stream) -> y",
     .inputs = {4, 4},
     .attrs = kGumbel,
     .infer = infer_gumbel,
     .evaluate = evaluate_gumbel,
     .lower = lower_elementwise,
     .scalar = scalar_gumbel,
     .optional_inputs = kGumbelOptional,
     .keeps_f32 = 1},
};

}  // namespace

std::span<const OpDef> sample_ops() {
  return kSampleOps;
}

}  // namespace rlx
