// SPDX-License-Identifier: Apache-2.0
// attention_backward (ops.md 16.4): gradients of q, k, v and bias, from probabilities that are
// computed again. Query heads that share a kv head are rows of one product.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/attention/attention_problem.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/op_def.h"

namespace rlx {

std::span<const OpDef> attention_ops();

namespace {

enum Input : uint32_t { kQ, kK, kV, kDy, kMask, kBias, kKvLen, kQStart, kInputs };

std::optional<AttentionProblem> problem_of(NodeContext& ctx,
                                           std::vector<std::optional<TensorType>> types) {
  types.resize(kInputs);
  types.erase(types.begin() + kDy);  // the forward's inputs
  if (ctx.attrs().text("packed") != "none") {
    ctx.fail(DiagCode::BadAttribute,
             "packed \"" + ctx.attrs().text("packed") + "\" is not taken, wanted q, k and v apart",
             "cut them by slice");
    return std::nullopt;
  }
  return attention_problem(ctx, types);
}

bool infer_attention_backward(InferContext& ctx) {
  std::vector<std::optional<TensorType>> types;
  for (size_t i = 0; i < ctx.input_count(); ++i)
    types.push_back(ctx.has_input(i) ? std::optional(ctx.input(i)) : std::nullopt);
  for (const Input input : {kQ, kK, kV, kDy}) {
    const bool wide = ctx.dtype(kQ) == DType::f64;
    if (wide ? ctx.dtype(input) == DType::f64 : is_short_float(ctx.dtype(input))) continue;
    return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(input) + " is " +
                                            std::string(name_of(ctx.dtype(input))) +
                                            ", wanted f32, f16 or bf16, or f64 for all");
  }
  const std::optional<AttentionProblem> problem = problem_of(ctx, types);
  if (!problem) return false;
  const Shape wanted = attention_output_shape(*problem);
  if (ctx.shape(kDy) != wanted) {
    return ctx.fail(DiagCode::BadShape, "dy is " + to_string(ctx.input(kDy)) +
                                            ", wanted the forward's shape, " + to_string(wanted));
  }
  const size_t outputs = ctx.node().outputs.size();
  if (outputs > 3 && !ctx.has_input(kBias))
    return ctx.fail(DiagCode::BadArity, "the fourth output is bias's, which is no input");
  ctx.set_output(0, ctx.input(kQ));
  if (outputs > 1) ctx.set_output(1, ctx.input(kK));
  if (outputs > 2) ctx.set_output(2, ctx.input(kV));
  if (outputs > 3) ctx.set_output(3, ctx.input(kBias));
  return true;
}

// ---- evaluate ----

int64_t place(const HeadsView& view, int64_t b, int64_t h, int64_t s, int64_t d) {
  return view.offset + b * view.batch + h * view.head + s * view.token + d * view.dim;
}

int64_t of_batch(const Tensor& tensor, int64_t b) {
  return tensor.integers.at(tensor.type.shape.empty() ? 0 : static_cast<size_t>(b));
}

class Evaluation {
 public:
  Evaluation(EvaluateContext& ctx, const AttentionProblem& problem) : ctx_(ctx), p_(problem) {
    const auto view = [&](uint32_t which) {
      return attention_view(p_, which, dense_strides(ctx.input(which).type.shape));
    };
    q_ = view(0);
    k_ = view(1);
    v_ = view(2);
    dy_ = attention_output_view(p_);
    for (const Input input : {kMask, kBias}) {
      if (!ctx.has_input(input)) continue;
      const Shape& shape = ctx.input(input).type.shape;
      (input == kMask ? mask_ : bias_) = attention_mask_view(p_, shape, dense_strides(shape));
    }
  }

  void query(int64_t b, int64_t h, int64_t i) {
    const int64_t group = h / (p_.heads / p_.kv_heads);
    const int64_t keys = p_.kv_tokens;
    std::vector<double> capped(static_cast<size_t>(keys));
    std::vector<double> weight(static_cast<size_t>(keys), 0.0);
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < keys; ++j) {
      if (!allowed(b, h, i, j)) continue;
      double s = 0;
      for (int64_t d = 0; d < p_.head_dim; ++d)
        s += at(kQ, q_, b, h, i, d) * at(kK, k_, b, group, j, d);
      s *= p_.scale;
      if (p_.softcap > 0) s = p_.softcap * std::tanh(s / p_.softcap);
      capped[static_cast<size_t>(j)] = s;
      weight[static_cast<size_t>(j)] =
          s + (ctx_.has_input(kBias) ? at(kBias, bias_, b, h, i, j) : 0);
      top = std::max(top, weight[static_cast<size_t>(j)]);
    }
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double& w = weight[static_cast<size_t>(j)];
      w = allowed(b, h, i, j) ? std::exp(w - top) : 0;
      sum += w;
    }
    if (sum == 0) return;
    std::vector<double> dp(static_cast<size_t>(keys), 0.0);
    double mean = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double& w = weight[static_cast<size_t>(j)];
      w /= sum;
      if (w == 0) continue;
      for (int64_t d = 0; d < p_.v_head_dim; ++d) {
        const double dy = at(kDy, dy_, b, h, i, d);
        dp[static_cast<size_t>(j)] += dy * at(kV, v_, b, group, j, d);
        add(2, place(v_, b, group, j, d), w * dy);
      }
      mean += w * dp[static_cast<size_t>(j)];
    }
    for (int64_t j = 0; j < keys; ++j) {
      const auto key = static_cast<size_t>(j);
      if (weight[key] == 0) continue;
      const double dz = weight[key] * (dp[key] - mean);
      if (ctx_.has_input(kBias)) add(3, place(bias_, b, h, i, j), dz);
      const double cap = p_.softcap > 0 ? capped[key] / p_.softcap : 0;
      const double ds = p_.scale * dz * (1 - cap * cap);
      for (int64_t d = 0; d < p_.head_dim; ++d) {
        add(0, place(q_, b, h, i, d), ds * at(kK, k_, b, group, j, d));
        add(1, place(k_, b, group, j, d), ds * at(kQ, q_, b, h, i, d));
      }
    }
  }

 private:
  double at(Input input, const HeadsView& view, int64_t b, int64_t h, int64_t s, int64_t d) const {
    return ctx_.input(input).floats[static_cast<size_t>(place(view, b, h, s, d))];
  }
  void add(size_t output, int64_t place, double term) {
    if (output < ctx_.output_count())
      ctx_.output(output).floats[static_cast<size_t>(place)] += term;
  }
  bool allowed(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t count = p_.kv_tokens;
    if (ctx_.has_input(kKvLen))
      count = std::clamp<int64_t>(of_batch(ctx_.input(kKvLen), b), 0, count);
    int64_t position = i + (p_.align_end ? count - static_cast<int64_t>(p_.q_tokens) : 0);
    if (ctx_.has_input(kQStart)) position = i + of_batch(ctx_.input(kQStart), b);
    if (j >= count || (p_.causal && j > position)) return false;
    if (p_.window_left >= 0 && j < position - p_.window_left) return false;
    if (p_.window_right >= 0 && j > position + p_.window_right) return false;
    if (ctx_.has_input(kMask)) {
      const Tensor& mask = ctx_.input(kMask);
      const auto at_mask = static_cast<size_t>(place(mask_, b, h, i, j));
      if (mask.is_float() ? mask.floats[at_mask] < 0.5 : mask.integers[at_mask] <= 0) return false;
    }
    return !ctx_.has_input(kBias) ||
           at(kBias, bias_, b, h, i, j) != -std::numeric_limits<double>::infinity();
  }

  EvaluateContext& ctx_;
  const AttentionProblem& p_;
  HeadsView q_, k_, v_, dy_, mask_, bias_;
};

bool evaluate_attention_backward(EvaluateContext& ctx) {
  std::vector<std::optional<TensorType>> types;
  for (size_t i = 0; i < ctx.input_count(); ++i)
    types.push_back(ctx.has_input(i) ? std::optional(ctx.input(i).type) : std::nullopt);
  const std::optional<AttentionProblem> problem = problem_of(ctx, types);
  if (!problem) return false;
  Evaluation evaluation(ctx, *problem);
  for (int64_t b = 0; b < problem->batch; ++b) {
    for (int64_t h = 0; h < problem->heads; ++h) {
      for (int64_t i = 0; i < problem->q_tokens; ++i) evaluation.query(b, h, i);
    }
  }
  return true;
}

// ---- decompose ----

class Composition {
 public:
  Composition(RewriteContext& ctx, const AttentionProblem& problem)
      : ctx_(ctx),
        p_(problem),
        real_(ctx.dtype(ctx.input(kQ)) == DType::f64 ? DType::f64 : DType::f32),
        scores_{p_.batch, p_.heads, p_.q_tokens, p_.kv_tokens},
        grouped_{p_.batch, p_.kv_heads, p_.heads / p_.kv_heads * p_.q_tokens, p_.kv_tokens} {}

  void run() {
    const ValueId q = rows(heads(ctx_.input(kQ), p_.q_layout, p_.heads));
    const ValueId k = known(heads(ctx_.input(kK), p_.kv_layout, p_.kv_heads));
    const ValueId v = known(heads(ctx_.input(kV), p_.kv_layout, p_.kv_heads));
    const ValueId dy = rows(heads(ctx_.input(kDy), p_.out_layout, p_.heads));
    ValueId s = ctx_.reshape(ctx_.affine(product(q, k, false, true), p_.scale), scores_);
    std::optional<ValueId> slope;
    if (p_.softcap > 0) {
      const ValueId curve = ctx_.emit("tanh", {ctx_.affine(s, 1 / p_.softcap)});
      slope = ctx_.affine(ctx_.emit("square", {curve}), -1, 1);
      s = ctx_.affine(curve, p_.softcap);
    }
    if (ctx_.has_input(kBias)) s = call("add", s, ctx_.cast(ctx_.input(kBias), real_));
    const ValueId none = number(-std::numeric_limits<double>::infinity());
    const std::optional<ValueId> allowed = allowed_keys();
    if (allowed) s = where(*allowed, s, none);
    ValueId p = ctx_.emit("softmax", {s}, {{"axis", int64_t{-1}}});
    // A query without a key has NaN in its row.
    if (allowed || ctx_.has_input(kBias)) p = where(call("gt", s, none), p, number(0));
    const ValueId weights = ctx_.reshape(p, grouped_);
    const ValueId dp = ctx_.reshape(product(dy, v, false, true), scores_);
    const ValueId mean = ctx_.reduce("reduce_sum", call("mul", p, dp), {3});
    const ValueId dz = call("mul", p, call("sub", dp, mean));
    ValueId ds = ctx_.affine(slope ? call("mul", dz, *slope) : dz, p_.scale);
    ds = ctx_.reshape(ds, grouped_);
    const size_t outputs = ctx_.node().outputs.size();
    if (outputs > 3) {
      const TensorType bias = ctx_.type(ctx_.input(kBias));
      ctx_.replace_output(3, ctx_.cast(ctx_.sum_to(dz, bias.shape), bias.dtype));
    }
    if (outputs > 2) give(2, kV, product(weights, dy, true, false), p_.kv_layout);
    if (outputs > 1) give(1, kK, product(ds, q, true, false), p_.kv_layout);
    const ValueId dq = product(ds, k, false, false);
    give(0, kQ, ctx_.reshape(dq, {p_.batch, p_.heads, p_.q_tokens, p_.head_dim}), p_.q_layout);
  }

 private:
  ValueId call(std::string_view op, ValueId a, ValueId b) { return ctx_.emit(op, {a, b}); }
  ValueId where(ValueId condition, ValueId a, ValueId b) {
    return ctx_.emit("where", {condition, a, b});
  }
  ValueId number(double value) { return ctx_.scalar(real_, value); }
  ValueId product(ValueId a, ValueId b, bool trans_a, bool trans_b) {
    return ctx_.emit(
        "matmul", {a, b},
        {{"trans_a", trans_a}, {"trans_b", trans_b}, {"out_dtype", std::string(name_of(real_))}});
  }
  // [B, heads, tokens, dim].
  ValueId heads(ValueId x, const std::string& layout, int64_t count) {
    if (layout == "bhsd") return x;
    Shape shape = ctx_.shape(x);
    if (layout == "bsd") shape = {shape[0], shape[1], count, shape[2] / count};
    return ctx_.transpose(ctx_.reshape(x, shape), {0, 2, 1, 3});
  }
  // Heads that share keys as rows of one matrix.
  ValueId rows(ValueId x) {
    return ctx_.reshape(x, {p_.batch, p_.kv_heads, grouped_[2], ctx_.shape(x)[3]});
  }
  // Gives what a layout wants of [B, heads, tokens, dim].
  void give(size_t output, Input input, ValueId x, const std::string& layout) {
    const TensorType type = ctx_.type(ctx_.input(input));
    if (layout != "bhsd") x = ctx_.transpose(x, {0, 2, 1, 3});
    ctx_.replace_output(output, ctx_.cast(ctx_.reshape(x, type.shape), type.dtype));
  }
  ValueId integer(int64_t value) {
    Tensor tensor = Tensor::zeros({DType::i32, {}});
    tensor.integers[0] = value;
    return ctx_.constant("number", tensor);
  }
  ValueId count_up(const Dim& count, const Shape& shape) {
    const ValueId ramp =
        ctx_.emit("ramp", {integer(0), integer(1)}, {{"count", static_cast<int64_t>(count)}});
    return ctx_.reshape(ramp, shape);
  }
  ValueId keys() { return count_up(p_.kv_tokens, {1, 1, 1, p_.kv_tokens}); }
  // An input by batch, or one number, against the scores.
  ValueId by_batch(Input input) {
    const ValueId x = ctx_.cast(ctx_.input(input), DType::i32);
    return ctx_.shape(x).empty() ? x : ctx_.reshape(x, {ctx_.shape(x)[0], 1, 1, 1});
  }
  ValueId key_count() {
    return ctx_.emit("clamp", {by_batch(kKvLen), integer(0), integer(p_.kv_tokens)});
  }
  // What stands behind the last key may be anything: zeros instead.
  ValueId known(ValueId x) {
    if (!ctx_.has_input(kKvLen)) return x;
    const ValueId tokens = count_up(p_.kv_tokens, {1, 1, p_.kv_tokens, 1});
    return where(call("lt", tokens, key_count()), x, ctx_.scalar(ctx_.dtype(x), 0));
  }
  ValueId positions() {
    const ValueId queries = count_up(p_.q_tokens, {1, 1, p_.q_tokens, 1});
    if (ctx_.has_input(kQStart)) return call("add", queries, by_batch(kQStart));
    if (!p_.align_end) return queries;
    const ValueId last = ctx_.has_input(kKvLen) ? key_count() : integer(p_.kv_tokens);
    return call("add", queries, call("sub", last, integer(p_.q_tokens)));
  }
  std::optional<ValueId> allowed_keys() {
    std::optional<ValueId> allowed;
    const auto also = [&](ValueId condition) {
      allowed = allowed ? call("logical_and", *allowed, condition) : condition;
    };
    if (ctx_.has_input(kKvLen)) also(call("lt", keys(), key_count()));
    if (p_.causal) also(call("le", keys(), positions()));
    if (p_.window_left >= 0)
      also(call("ge", keys(), call("sub", positions(), integer(p_.window_left))));
    if (p_.window_right >= 0)
      also(call("le", keys(), call("add", positions(), integer(p_.window_right))));
    if (ctx_.has_input(kMask)) also(attended());
    return allowed;
  }
  ValueId attended() {
    ValueId mask = ctx_.input(kMask);
    const Shape shape = ctx_.shape(mask);
    const DType dtype = ctx_.dtype(mask);
    if (is_float(dtype)) {
      mask = call("ge", mask, ctx_.scalar(dtype, 0.5));
    } else if (dtype != DType::bool_) {
      mask = call("gt", ctx_.cast(mask, DType::i32), integer(0));
    }
    if (shape.size() == 2) return ctx_.reshape(mask, {shape[0], 1, 1, shape[1]});
    if (shape.size() == 3) return ctx_.reshape(mask, {shape[0], 1, shape[1], shape[2]});
    return mask;
  }

  RewriteContext& ctx_;
  const AttentionProblem& p_;
  DType real_;
  Shape scores_;
  Shape grouped_;
};

bool decompose_attention_backward(RewriteContext& ctx) {
  std::vector<std::optional<TensorType>> types;
  for (size_t i = 0; i < ctx.input_count(); ++i)
    types.push_back(ctx.has_input(i) ? std::optional(ctx.type(ctx.input(i))) : std::nullopt);
  const std::optional<AttentionProblem> problem = problem_of(ctx, types);
  if (!problem) return false;
  Composition(ctx, *problem).run();
  return true;
}

constexpr uint32_t kOptionalInputs[] = {kMask, kBias, kKvLen, kQStart};

}  // namespace

std::span<const OpDef> attention_backward_ops() {
  static const OpDef op = {
      .name = "attention_backward",
      .signature =
          "attention_backward(q, k, v, dy, [mask], [bias], [kv_len], [q_start]; as "
          "attention) -> dq, [dk], [dv], [dbias]",
      .inputs = {4, kInputs},
      .outputs = {1, 4},
      .attrs = attention_ops()[0].attrs,
      .infer = infer_attention_backward,
      .evaluate = evaluate_attention_backward,
      .decompose = decompose_attention_backward,
      .optional_inputs = kOptionalInputs,
      .keeps_f32 = 0b11010000,
  };
  return {&op, 1};
}

}  // namespace rlx
