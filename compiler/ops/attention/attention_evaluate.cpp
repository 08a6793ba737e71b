// SPDX-License-Identifier: Apache-2.0
// Reference evaluation of attention in f64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/attention/attention_problem.h"
#include "compiler/support/blocks.h"

namespace rlx {

namespace {

struct Operand {
  const Tensor* tensor = nullptr;
  HeadsView view;

  [[nodiscard]] size_t place(int64_t b, int64_t h, int64_t s, int64_t d) const {
    return static_cast<size_t>(view.offset + b * view.batch + h * view.head + s * view.token +
                               d * view.dim);
  }
  [[nodiscard]] double real(int64_t b, int64_t h, int64_t s, int64_t d) const {
    const size_t at = place(b, h, s, d);
    if (tensor->is_float()) return tensor->floats[at];
    return double_from_float8(tensor->type.dtype, static_cast<uint8_t>(tensor->integers[at]));
  }
  [[nodiscard]] bool attends(int64_t b, int64_t h, int64_t s, int64_t d) const {
    if (tensor->is_float()) return real(b, h, s, d) >= 0.5;
    return tensor->integers[place(b, h, s, d)] > 0;
  }
};

struct Operands {
  AttentionProblem problem;
  Operand q;
  Operand k;
  Operand v;
  Operand mask;
  Operand bias;
  std::vector<int64_t> kv_len;  // by batch
  std::vector<int64_t> q_start;
  const Tensor* sinks = nullptr;  // by query head
};

std::vector<int64_t> per_batch(const Tensor& given, int64_t batch) {
  if (!given.type.shape.empty()) return given.integers;
  return std::vector<int64_t>(static_cast<size_t>(batch), given.integers.at(0));
}

Operands gather_operands(const EvaluateContext& ctx, const AttentionProblem& problem) {
  const auto operand = [&](uint32_t which) {
    const Tensor& tensor = ctx.input(problem.packed == "none" ? which : 0);
    return Operand{.tensor = &tensor,
                   .view = attention_view(problem, which, dense_strides(tensor.type.shape))};
  };
  const auto masking = [&](uint32_t input) {
    if (!ctx.has_input(input)) return Operand{};
    const Tensor& tensor = ctx.input(input);
    return Operand{
        .tensor = &tensor,
        .view = attention_mask_view(problem, tensor.type.shape, dense_strides(tensor.type.shape))};
  };
  Operands operands{
      .problem = problem,
      .q = operand(0),
      .k = operand(1),
      .v = operand(2),
      .mask = masking(kAttentionMask),
      .bias = masking(kAttentionBias),
      .kv_len = std::vector<int64_t>(static_cast<size_t>(problem.batch), problem.kv_tokens),
      .q_start = {},
      .sinks = ctx.has_input(kAttentionSinks) ? &ctx.input(kAttentionSinks) : nullptr};
  if (ctx.has_input(kAttentionKvLen)) {
    operands.kv_len = per_batch(ctx.input(kAttentionKvLen), problem.batch);
    for (int64_t& count : operands.kv_len) count = std::clamp<int64_t>(count, 0, problem.kv_tokens);
  }
  for (const int64_t count : operands.kv_len) {
    operands.q_start.push_back(problem.align_end ? count - problem.q_tokens : 0);
  }
  if (ctx.has_input(kAttentionQStart)) {
    operands.q_start = per_batch(ctx.input(kAttentionQStart), problem.batch);
  }
  return operands;
}

bool allowed(const Operands& o, int64_t b, int64_t h, int64_t i, int64_t j) {
  const AttentionProblem& problem = o.problem;
  const int64_t position = o.q_start[static_cast<size_t>(b)] + i;
  if (j >= o.kv_len[static_cast<size_t>(b)]) return false;
  if (problem.causal && j > position) return false;
  if (problem.window_left >= 0 && j < position - problem.window_left) return false;
  if (problem.window_right >= 0 && j > position + problem.window_right) return false;
  if (o.mask.tensor != nullptr && !o.mask.attends(b, h, i, j)) return false;
  return o.bias.tensor == nullptr ||
         o.bias.real(b, h, i, j) != -std::numeric_limits<double>::infinity();
}

double score(const Operands& o, int64_t b, int64_t h, int64_t i, int64_t j) {
  const AttentionProblem& problem = o.problem;
  const int64_t kv_head = h / (problem.heads / problem.kv_heads);
  double dot = 0;
  for (int64_t d = 0; d < problem.head_dim; ++d) {
    dot += o.q.real(b, h, i, d) * o.k.real(b, kv_head, j, d);
  }
  double s = problem.scale * dot;
  if (problem.softcap > 0) s = problem.softcap * std::tanh(s / problem.softcap);
  return o.bias.tensor == nullptr ? s : s + o.bias.real(b, h, i, j);
}

// One query: fills its row of y and returns its lse.
double evaluate_query(const Operands& o, int64_t b, int64_t h, int64_t i, Tensor& y,
                      const HeadsView& out) {
  const AttentionProblem& problem = o.problem;
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  const int64_t kv_head = h / (problem.heads / problem.kv_heads);
  std::vector<double> scores(static_cast<size_t>(problem.kv_tokens), minus_infinity);
  std::vector<bool> is_allowed(scores.size(), false);
  double top = minus_infinity;
  bool has_nan = false;
  for (int64_t j = 0; j < problem.kv_tokens; ++j) {
    const auto at = static_cast<size_t>(j);
    if (!allowed(o, b, h, i, j)) continue;
    is_allowed[at] = true;
    scores[at] = score(o, b, h, i, j);
    has_nan = has_nan || std::isnan(scores[at]);
    top = std::max(top, scores[at]);
  }
  if (o.sinks != nullptr) {
    const double sink = o.sinks->floats[static_cast<size_t>(h)];
    has_nan = has_nan || std::isnan(sink);
    top = std::max(top, sink);
  }
  if (top == minus_infinity && !has_nan) return minus_infinity;  // y stays 0
  double sum = 0;
  if (o.sinks != nullptr) sum = std::exp(o.sinks->floats[static_cast<size_t>(h)] - top);
  for (size_t j = 0; j < scores.size(); ++j) {
    if (is_allowed[j]) sum += std::exp(scores[j] - top);
  }
  if (has_nan) sum = std::numeric_limits<double>::quiet_NaN();
  const Operand result{.tensor = &y, .view = out};
  for (int64_t d = 0; d < problem.v_head_dim; ++d) {
    double total = 0;
    for (size_t j = 0; j < scores.size(); ++j) {
      if (is_allowed[j]) {
        total += std::exp(scores[j] - top) * o.v.real(b, kv_head, static_cast<int64_t>(j), d);
      }
    }
    y.floats[result.place(b, h, i, d)] = total / sum;
  }
  return top + std::log(sum);
}

}  // namespace

bool evaluate_attention(EvaluateContext& ctx) {
  std::vector<std::optional<TensorType>> types;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    types.push_back(ctx.has_input(i) ? std::optional(ctx.input(i).type) : std::nullopt);
  }
  const std::optional<AttentionProblem> problem = attention_problem(ctx, types);
  if (!problem) return false;
  const Operands operands = gather_operands(ctx, *problem);
  const HeadsView out = attention_output_view(*problem);
  size_t row = 0;
  for (int64_t b = 0; b < problem->batch; ++b) {
    for (int64_t h = 0; h < problem->heads; ++h) {
      for (int64_t i = 0; i < problem->q_tokens; ++i) {
        const double lse = evaluate_query(operands, b, h, i, ctx.output(0), out);
        if (ctx.output_count() > 1) ctx.output(1).floats[row] = lse;
        ++row;
      }
    }
  }
  return true;
}

}  // namespace rlx
