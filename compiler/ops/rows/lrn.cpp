// SPDX-License-Identifier: Apache-2.0
// lrn (ops.md 4): x / (bias + alpha / size * sum of the squares of neighbouring channels)^beta.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// Powers by square roots: beta in quarters, up to this many.
constexpr int64_t kMostQuarters = 16;

// Neighbours before and behind a channel.
struct Neighbours {
  int64_t before = 0;
  int64_t after = 0;
};

Neighbours neighbours_of(const NodeContext& ctx) {
  const int64_t others = ctx.attrs().integer("size") - 1;
  return {.before = others / 2, .after = others - others / 2};
}

bool infer_lrn(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "x")) return false;
  if (ctx.shape(0).size() < 2) {
    return ctx.fail(DiagCode::BadRank,
                    "x has rank " + std::to_string(ctx.shape(0).size()) + "; wanted [N, C, ..]");
  }
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_lrn(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t channels = x.type.shape[1];
  const int64_t inner = dense_strides(x.type.shape)[1];
  const Neighbours near = neighbours_of(ctx);
  const double share = ctx.attrs().real("alpha") / static_cast<double>(ctx.attrs().integer("size"));
  for (int64_t i = 0; i < x.count(); ++i) {
    const int64_t channel = i / inner % channels;
    double sum = 0;
    for (int64_t c = channel - near.before; c <= channel + near.after; ++c) {
      if (c < 0 || c >= channels) continue;
      const double value = x.floats[static_cast<size_t>(i + (c - channel) * inner)];
      sum += value * value;
    }
    const double base = ctx.attrs().real("bias") + share * sum;
    const auto at = static_cast<size_t>(i);
    ctx.output(0).floats[at] = x.floats[at] / std::pow(base, ctx.attrs().real("beta"));
  }
  return true;
}

// beta in quarters where roots give base^beta.
std::optional<int64_t> quarters_of(double beta) {
  const double quarters = 4 * beta;
  if (quarters < 0 || quarters > kMostQuarters || quarters != std::floor(quarters))
    return std::nullopt;
  return static_cast<int64_t>(quarters);
}

// base^beta as text over `base`.
std::string power_text(DType real, double beta) {
  const std::optional<int64_t> quarters = quarters_of(beta);
  if (!quarters) return "rlx_pow(base, " + literal(real, beta) + ")";
  std::string text = literal(real, 1);
  for (int64_t i = 0; i < *quarters / 4; ++i) text += " * (base)";
  if (*quarters % 4 >= 2) text += " * rlx_sqrt(base)";
  if (*quarters % 2 == 1) text += " * rlx_sqrt(rlx_sqrt(base))";
  return "(" + text + ")";
}

bool lower_lrn(LowerContext& ctx) {
  constexpr uint32_t kThreads = 256;
  const DType dtype = ctx.input_type(0).dtype;
  const DType real = dtype == DType::f64 ? DType::f64 : DType::f32;
  const double beta = ctx.attrs().real("beta");
  const Shape& shape = ctx.input_type(0).shape;
  const int64_t channels = shape[1].range().most;
  if (channels > static_cast<int64_t>(kLargestInt)) {
    return ctx.fail(DiagCode::Limit,
                    "x has " + to_string(shape[1]) + " channels; wanted fewer than 2^31");
  }
  const TensorRef y = ctx.output(0);
  const Dim count = element_count(shape);
  const Neighbours near = neighbours_of(ctx);
  const double share = ctx.attrs().real("alpha") / static_cast<double>(ctx.attrs().integer("size"));
  const double bias = ctx.attrs().real("bias");
  if (count == 0) return true;
  const TensorRef x = ctx.dense_input(0);
  const auto most = std::min<int64_t>(channels, near.after + near.before + 1);
  ctx.dispatch<KernelId::lrn>()
      .workgroup({kThreads, 1, 1})
      .define("RLX_X", std::string(name_of(dtype)))
      .define("RLX_DOUBLE", real == DType::f64 && !quarters_of(beta) ? 1 : 0)
      .size("RLX_CHANNELS", shape[1])
      .define("RLX_PIXELS", integer_text(dense_strides(shape)[1]))
      .define("RLX_COUNT", integer_text(count))
      .define("RLX_BEFORE", std::min<int64_t>(near.before, channels))
      .define("RLX_AFTER", std::min<int64_t>(near.after, channels))
      .define("RLX_LINEAR", index_type(IndexUse::Linear, count.range().most + kThreads))
      .generated("power.inc",
                 define_line("RLX_SCALED(sum)", "(" + literal(real, bias) + " + " +
                                                    literal(real, share) + " * (sum))") +
                     define_line("RLX_DIVIDED(x, base)", "((x) / " + power_text(real, beta) + ")"))
      .read(&CopyParams::x, x)
      .write(&CopyParams::y, y)
      .grid(split_grid(ceil_div(count, kThreads)))
      .work(2 * byte_size(y.type), count * 2 * most)
      .reason("up to " + std::to_string(most) + " channels per element");
  return true;
}

constexpr AttrSpec kLrnAttrs[] = {
    {.name = "size", .type = AttrType::Int, .required = true, .minimum = 1, .maximum = kLargestInt},
    {.name = "alpha", .type = AttrType::Float, .default_text = "1e-4"},
    {.name = "beta", .type = AttrType::Float, .default_text = "0.75"},
    {.name = "bias", .type = AttrType::Float, .default_text = "1"},
};

constexpr OpDef kLrnOps[] = {
    {.name = "lrn",
     .signature = "lrn(x; size, alpha=1e-4, beta=0.75, bias=1) -> y",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kLrnAttrs,
     .infer = infer_lrn,
     .evaluate = evaluate_lrn,
     .lower = lower_lrn},
};

}  // namespace

std::span<const OpDef> lrn_ops() {
  return kLrnOps;
}

}  // namespace rlx
