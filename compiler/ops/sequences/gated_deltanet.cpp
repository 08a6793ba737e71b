// SPDX-License-Identifier: Apache-2.0
// gated_deltanet (ops.md 10.6), also named linear_attention: attention with a matrix of states per
// head in the place of the keys and values so far.
#include <array>
#include <cmath>

#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/sequences/linear_recurrence.h"
#include "compiler/ops/sequences/state_inputs.h"

namespace rlx {
namespace {

enum DeltaInput : uint32_t { kDeltaQ, kDeltaK, kDeltaV, kDeltaG, kDeltaBeta, kDeltaState0 };

struct DeltaRule {
  bool gates = false;
  bool corrects = false;
};

DeltaRule delta_rule_of(const NodeContext& ctx) {
  const std::string rule = ctx.attrs().text("rule");
  return {.gates = rule == "gated" || rule == "gated_delta",
          .corrects = rule == "delta" || rule == "gated_delta"};
}

// Positions of axes in a layout.
struct DeltaAxes {
  size_t step = 1;
  size_t head = 2;
};

DeltaAxes delta_axes(const NodeContext& ctx) {
  return ctx.attrs().text("layout") == "bshd" ? DeltaAxes{} : DeltaAxes{.step = 2, .head = 1};
}

struct DeltaSizes {
  Dim batch = 0;
  Dim steps = 0;
  int64_t heads = 1;
  int64_t query_heads = 1;
  int64_t key_heads = 1;
  int64_t keys = 1;
  int64_t columns = 1;
};

// Of inputs that were checked.
DeltaSizes delta_sizes(const DeltaAxes& axes, const Shape& q, const Shape& k, const Shape& v) {
  return {.batch = v[0],
          .steps = v[axes.step],
          .heads = v[axes.head],
          .query_heads = q[axes.head],
          .key_heads = k[axes.head],
          .keys = k[3],
          .columns = v[3]};
}

// [B, S, heads, ..] in the order of the layout.
Shape delta_layout_shape(const DeltaAxes& axes, const DeltaSizes& sizes, int64_t heads,
                         const Shape& last) {
  Shape shape(3);
  shape[0] = sizes.batch;
  shape[axes.step] = sizes.steps;
  shape[axes.head] = heads;
  shape.insert(shape.end(), last.begin(), last.end());
  return shape;
}

Shape delta_state_shape(const DeltaSizes& sizes) {
  return {sizes.batch, sizes.heads, sizes.keys, sizes.columns};
}

int64_t delta_result_heads(const DeltaSizes& sizes) {
  return std::max(sizes.heads, sizes.query_heads);
}

bool check_delta_heads(InferContext& ctx, const DeltaSizes& sizes) {
  const auto fail = [&](const std::string& message) {
    return ctx.fail(DiagCode::BadShape, message);
  };
  if (ctx.attrs().integer("num_heads") != sizes.heads) {
    return ctx.fail(DiagCode::BadAttribute,
                    "num_heads is " + std::to_string(ctx.attrs().integer("num_heads")) +
                        ", wanted the " + std::to_string(sizes.heads) + " heads of v");
  }
  if (sizes.keys < 1) return fail("q and k have heads of no keys, wanted one or more");
  if (sizes.query_heads < 1 || sizes.key_heads < 1 || sizes.heads < 1)
    return fail("q, k or v has no heads");
  if (sizes.heads % sizes.key_heads != 0) {
    return fail("k has " + std::to_string(sizes.key_heads) + " heads, wanted a divisor of the " +
                std::to_string(sizes.heads) + " of v");
  }
  if (sizes.heads % sizes.query_heads != 0 && sizes.query_heads % sizes.heads != 0) {
    return fail("q has " + std::to_string(sizes.query_heads) +
                " heads, wanted a divisor or a multiple of the " + std::to_string(sizes.heads) +
                " of v");
  }
  return true;
}

// Gates and betas are there where the rule takes them, and nowhere else.
bool check_delta_gates(InferContext& ctx, const DeltaRule& rule) {
  const std::string name = ctx.attrs().text("rule");
  const auto check = [&](bool wanted, bool present, const std::string& input) {
    if (wanted == present) return true;
    return ctx.fail(
        DiagCode::BadArity,
        "rule \"" + name + "\" " + (wanted ? "wants the input " : "has no use for ") + input);
  };
  const bool gates = check(rule.gates, ctx.has_input(kDeltaG), "g");
  return check(rule.corrects, ctx.has_input(kDeltaBeta), "beta") && gates;
}

bool check_delta_shapes(InferContext& ctx, const DeltaAxes& axes, const DeltaSizes& sizes) {
  const int64_t heads = sizes.heads;
  return check_state_inputs(
      ctx, {{.position = kDeltaQ,
             .name = "q",
             .shapes = {delta_layout_shape(axes, sizes, sizes.query_heads, {sizes.keys})}},
            {.position = kDeltaK,
             .name = "k",
             .shapes = {delta_layout_shape(axes, sizes, sizes.key_heads, {sizes.keys})}},
            {.position = kDeltaV,
             .name = "v",
             .shapes = {delta_layout_shape(axes, sizes, heads, {sizes.columns})}},
            {.position = kDeltaG,
             .name = "g",
             .dtype = InputDType::AsXOrF32,
             .shapes = {delta_layout_shape(axes, sizes, heads, {}),
                        delta_layout_shape(axes, sizes, heads, {sizes.keys})}},
            {.position = kDeltaBeta,
             .name = "beta",
             .dtype = InputDType::AsXOrF32,
             .shapes = {delta_layout_shape(axes, sizes, heads, {})}},
            {.position = kDeltaState0,
             .name = "state0",
             .dtype = InputDType::State,
             .shapes = {delta_state_shape(sizes)}}});
}

bool infer_gated_deltanet(InferContext& ctx) {
  if (!check_float_input(ctx, kDeltaQ, "q")) return false;
  constexpr std::array<const char*, 3> kNames = {"q", "k", "v"};
  const DeltaAxes axes = delta_axes(ctx);
  for (size_t i = 0; i < kNames.size(); ++i) {
    const Shape& shape = ctx.shape(i);
    const std::string name = kNames[i];
    if (shape.size() != 4) {
      return ctx.fail(DiagCode::BadRank, name + " has shape " + to_string(shape) +
                                             ", wanted rank 4, in the order " +
                                             ctx.attrs().text("layout"));
    }
    if (!check_fixed_size(ctx, shape[axes.head], "the number of heads of " + name) ||
        !check_fixed_size(ctx, shape[3], "the size of heads of " + name))
      return false;
  }
  const DeltaSizes sizes = delta_sizes(axes, ctx.shape(0), ctx.shape(1), ctx.shape(2));
  if (!check_delta_heads(ctx, sizes) || !check_delta_gates(ctx, delta_rule_of(ctx)) ||
      !check_delta_shapes(ctx, axes, sizes))
    return false;
  ctx.set_output(0, {ctx.dtype(0),
                     delta_layout_shape(axes, sizes, delta_result_heads(sizes), {sizes.columns})});
  ctx.set_output(1, {state_dtype(ctx.dtype(0)), delta_state_shape(sizes)});
  return true;
}

// ---- evaluation ----

// The element (batch, step, head) of a tensor of `width` elements there, in either layout.
const double* delta_row_at(const Tensor& tensor, const DeltaAxes& axes, std::array<int64_t, 3> at,
                           int64_t width) {
  const Shape& shape = tensor.type.shape;
  const auto outer = static_cast<int64_t>(shape[1]);
  const auto inner = static_cast<int64_t>(shape[2]);
  const int64_t second = axes.step == 1 ? at[1] : at[2];
  const int64_t third = axes.step == 1 ? at[2] : at[1];
  return tensor.floats.data() + ((at[0] * outer + second) * inner + third) * width;
}

// One head's states over all steps; rows are keys.
void evaluate_delta_head(EvaluateContext& ctx, const DeltaSizes& sizes, int64_t batch, int64_t head,
                         double* state) {
  const DeltaAxes axes = delta_axes(ctx);
  const DeltaRule rule = delta_rule_of(ctx);
  const int64_t keys = sizes.keys;
  const int64_t columns = sizes.columns;
  const double scale = ctx.attrs().has("scale") ? ctx.attrs().real("scale")
                                                : 1 / std::sqrt(static_cast<double>(keys));
  const int64_t queries = std::max<int64_t>(sizes.query_heads / sizes.heads, 1);
  const bool by_key = rule.gates && ctx.input(kDeltaG).type.shape.size() == 4;
  const int64_t steps = sizes.steps;
  for (int64_t t = 0; t < steps; ++t) {
    const double* k = delta_row_at(ctx.input(kDeltaK), axes,
                                   {batch, t, head / (sizes.heads / sizes.key_heads)}, keys);
    const double* v = delta_row_at(ctx.input(kDeltaV), axes, {batch, t, head}, columns);
    const double* g =
        rule.gates ? delta_row_at(ctx.input(kDeltaG), axes, {batch, t, head}, by_key ? keys : 1)
                   : nullptr;
    for (int64_t i = 0; rule.gates && i < keys; ++i) {
      for (int64_t j = 0; j < columns; ++j) state[i * columns + j] *= std::exp(g[by_key ? i : 0]);
    }
    for (int64_t j = 0; j < columns; ++j) {
      double d = v[j];
      if (rule.corrects) {
        for (int64_t i = 0; i < keys; ++i) d -= state[i * columns + j] * k[i];
        d *= *delta_row_at(ctx.input(kDeltaBeta), axes, {batch, t, head}, 1);
      }
      for (int64_t i = 0; i < keys; ++i) state[i * columns + j] += k[i] * d;
    }
    for (int64_t r = 0; r < queries; ++r) {
      const int64_t y_head = head * queries + r;
      const int64_t q_head =
          sizes.query_heads > sizes.heads ? y_head : head / (sizes.heads / sizes.query_heads);
      const double* q = delta_row_at(ctx.input(kDeltaQ), axes, {batch, t, q_head}, keys);
      Tensor& y = ctx.output(0);
      double* to =
          y.floats.data() + (delta_row_at(y, axes, {batch, t, y_head}, columns) - y.floats.data());
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < keys; ++i) sum += state[i * columns + j] * q[i];
        to[j] = scale * sum;
      }
    }
  }
}

bool evaluate_gated_deltanet(EvaluateContext& ctx) {
  const DeltaSizes sizes =
      delta_sizes(delta_axes(ctx), ctx.input(kDeltaQ).type.shape, ctx.input(kDeltaK).type.shape,
                  ctx.input(kDeltaV).type.shape);
  const int64_t matrix = sizes.keys * sizes.columns;
  const int64_t batch = sizes.batch;
  std::vector<double> states(static_cast<size_t>(batch * sizes.heads * matrix), 0.0);
  if (ctx.has_input(kDeltaState0)) states = ctx.input(kDeltaState0).floats;
  for (int64_t i = 0; i < batch * sizes.heads; ++i)
    evaluate_delta_head(ctx, sizes, i / sizes.heads, i % sizes.heads, states.data() + i * matrix);
  if (ctx.output_count() > 1) ctx.output(1).floats = std::move(states);
  return true;
}

// ---- lowering ----

HeadSteps delta_view(const TensorRef& ref, const DeltaAxes& axes) {
  return {.ref = ref,
          .batch = axis_stride(ref, 0),
          .step = axis_stride(ref, axes.step),
          .head = axis_stride(ref, axes.head)};
}

bool lower_gated_deltanet(LowerContext& ctx) {
  const DeltaAxes axes = delta_axes(ctx);
  const DeltaRule rule = delta_rule_of(ctx);
  const auto shape = [&](size_t i) { return ctx.input_type(i).shape; };
  const DeltaSizes sizes = delta_sizes(axes, shape(kDeltaQ), shape(kDeltaK), shape(kDeltaV));
  LinearRecurrence r{.batch = sizes.batch,
                     .steps = sizes.steps,
                     .heads = sizes.heads,
                     .query_heads = sizes.query_heads,
                     .key_heads = sizes.key_heads,
                     .keys = sizes.keys,
                     .columns = sizes.columns,
                     .corrects = rule.corrects,
                     .scale = ctx.attrs().has("scale")
                                  ? ctx.attrs().real("scale")
                                  : 1 / std::sqrt(static_cast<double>(sizes.keys))};
  const auto along = [&](size_t i) { return delta_view(sequence_input(ctx, i), axes); };
  r.q = along(kDeltaQ);
  r.k = along(kDeltaK);
  r.v = along(kDeltaV);
  r.y = delta_view(ctx.output(0), axes);
  if (rule.gates) {
    const bool by_key = shape(kDeltaG).size() == 4;
    r.gate = by_key ? RecurrenceGate::ByKey : RecurrenceGate::ByHead;
    r.g = by_key ? along(kDeltaG) : delta_view(ctx.input(kDeltaG), axes);
  }
  if (rule.corrects) r.beta = delta_view(ctx.input(kDeltaBeta), axes);
  if (ctx.has_input(kDeltaState0)) r.state0 = ctx.dense_input(kDeltaState0);
  if (ctx.has_output(1)) r.state = ctx.output(1);
  return lower_linear_recurrence(ctx, r);
}

constexpr std::string_view kDeltaRules[] = {"linear", "gated", "delta", "gated_delta"};
constexpr std::string_view kDeltaLayouts[] = {"bshd", "bhsd"};
constexpr AttrSpec kDeltaAttrs[] = {
    {.name = "num_heads",
     .type = AttrType::Int,
     .required = true,
     .minimum = 1,
     .maximum = kLargestInt,
     .consumed_by_infer = true},
    {.name = "scale", .type = AttrType::Float},
    {.name = "rule",
     .type = AttrType::String,
     .default_text = "\"gated_delta\"",
     .choices = kDeltaRules},
    {.name = "layout",
     .type = AttrType::String,
     .default_text = "\"bshd\"",
     .choices = kDeltaLayouts},
};
constexpr uint32_t kDeltaOptional[] = {kDeltaG, kDeltaBeta, kDeltaState0};

constexpr OpDef delta_op(std::string_view name, std::string_view signature) {
  return {.name = name,
          .signature = signature,
          .inputs = {3, 6},
          .outputs = {1, 2},
          .attrs = kDeltaAttrs,
          .infer = infer_gated_deltanet,
          .evaluate = evaluate_gated_deltanet,
          .lower = lower_gated_deltanet,
          .optional_inputs = kDeltaOptional,
          .reads_strides = true,
          .keeps_f32 = 1u << kDeltaG | 1u << kDeltaState0};
}

constexpr OpDef kDeltaOps[] = {
    delta_op("gated_deltanet",
             "gated_deltanet(q, k, v, [g], [beta], [state0]; num_heads, scale, "
             "rule=\"gated_delta\", layout=\"bshd\") -> y, [state]"),
    delta_op("linear_attention",
             "linear_attention(q, k, v, [g], [beta], [state0]; num_heads, scale, "
             "rule=\"gated_delta\", layout=\"bshd\") -> y, [state]"),
};

}  // namespace

std::span<const OpDef> gated_deltanet_ops() {
  return kDeltaOps;
}

}  // namespace rlx
