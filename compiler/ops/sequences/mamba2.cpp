// SPDX-License-Identifier: Apache-2.0
// mamba2 (ops.md 10.5): a matrix of states per head with one decay for the whole head.
#include <cmath>

#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/sequences/linear_recurrence.h"
#include "compiler/ops/sequences/state_inputs.h"

namespace rlx {
namespace {

enum MambaInput : uint32_t {
  kMambaX,
  kMambaDt,
  kMambaA,
  kMambaB,
  kMambaC,
  kMambaD,
  kMambaZ,
  kMambaDtBias,
  kMambaState0
};

struct MambaSizes {
  Dim batch = 0;
  Dim steps = 0;
  int64_t heads = 1;
  int64_t head_size = 1;
  int64_t groups = 1;
  int64_t states = 1;
};

// Of inputs that were checked.
MambaSizes mamba_sizes(const Shape& x, const Shape& b) {
  return {.batch = x[0],
          .steps = x[1],
          .heads = x[2],
          .head_size = x[3],
          .groups = b[2],
          .states = b[3]};
}

bool check_mamba_axes(InferContext& ctx) {
  const Shape& x = ctx.shape(kMambaX);
  const Shape& b = ctx.shape(kMambaB);
  if (x.size() != 4) {
    return ctx.fail(DiagCode::BadRank, "x has shape " + to_string(x) + ", wanted [B, S, H, P]");
  }
  if (b.size() != 4) {
    return ctx.fail(DiagCode::BadRank, "b has shape " + to_string(b) + ", wanted [B, S, G, N]");
  }
  if (!check_fixed_size(ctx, x[2], "the number of heads of x") ||
      !check_fixed_size(ctx, x[3], "the size of heads of x") ||
      !check_fixed_size(ctx, b[2], "the number of groups of b") ||
      !check_fixed_size(ctx, b[3], "the number of states of b"))
    return false;
  if (b[3] < 1) return ctx.fail(DiagCode::BadShape, "b has no states, wanted one or more");
  if (b[2] >= 1 && x[2] >= 1 && static_cast<int64_t>(x[2]) % static_cast<int64_t>(b[2]) == 0)
    return true;
  return ctx.fail(DiagCode::BadShape, "b has " + to_string(b[2]) +
                                          " groups, wanted a divisor of the " + to_string(x[2]) +
                                          " heads of x");
}

bool infer_mamba2(InferContext& ctx) {
  if (!check_float_input(ctx, kMambaX, "x") || !check_mamba_axes(ctx)) return false;
  const Shape& x = ctx.shape(kMambaX);
  const MambaSizes sizes = mamba_sizes(x, ctx.shape(kMambaB));
  const Shape heads = {sizes.heads};
  const Shape groups = {sizes.batch, sizes.steps, sizes.groups, sizes.states};
  const Shape state = {sizes.batch, sizes.heads, sizes.head_size, sizes.states};
  const auto parameter = [&heads](size_t position, std::string_view name) {
    return StateInput{
        .position = position, .name = name, .dtype = InputDType::AsXOrF32, .shapes = {heads}};
  };
  const bool good = check_state_inputs(ctx, {{.position = kMambaDt,
                                              .name = "dt",
                                              .dtype = InputDType::AsXOrF32,
                                              .shapes = {{sizes.batch, sizes.steps, sizes.heads}}},
                                             parameter(kMambaA, "a"),
                                             {.position = kMambaB, .name = "b", .shapes = {groups}},
                                             {.position = kMambaC, .name = "c", .shapes = {groups}},
                                             parameter(kMambaD, "D"),
                                             {.position = kMambaZ, .name = "z", .shapes = {x}},
                                             parameter(kMambaDtBias, "dt_bias"),
                                             {.position = kMambaState0,
                                              .name = "state0",
                                              .dtype = InputDType::State,
                                              .shapes = {state}}});
  if (!good) return false;
  ctx.set_output(0, ctx.input(kMambaX));
  ctx.set_output(1, {state_dtype(ctx.dtype(kMambaX)), state});
  return true;
}

double mamba_softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

// The optional vector's element of a head.
double mamba_parameter(EvaluateContext& ctx, size_t position, int64_t head) {
  return ctx.has_input(position) ? ctx.input(position).floats[static_cast<size_t>(head)] : 0;
}

void evaluate_mamba_head(EvaluateContext& ctx, const MambaSizes& sizes, int64_t batch, int64_t head,
                         double* state) {
  const bool softplus = ctx.attrs().flag("dt_softplus");
  const double a = ctx.input(kMambaA).floats[static_cast<size_t>(head)];
  const int64_t steps = sizes.steps;
  for (int64_t t = 0; t < steps; ++t) {
    const int64_t row = (batch * steps + t) * sizes.heads + head;
    const int64_t group = (batch * steps + t) * sizes.groups + head / (sizes.heads / sizes.groups);
    const double* b = ctx.input(kMambaB).floats.data() + group * sizes.states;
    const double* c = ctx.input(kMambaC).floats.data() + group * sizes.states;
    double dt = ctx.input(kMambaDt).floats[static_cast<size_t>(row)] +
                mamba_parameter(ctx, kMambaDtBias, head);
    if (softplus) dt = mamba_softplus(dt);
    for (int64_t p = 0; p < sizes.head_size; ++p) {
      const auto at = static_cast<size_t>(row * sizes.head_size + p);
      const double x = ctx.input(kMambaX).floats[at];
      double y = mamba_parameter(ctx, kMambaD, head) * x;
      for (int64_t n = 0; n < sizes.states; ++n) {
        double& s = state[p * sizes.states + n];
        s = std::exp(dt * a) * s + dt * x * b[n];
        y += s * c[n];
      }
      if (ctx.has_input(kMambaZ)) {
        const double z = ctx.input(kMambaZ).floats[at];
        y *= z / (1 + std::exp(-z));
      }
      ctx.output(0).floats[at] = y;
    }
  }
}

bool evaluate_mamba2(EvaluateContext& ctx) {
  const MambaSizes sizes =
      mamba_sizes(ctx.input(kMambaX).type.shape, ctx.input(kMambaB).type.shape);
  const int64_t matrix = sizes.head_size * sizes.states;
  const int64_t batch = sizes.batch;
  std::vector<double> states(static_cast<size_t>(batch * sizes.heads * matrix), 0.0);
  if (ctx.has_input(kMambaState0)) states = ctx.input(kMambaState0).floats;
  for (int64_t i = 0; i < batch * sizes.heads; ++i)
    evaluate_mamba_head(ctx, sizes, i / sizes.heads, i % sizes.heads, states.data() + i * matrix);
  if (ctx.output_count() > 1) ctx.output(1).floats = std::move(states);
  return true;
}

HeadSteps mamba_view(const TensorRef& ref) {
  return {.ref = ref,
          .batch = axis_stride(ref, 0),
          .step = axis_stride(ref, 1),
          .head = axis_stride(ref, 2)};
}

// c asks, b is the key and x the value of a state that lies as [value, key].
bool lower_mamba2(LowerContext& ctx) {
  const MambaSizes sizes =
      mamba_sizes(ctx.input_type(kMambaX).shape, ctx.input_type(kMambaB).shape);
  LinearRecurrence r{.batch = sizes.batch,
                     .steps = sizes.steps,
                     .heads = sizes.heads,
                     .query_heads = sizes.groups,
                     .key_heads = sizes.groups,
                     .keys = sizes.states,
                     .columns = sizes.head_size,
                     .gate = RecurrenceGate::StepSize,
                     .softplus = ctx.attrs().flag("dt_softplus"),
                     .key_major = false};
  const auto along = [&ctx](size_t i) { return mamba_view(sequence_input(ctx, i)); };
  r.q = along(kMambaC);
  r.k = along(kMambaB);
  r.v = along(kMambaX);
  r.y = mamba_view(ctx.output(0));
  r.g = mamba_view(ctx.input(kMambaDt));
  r.a = ctx.dense_input(kMambaA);
  if (ctx.has_input(kMambaD)) r.d = ctx.dense_input(kMambaD);
  if (ctx.has_input(kMambaZ)) r.z = along(kMambaZ);
  if (ctx.has_input(kMambaDtBias)) r.g_bias = ctx.dense_input(kMambaDtBias);
  if (ctx.has_input(kMambaState0)) r.state0 = ctx.dense_input(kMambaState0);
  if (ctx.has_output(1)) r.state = ctx.output(1);
  return lower_linear_recurrence(ctx, r);
}

constexpr AttrSpec kMambaAttrs[] = {
    {.name = "dt_softplus", .type = AttrType::Bool, .default_text = "false"},
};
constexpr uint32_t kMambaOptional[] = {kMambaD, kMambaZ, kMambaDtBias, kMambaState0};

constexpr OpDef kMambaOps[] = {
    {.name = "mamba2",
     .signature = "mamba2(x, dt, a, b, c, [D], [z], [dt_bias], [state0]; dt_softplus=false) -> y, "
                  "[state]",
     .inputs = {5, 9},
     .outputs = {1, 2},
     .attrs = kMambaAttrs,
     .infer = infer_mamba2,
     .evaluate = evaluate_mamba2,
     .lower = lower_mamba2,
     .optional_inputs = kMambaOptional,
     .reads_strides = true,
     .keeps_f32 = 1u << kMambaA | 1u << kMambaD | 1u << kMambaDtBias | 1u << kMambaState0},
};

}  // namespace

std::span<const OpDef> mamba2_ops() {
  return kMambaOps;
}

}  // namespace rlx
