// SPDX-License-Identifier: Apache-2.0
// causal_conv1d (ops.md 10.7): a depthwise convolution over the inputs so far, of which the last
// are carried as a state.
#include <cmath>

#include "compiler/ops/lowering/matmul_activation.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/sequences/state_inputs.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

enum ConvStateInput : uint32_t { kConvX, kConvW, kConvBias, kConvState0 };

bool infer_causal_conv(InferContext& ctx) {
  if (!check_float_input(ctx, kConvX, "x")) return false;
  const Shape& x = ctx.shape(kConvX);
  const Shape& w = ctx.shape(kConvW);
  if (x.size() != 3) {
    return ctx.fail(DiagCode::BadRank, "x has shape " + to_string(x) + ", wanted [B, C, S]");
  }
  if (w.size() != 3) {
    return ctx.fail(DiagCode::BadRank, "w has shape " + to_string(w) + ", wanted [C, 1, k]");
  }
  if (!check_fixed_size(ctx, w[2], "the number of taps, the last size of w,")) return false;
  if (w[2] < 1) return ctx.fail(DiagCode::BadShape, "w has no taps, wanted one or more");
  const Shape state = {x[0], x[1], w[2] - 1};
  const bool good = check_state_inputs(
      ctx,
      {{.position = kConvW, .name = "w", .shapes = {{x[1], 1, w[2]}}},
       {.position = kConvBias, .name = "bias", .shapes = {{x[1]}}},
       {.position = kConvState0, .name = "state0", .dtype = InputDType::State, .shapes = {state}}});
  if (!read_activation(ctx, false) || !good) return false;
  ctx.set_output(0, ctx.input(kConvX));
  ctx.set_output(1, {state_dtype(ctx.dtype(kConvX)), state});
  return true;
}

bool evaluate_causal_conv(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(kConvX);
  const Tensor& w = ctx.input(kConvW);
  const int64_t channels = x.type.shape[1];
  const int64_t steps = x.type.shape[2];
  const int64_t taps = w.type.shape[2];
  const std::optional<Activation> activation = read_activation(ctx, false);
  if (!activation) return false;
  const auto input_at = [&](int64_t line, int64_t t) {
    if (t >= 0) return x.floats[static_cast<size_t>(line * steps + t)];
    if (!ctx.has_input(kConvState0)) return 0.0;
    return ctx.input(kConvState0).floats[static_cast<size_t>((line + 1) * (taps - 1) + t)];
  };
  ProductSums sums;
  for (int64_t line = 0; line < x.type.shape[0] * channels; ++line) {
    const auto channel = static_cast<size_t>(line % channels);
    const double bias = ctx.has_input(kConvBias) ? ctx.input(kConvBias).floats[channel] : 0;
    for (int64_t t = 0; t < steps; ++t) {
      double sum = bias;
      double magnitude = std::abs(bias);
      for (int64_t j = 0; j < taps; ++j) {
        const double term = w.floats[channel * static_cast<size_t>(taps) + static_cast<size_t>(j)] *
                            input_at(line, t + j - (taps - 1));
        sum += term;
        magnitude += std::abs(term);
      }
      sums.values.push_back(sum);
      sums.magnitudes.push_back(magnitude);
    }
    if (ctx.output_count() < 2) continue;
    for (int64_t j = 0; j < taps - 1; ++j) {
      ctx.output(1).floats[static_cast<size_t>(line * (taps - 1) + j)] =
          input_at(line, steps + j - (taps - 1));
    }
  }
  apply_activation(*activation, x.type.dtype, taps, sums);
  ctx.output(0).floats = std::move(sums.values);
  ctx.output(0).magnitudes = std::move(sums.magnitudes);
  ctx.output(0).terms = taps;
  return true;
}

struct CausalConv {
  TensorRef x;
  TensorRef y;
  bool channels_innermost = false;
};

std::string causal_conv_places(const CausalConv& conv, const Dim& count) {
  std::string text = define_line("RLX_INDEX", sequence_index({conv.x, conv.y}, count));
  const auto add = [&text](const std::string& name, const TensorRef& ref) {
    text += stride_line(name + "_BATCH", axis_stride(ref, 0));
    text += stride_line(name + "_CHANNEL", axis_stride(ref, 1));
    text += stride_line(name + "_STEP", axis_stride(ref, 2));
  };
  add("RLX_X", conv.x);
  add("RLX_Y", conv.y);
  return text;
}

// y lies as x does where neighbouring channels are neighbours in memory: so do those of what reads
// it, behind the transposition that brought x here.
CausalConv causal_conv_of(LowerContext& ctx) {
  const TensorRef x = ctx.input(kConvX);
  const Shape& shape = x.shape();
  const bool innermost = axis_stride(x, 1) == 1 && !(axis_stride(x, 2) == 1) && !(shape[2] == 1);
  if (innermost) ctx.state().store_as(ctx.node().outputs[0], {shape[1] * shape[2], 1, shape[1]});
  return {.x = x, .y = ctx.output(0), .channels_innermost = innermost};
}

bool lower_causal_conv(LowerContext& ctx) {
  constexpr uint32_t kThreads = 128;
  constexpr int64_t kItems = 4;      // steps of a thread
  constexpr int64_t kMostHeld = 16;  // taps in registers
  const std::optional<Activation> activation = read_activation(ctx, false);
  if (!activation) return false;
  const CausalConv conv = causal_conv_of(ctx);
  const TensorRef w = ctx.dense_input(kConvW);
  const int64_t taps = w.shape()[2];
  const Shape& shape = conv.x.shape();
  const Dim lines = shape[0] * shape[1];
  std::optional<TensorRef> state;
  if (ctx.has_output(1)) state = ctx.output(1);
  const bool has_state = state && taps > 1;
  const Dim threads =
      lines * ceil_div(shape[2], kItems) + (has_state ? lines * (taps - 1) : Dim(0));
  if (threads == 0) return true;
  const DType dtype = conv.x.dtype();
  const DType acc = state_dtype(dtype);
  const bool has_state0 = ctx.has_input(kConvState0) && taps > 1;
  const Dim state_bytes = lines * (taps - 1) * element_bytes(acc);
  auto dispatch = ctx.dispatch<KernelId::causal_conv>();
  dispatch.workgroup({kThreads, 1, 1})
      .size("RLX_BATCH", shape[0])
      .size("RLX_CHANNELS", shape[1])
      .size("RLX_STEPS", shape[2])
      .define("RLX_K", taps)
      .define("RLX_ITEMS", kItems)
      .define("RLX_HELD", taps <= kMostHeld ? 1 : 0)
      .define("RLX_CHANNELS_INNERMOST", conv.channels_innermost ? 1 : 0)
      .define("RLX_X", std::string(name_of(dtype)))
      .define("RLX_S", std::string(name_of(acc)))
      .define("RLX_HAS_BIAS", ctx.has_input(kConvBias) ? 1 : 0)
      .define("RLX_HAS_STATE0", has_state0 ? 1 : 0)
      .define("RLX_HAS_STATE", has_state ? 1 : 0)
      .define("RLX_ACTIVATION", activation->none() ? 0 : 1)
      .generated("places.inc", causal_conv_places(conv, threads + kThreads))
      .read(&CausalConvParams::x, conv.x)
      .read(&CausalConvParams::w, w)
      .write(&CausalConvParams::y, conv.y)
      .grid(split_grid(ceil_div(threads, kThreads)))
      .work(byte_size(conv.x.type) + byte_size(conv.y.type) + byte_size(w.type) +
                (has_state ? state_bytes : Dim(0)) + (has_state0 ? state_bytes : Dim(0)),
            2 * element_count(shape) * taps)
      .reason("a thread per " + std::to_string(kItems) + " steps, neighbours along the " +
              (conv.channels_innermost ? "channels" : "sequence"));
  define_activation(dispatch, *activation, acc);
  if (ctx.has_input(kConvBias)) dispatch.read(&CausalConvParams::bias, ctx.dense_input(kConvBias));
  if (has_state0) dispatch.read(&CausalConvParams::state0, ctx.dense_input(kConvState0));
  if (has_state) dispatch.write(&CausalConvParams::state, *state);
  return true;
}

constexpr AttrSpec kCausalConvAttrs[] = {
    {.name = "activation", .type = AttrType::String, .default_text = "\"none\""},
};
constexpr uint32_t kCausalConvOptional[] = {kConvBias, kConvState0};

constexpr OpDef kCausalConvOps[] = {
    {.name = "causal_conv1d",
     .signature = "causal_conv1d(x, w, [bias], [state0]; activation=\"none\") -> y, [state]",
     .inputs = {2, 4},
     .outputs = {1, 2},
     .attrs = kCausalConvAttrs,
     .infer = infer_causal_conv,
     .evaluate = evaluate_causal_conv,
     .lower = lower_causal_conv,
     .optional_inputs = kCausalConvOptional,
     .reads_strides = true,
     .keeps_f32 = 1u << kConvState0},
};

}  // namespace

std::span<const OpDef> causal_conv_ops() {
  return kCausalConvOps;
}

}  // namespace rlx
