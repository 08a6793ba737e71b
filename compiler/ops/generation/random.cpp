// SPDX-License-Identifier: Apache-2.0
// rng_bits, rng_uniform, rng_normal, dropout (ops.md 12.2, 16.1), and the elementwise ops of one
// axis that they become: random_bits, random_uniform, random_normal.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/generation/draw.h"
#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/region_codegen.h"

namespace rlx {
namespace {

constexpr size_t kSeedOfRng = 1;  // [like], [seed], [step]
constexpr uint32_t kRngOptional[] = {0, 1, 2};
constexpr uint32_t kDropoutOptional[] = {1, 2};

// ---- what one element is ----

// A uniform of f64 is low + span * u with one rounding.
struct DoubleRange {
  double low = 0;
  double span = 1;
  double high = 1;
  double below = 1;
};
DoubleRange double_range(const AttributeReader& attrs) {
  const double low = attrs.real("low");
  const double high = attrs.real("high");
  return {.low = low,
          .span = high - low,
          .high = high,
          .below = std::nextafter(high, -std::numeric_limits<double>::infinity())};
}

double double_unit(const Draw& draw, uint64_t index) {
  const PhiloxWords words = philox_block(draw.seed, draw.stream, draw.step, index / 2);
  const uint32_t a = words[index % 2 * 2];
  const uint32_t b = words[index % 2 * 2 + 1];
  return (static_cast<double>(a >> 5) * 0x1p26 + static_cast<double>(b >> 6)) * 0x1p-53;
}

void fill_bits(const Draw& draw, Tensor& y) {
  for (uint64_t i = 0; i < y.integers.size(); ++i)
    y.integers[i] = philox_block(draw.seed, draw.stream, draw.step, i / 4)[i % 4];
}

void fill_uniform(const Draw& draw, const AttributeReader& attrs, Tensor& y) {
  const DType dtype = y.type.dtype;
  const UniformRange range = uniform_range(dtype, attrs.real("low"), attrs.real("high"));
  const DoubleRange wide = double_range(attrs);
  for (uint64_t i = 0; i < y.floats.size(); ++i) {
    if (dtype == DType::f64) {
      const double value = std::fma(wide.span, double_unit(draw, i), wide.low);
      y.floats[i] = value >= wide.high && wide.high > wide.low ? wide.below : value;
      continue;
    }
    const PhiloxWords words = philox_block(draw.seed, draw.stream, draw.step, i / 4);
    y.floats[i] = uniform_value(dtype, range, words[i % 4]);
  }
}

void fill_normal(const Draw& draw, const AttributeReader& attrs, Tensor& y) {
  const double mean = static_cast<float>(attrs.real("mean"));
  const double scale = static_cast<float>(attrs.real("scale"));
  for (uint64_t i = 0; i < y.floats.size(); ++i) {
    const PhiloxWords words = philox_block(draw.seed, draw.stream, draw.step, i / 4);
    y.floats[i] = mean + scale * philox_normals(words)[i % 4];
  }
}

void fill_random(const Draw& draw, const NodeContext& ctx, Tensor& y) {
  const std::string_view op = ctx.node().op;
  if (op == "rng_bits" || op == "random_bits") return fill_bits(draw, y);
  if (op == "rng_uniform" || op == "random_uniform") return fill_uniform(draw, ctx.attrs(), y);
  fill_normal(draw, ctx.attrs(), y);
}

// ---- rng_* ----

bool check_distribution(InferContext& ctx, DType dtype) {
  if (!is_float(dtype)) {
    return ctx.fail(DiagCode::BadDtype,
                    "dtype is " + std::string(name_of(dtype)) + ", wanted f32, f16, bf16 or f64");
  }
  const bool uniform = ctx.node().op == "rng_uniform" || ctx.node().op == "random_uniform";
  const double first = ctx.attrs().real(uniform ? "low" : "mean");
  const double second = ctx.attrs().real(uniform ? "high" : "scale");
  if (!std::isfinite(first) || !std::isfinite(second)) {
    return ctx.fail(DiagCode::BadAttribute,
                    uniform ? "low or high is not finite" : "mean or scale is not finite");
  }
  if (uniform && first > second) {
    return ctx.fail(DiagCode::BadAttribute, "low is " + std::to_string(first) +
                                                ", above high, which is " + std::to_string(second));
  }
  return true;
}

bool infer_rng(InferContext& ctx) {
  if (!check_draw(ctx, kSeedOfRng)) return false;
  if (ctx.has_input(0) == ctx.attrs().has("shape")) {
    return ctx.fail(DiagCode::BadShape,
                    "got both or neither of like and shape, wanted one of them");
  }
  const bool bits = ctx.node().op == "rng_bits";
  const DType dtype = bits ? DType::u32 : ctx.attrs().dtype("dtype");
  if (!bits && !check_distribution(ctx, dtype)) return false;
  ctx.set_output(0, {dtype, ctx.has_input(0) ? ctx.shape(0) : ctx.attrs().integers("shape")});
  return true;
}

bool evaluate_rng(EvaluateContext& ctx) {
  const Draw draw = draw_of(ctx, kSeedOfRng);
  fill_random(draw, ctx, ctx.output(0));
  return true;
}

Ints one_axis(const Shape& shape) {
  return {element_count(shape)};
}

bool decompose_rng(RewriteContext& ctx) {
  const TensorType type = ctx.type(ctx.node().outputs[0]);
  Attributes attributes{{"shape", one_axis(type.shape)}, {"stream", stream_of(ctx)}};
  for (const std::string_view name : {"low", "high", "mean", "scale", "dtype"}) {
    const auto found = ctx.node().attributes.find(name);
    if (found != ctx.node().attributes.end()) attributes.insert(*found);
  }
  const std::string op = "random_" + ctx.node().op.substr(std::string_view("rng_").size());
  const ValueId flat =
      ctx.emit(op, {seed_of(ctx, kSeedOfRng), step_of(ctx, kSeedOfRng)}, std::move(attributes));
  ctx.replace_output(0, ctx.emit("reshape", {flat}, {{"shape", type.shape}}));
  return true;
}

// ---- random_*(seed, step; shape): of one axis ----

bool infer_random(InferContext& ctx) {
  const TensorType seed{DType::i64, {}};
  const TensorType step{DType::u32, {}};
  if (ctx.input(0) != seed || ctx.input(1) != step) {
    return ctx.fail(DiagCode::BadDtype, "seed and step are " + to_string(ctx.input(0)) + " and " +
                                            to_string(ctx.input(1)) + ", wanted " +
                                            to_string(seed) + " and " + to_string(step));
  }
  const Ints shape = ctx.attrs().integers("shape");
  if (shape.size() != 1) return ctx.fail(DiagCode::BadRank, "shape is not of rank 1");
  const bool bits = ctx.node().op == "random_bits";
  const DType dtype = bits ? DType::u32 : ctx.attrs().dtype("dtype");
  if (!bits && !check_distribution(ctx, dtype)) return false;
  ctx.set_output(0, {dtype, shape});
  return true;
}

bool evaluate_random(EvaluateContext& ctx) {
  const Draw draw{.seed = static_cast<uint64_t>(ctx.input(0).integers[0]),
                  .step = static_cast<uint32_t>(ctx.input(1).integers[0]),
                  .stream = static_cast<uint32_t>(ctx.attrs().integer("stream"))};
  fill_random(draw, ctx, ctx.output(0));
  return true;
}

std::string drawn(const std::string& function, const ScalarContext& ctx) {
  return function + "(" + ctx.operand(0) + ", " + ctx.operand(1) + ", " +
         integer_literal(DType::u32, ctx.attrs().integer("stream")) + ", " + coordinate_name(1) +
         ")";
}

std::string scalar_bits(const ScalarContext& ctx) {
  return drawn("rlx_random_word", ctx);
}

std::string scalar_uniform(const ScalarContext& ctx) {
  const DType dtype = ctx.result_dtype();
  if (dtype == DType::f64) {
    const DoubleRange range = double_range(ctx.attrs());
    return "rlx_keep_below(rlx_fma(" + literal(dtype, range.span) + ", " +
           drawn("rlx_random_unit64", ctx) + ", " + literal(dtype, range.low) + "), " +
           literal(dtype, range.low) + ", " + literal(dtype, range.high) + ", " +
           literal(dtype, range.below) + ")";
  }
  const UniformRange range =
      uniform_range(dtype, ctx.attrs().real("low"), ctx.attrs().real("high"));
  const std::string low = literal(DType::f32, range.low);
  std::string value = "rlx_uniform_of(" + drawn("rlx_random_word", ctx) + ", " + low + ", " +
                      literal(DType::f32, range.span) + ")";
  if (dtype != DType::f32) value = "rlx_round_" + std::string(name_of(dtype)) + "(" + value + ")";
  return "rlx_keep_below(" + value + ", " + low + ", " + literal(DType::f32, range.high) + ", " +
         literal(DType::f32, range.below) + ")";
}

std::string scalar_normal(const ScalarContext& ctx) {
  const std::string value = literal(DType::f32, ctx.attrs().real("mean")) + " + " +
                            literal(DType::f32, ctx.attrs().real("scale")) + " * " +
                            drawn("rlx_random_normal", ctx);
  return std::string(compute_type(ctx.result_dtype())) + "(" + value + ")";
}

// ---- dropout(x; p, training) ----

bool infer_dropout(InferContext& ctx) {
  if (!is_float(ctx.dtype(0))) {
    return ctx.fail(DiagCode::BadDtype, "x is " + std::string(name_of(ctx.dtype(0))) +
                                            ", wanted f32, f16, bf16 or f64");
  }
  if (!check_draw(ctx, 1)) return false;
  ctx.set_output(0, ctx.input(0));
  ctx.set_output(1, {DType::bool_, ctx.shape(0)});
  return true;
}

bool evaluate_dropout(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Draw draw = draw_of(ctx, 1);
  const double p = ctx.attrs().real("p");
  const bool trains = ctx.attrs().flag("training");
  const UniformRange unit = uniform_range(DType::f32, 0, 1);
  for (uint64_t i = 0; i < x.floats.size(); ++i) {
    const uint32_t word = philox_block(draw.seed, draw.stream, draw.step, i / 4)[i % 4];
    const bool stays = !trains || uniform_value(DType::f32, unit, word) >=
                                      static_cast<double>(static_cast<float>(p));
    // Where p is 1 nothing stays.
    ctx.output(0).floats[i] = !trains ? x.floats[i] : stays ? x.floats[i] / (1 - p) : 0.0;
    if (ctx.output_count() > 1) ctx.output(1).integers[i] = stays ? 1 : 0;
  }
  return true;
}

ValueId float_constant(RewriteContext& ctx, std::string_view stem, DType dtype, double value) {
  Tensor tensor = Tensor::zeros({dtype, {}});
  tensor.floats[0] = value;
  return ctx.constant(stem, tensor);
}

bool decompose_dropout(RewriteContext& ctx) {
  const TensorType type = ctx.type(ctx.input(0));
  const bool wants_mask = ctx.node().outputs.size() > 1;
  if (!ctx.attrs().flag("training")) {
    ctx.replace_output(0, ctx.emit("identity", {ctx.input(0)}));
    if (wants_mask) {
      ctx.replace_output(
          1, ctx.emit("fill", {},
                      {{"shape", type.shape}, {"value", 1.0}, {"dtype", std::string("bool")}}));
    }
    return true;
  }
  const double p = ctx.attrs().real("p");
  const ValueId unit = ctx.emit("random_uniform", {seed_of(ctx, 1), step_of(ctx, 1)},
                                {{"shape", one_axis(type.shape)}, {"stream", stream_of(ctx)}});
  const ValueId stays = ctx.emit("ge", {unit, float_constant(ctx, "p", DType::f32, p)});
  const ValueId mask = ctx.emit("reshape", {stays}, {{"shape", type.shape}});
  const double factor = p < 1 ? 1 / (1 - p) : 1;
  const ValueId kept = ctx.emit("affine", {ctx.input(0)}, {{"mul", factor}, {"add", 0.0}});
  ctx.replace_output(0,
                     ctx.emit("where", {mask, kept, float_constant(ctx, "none", type.dtype, 0)}));
  if (wants_mask) ctx.replace_output(1, mask);
  return true;
}

// ---- the tables ----

constexpr AttrSpec kShape = {
    .name = "shape", .type = AttrType::IntList, .minimum = 0, .consumed_by_infer = true};
constexpr AttrSpec kOneAxis = {.name = "shape",
                               .type = AttrType::IntList,
                               .required = true,
                               .minimum = 0,
                               .consumed_by_infer = true};
constexpr AttrSpec kLow = {.name = "low", .type = AttrType::Float, .default_text = "0"};
constexpr AttrSpec kHigh = {.name = "high", .type = AttrType::Float, .default_text = "1"};
constexpr AttrSpec kMean = {.name = "mean", .type = AttrType::Float, .default_text = "0"};
constexpr AttrSpec kScale = {
    .name = "scale", .type = AttrType::Float, .default_text = "1", .minimum = 0};
constexpr AttrSpec kRandomDType = {.name = "dtype",
                                   .type = AttrType::DTypeName,
                                   .default_text = "\"f32\"",
                                   .consumed_by_infer = true};
constexpr AttrSpec kRngBits[] = {kShape, kSeedAttr, kStreamAttr};
constexpr AttrSpec kRngUniform[] = {kShape, kLow, kHigh, kRandomDType, kSeedAttr, kStreamAttr};
constexpr AttrSpec kRngNormal[] = {kShape, kMean, kScale, kRandomDType, kSeedAttr, kStreamAttr};
constexpr AttrSpec kRandomBits[] = {kOneAxis, kGivenStreamAttr};
constexpr AttrSpec kRandomUniform[] = {kOneAxis, kLow, kHigh, kRandomDType, kGivenStreamAttr};
constexpr AttrSpec kRandomNormal[] = {kOneAxis, kMean, kScale, kRandomDType, kGivenStreamAttr};
constexpr AttrSpec kDropout[] = {
    {.name = "p", .type = AttrType::Float, .default_text = "0.5", .minimum = 0, .maximum = 1},
    {.name = "training", .type = AttrType::Bool, .default_text = "false"},
    kSeedAttr,
    kStreamAttr};

constexpr OpDef rng_op(std::string_view name, std::string_view signature,
                       std::span<const AttrSpec> attrs) {
  return {.name = name,
          .signature = signature,
          .inputs = {0, 3},
          .attrs = attrs,
          .infer = infer_rng,
          .evaluate = evaluate_rng,
          .decompose = decompose_rng,
          .optional_inputs = kRngOptional,
          .seed_input = kSeedOfRng};
}

constexpr OpDef random_op(std::string_view name, std::string_view signature,
                          std::span<const AttrSpec> attrs,
                          std::string (*scalar)(const ScalarContext&)) {
  return {.name = name,
          .signature = signature,
          .inputs = {2, 2},
          .attrs = attrs,
          .infer = infer_random,
          .evaluate = evaluate_random,
          .lower = lower_elementwise,
          .scalar = scalar};
}

// The same mask, from the same counters: import has written the stream.
bool dropout_gradient(GradientContext& ctx) {
  NodeBuilder::Inputs inputs = ctx.node().inputs;
  inputs[0] = ctx.gradient();
  ctx.give(0, ctx.emit("dropout", std::move(inputs), ctx.attributes()));
  return true;
}

constexpr OpDef kRandomOps[] = {
    rng_op("rng_bits", "rng_bits([like], [seed], [step]; shape, seed, stream) -> u32", kRngBits),
    rng_op("rng_uniform",
           "rng_uniform([like], [seed], [step]; shape, low=0, high=1, dtype=\"f32\", seed, stream) "
           "-> y",
           kRngUniform),
    rng_op("rng_normal",
           "rng_normal([like], [seed], [step]; shape, mean=0, scale=1, dtype=\"f32\", seed, "
           "stream) -> y",
           kRngNormal),
    random_op("random_bits", "random_bits(seed, step; shape, stream) -> u32", kRandomBits,
              scalar_bits),
    random_op("random_uniform",
              "random_uniform(seed, step; shape, low=0, high=1, dtype=\"f32\", stream) -> y",
              kRandomUniform, scalar_uniform),
    random_op("random_normal",
              "random_normal(seed, step; shape, mean=0, scale=1, dtype=\"f32\", stream) -> y",
              kRandomNormal, scalar_normal),
    {.name = "dropout",
     .signature = "dropout(x, [seed], [step]; p=0.5, training=false, seed, stream) -> y, [mask]",
     .inputs = {1, 3},
     .outputs = {1, 2},
     .attrs = kDropout,
     .infer = infer_dropout,
     .evaluate = evaluate_dropout,
     .decompose = decompose_dropout,
     .gradient = dropout_gradient,
     .optional_inputs = kDropoutOptional,
     .seed_input = 1},
};

}  // namespace

std::span<const OpDef> random_ops() {
  return kRandomOps;
}

}  // namespace rlx
