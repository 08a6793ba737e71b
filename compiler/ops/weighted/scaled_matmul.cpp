// SPDX-License-Identifier: Apache-2.0
// scaled_matmul (ops.md 3.7): products of 8- and 4-bit floats under scales. Many rows: both sides
// are decoded to the narrowest float that holds them exactly, for the dense products' tensor cores.
// Few rows: coded_matmul reads the codes of b once and decodes them in registers.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/ops/op_def.h"
#include "compiler/ops/weighted/weighted_product.h"
#include "compiler/support/blocks.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr size_t kA = 0;
constexpr size_t kB = 1;
constexpr size_t kAScale = 2;
constexpr size_t kBScale = 3;
constexpr size_t kScaledBias = 4;

// Rows of a up to which b is read as codes.
constexpr int64_t kMostCodedRows = 8;

constexpr std::array<SideScheme, 3> kFormats = {{
    {"f8e4m3", WeightCodes::E4M3, true, false, false, 0},
    {"f8e5m2", WeightCodes::E5M2, true, false, false, 0},
    {"e2m1", WeightCodes::E2M1, true, false, false, 0},
}};

const SideScheme& format_of(const NodeContext& ctx, const char* attribute) {
  const std::string name = ctx.attrs().text(attribute);
  const auto found = std::find_if(kFormats.begin(), kFormats.end(),
                                  [&](const SideScheme& row) { return row.name == name; });
  RLX_CHECK(found != kFormats.end(), "format " + name);
  return *found;
}

enum class ScaleForm : uint8_t { One, PerRow, PerBlock };

// One operand: [rows, depth] codes and the scales over them.
struct Side {
  size_t codes;  // inputs
  size_t scales;
  const char* name;
  const SideScheme* format;
  Dim rows = 0;
  int64_t depth = 0;  // K
  ScaleForm form = ScaleForm::One;
  int64_t block = 0;  // along K; 0: none

  [[nodiscard]] bool is_packed() const { return format->is_packed(); }
  [[nodiscard]] bool has_blocks() const { return form == ScaleForm::PerBlock; }
  [[nodiscard]] int64_t blocks() const { return ceil_div(depth, block); }
};

int64_t block_of(const NodeContext& ctx) {
  return ctx.attrs().has("block") ? ctx.attrs().integer("block") : 0;
}

Side side_of(const NodeContext& ctx, bool is_a, const Shape& codes, const Shape& scales) {
  Side side{.codes = is_a ? kA : kB,
            .scales = is_a ? kAScale : kBScale,
            .name = is_a ? "a" : "b",
            .format = &format_of(ctx, is_a ? "a_format" : "b_format")};
  side.rows = codes[0];
  side.depth = codes[1] * (side.is_packed() ? 2 : 1);
  side.block = block_of(ctx);
  const bool one = scales.empty() || scales == Shape{1};
  side.form = one ? ScaleForm::One : scales.size() == 1 ? ScaleForm::PerRow : ScaleForm::PerBlock;
  return side;
}

// ---- shapes ----

bool check_codes(InferContext& ctx, const Side& side) {
  const DType dtype = ctx.dtype(side.codes);
  const bool named = name_of(dtype) == side.format->name;
  if (named || dtype == DType::u8) return true;
  return ctx.fail(DiagCode::BadDtype,
                  std::string(side.name) + " is " + std::string(name_of(dtype)) + ", wanted " +
                      (side.is_packed() ? "u8 that holds two codes"
                                        : std::string(side.format->name) + " or u8"));
}

// The dtypes of scales go with the block: 16 has E4M3, 32 has E8M0, 128 and none have f32.
bool check_scales(InferContext& ctx, const Side& side) {
  const std::string name = std::string(side.name) + "_scale";
  const TensorType& type = ctx.input(side.scales);
  const Shape per_block = {side.rows, side.block == 0 ? 0 : side.blocks()};
  const bool fits = side.form == ScaleForm::One ||
                    (side.form == ScaleForm::PerRow && type.shape == Shape{side.rows}) ||
                    (side.has_blocks() && side.block != 0 && type.shape == per_block);
  if (!fits) {
    return ctx.fail(
        DiagCode::BadShape,
        name + " is " + to_string(type) + ", wanted one value, " + to_string(Shape{side.rows}) +
            (side.block == 0 ? std::string(", or the attribute block beside one per block of K")
                             : " or " + to_string(per_block)));
  }
  const int64_t block = side.has_blocks() ? side.block : 0;
  const bool bytes = block == 16 || block == 32;
  const bool good = bytes ? type.dtype == DType::u8 || (block == 16 && type.dtype == DType::f8e4m3)
                          : type.dtype == DType::f32;
  if (good) return true;
  const char* wanted = block == 16 ? "f8e4m3 or u8" : block == 32 ? "u8 that holds E8M0" : "f32";
  return ctx.fail(DiagCode::BadDtype,
                  name + " is " + std::string(name_of(type.dtype)) + ", wanted " + wanted);
}

bool check_block(InferContext& ctx, const Side& a, const Side& b) {
  const int64_t block = block_of(ctx);
  if (block != 0 && block != 16 && block != 32 && block != 128) {
    return ctx.fail(DiagCode::BadAttribute,
                    "block is " + std::to_string(block) + ", wanted 16, 32 or 128");
  }
  if (block == 0 || a.has_blocks() || b.has_blocks()) return true;
  return ctx.fail(DiagCode::BadAttribute, "block is " + std::to_string(block) +
                                              ", but neither a_scale nor b_scale is per block");
}

bool infer_scaled(InferContext& ctx) {
  for (const size_t input : {kA, kB}) {
    if (ctx.shape(input).size() == 2) continue;
    return ctx.fail(DiagCode::BadRank, std::string(input == kA ? "a" : "b") + " is " +
                                           to_string(ctx.input(input)) + ", wanted rank 2");
  }
  const Side a = side_of(ctx, true, ctx.shape(kA), ctx.shape(kAScale));
  const Side b = side_of(ctx, false, ctx.shape(kB), ctx.shape(kBScale));
  if (!check_codes(ctx, a) || !check_codes(ctx, b) || !check_block(ctx, a, b)) return false;
  if (a.depth != b.depth) {
    return ctx.fail(DiagCode::BadShape,
                    "a has K = " + std::to_string(a.depth) + ", b has " + std::to_string(b.depth),
                    "codes of e2m1 lie two to a byte");
  }
  if (!check_scales(ctx, a) || !check_scales(ctx, b)) return false;
  if (ctx.has_input(kScaledBias)) {
    const TensorType& bias = ctx.input(kScaledBias);
    if (!is_float(bias.dtype) || bias.dtype == DType::f64 || bias.shape != Shape{b.rows}) {
      return ctx.fail(DiagCode::BadShape, "bias is " + to_string(bias) + ", wanted " +
                                              to_string(Shape{b.rows}) + " in f32, f16 or bf16");
    }
  }
  ctx.set_output(0, {DType::f32, {a.rows, b.rows}});
  return true;
}

// ---- evaluation ----

double element_value(const SideScheme& format, const Tensor& codes, int64_t i) {
  const auto byte = [&codes](int64_t at) {
    return static_cast<uint8_t>(codes.integers[static_cast<size_t>(at)]);
  };
  if (format.codes == WeightCodes::E4M3) return double_from_e4m3(byte(i));
  if (format.codes == WeightCodes::E5M2) return double_from_e5m2(byte(i));
  return double_from_e2m1(static_cast<uint8_t>(byte(i / 2) >> (4 * (i % 2)) & 15));
}

double scale_value(const Side& side, const Tensor& scales, int64_t row, int64_t depth) {
  if (side.form == ScaleForm::One) return scales.floats[0];
  if (side.form == ScaleForm::PerRow) return scales.floats[static_cast<size_t>(row)];
  const auto at = static_cast<size_t>(row * side.blocks() + depth / side.block);
  if (side.block == 128) return scales.floats[at];
  const auto byte = static_cast<uint8_t>(scales.integers[at]);
  if (side.block == 16) return double_from_e4m3(byte);
  return byte == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, byte - 127);
}

std::vector<double> decoded(const EvaluateContext& ctx, const Side& side) {
  std::vector<double> values(static_cast<size_t>(side.rows * side.depth));
  for (int64_t i = 0; i < side.rows * side.depth; ++i) {
    values[static_cast<size_t>(i)] =
        element_value(*side.format, ctx.input(side.codes), i) *
        scale_value(side, ctx.input(side.scales), i / side.depth, i % side.depth);
  }
  return values;
}

// y[m, n] = sum over k of a[m, k] * b[n, k] + bias[n].
void multiply(const std::vector<double>& a, const std::vector<double>& b, int64_t depth,
              const Tensor* bias, Tensor& y) {
  const int64_t columns = y.type.shape[1];
  y.magnitudes.assign(y.floats.size(), 0);
  y.terms = depth + 1;
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t column = i % columns;
    double sum = bias == nullptr ? 0 : bias->floats[static_cast<size_t>(column)];
    double magnitude = std::fabs(sum);
    for (int64_t k = 0; k < depth; ++k) {
      const double term = a[static_cast<size_t>(i / columns * depth + k)] *
                          b[static_cast<size_t>(column * depth + k)];
      sum += term;
      magnitude += std::fabs(term);
    }
    y.floats[static_cast<size_t>(i)] = sum;
    y.magnitudes[static_cast<size_t>(i)] = magnitude;
  }
}

Side evaluated_side(const EvaluateContext& ctx, bool is_a) {
  return side_of(ctx, is_a, ctx.input(is_a ? kA : kB).type.shape,
                 ctx.input(is_a ? kAScale : kBScale).type.shape);
}

bool evaluate_scaled(EvaluateContext& ctx) {
  const Side a = evaluated_side(ctx, true);
  const Side b = evaluated_side(ctx, false);
  const Tensor* bias = ctx.has_input(kScaledBias) ? &ctx.input(kScaledBias) : nullptr;
  multiply(decoded(ctx, a), decoded(ctx, b), a.depth, bias, ctx.output(0));
  return true;
}

// ---- decomposition ----

ValueId cast(RewriteContext& ctx, ValueId x, DType dtype) {
  if (ctx.type(x).dtype == dtype) return x;
  return ctx.emit("cast", {x}, {{"to", std::string(name_of(dtype))}});
}

ValueId bitcast(RewriteContext& ctx, ValueId x, DType dtype) {
  if (ctx.type(x).dtype == dtype) return x;
  return ctx.emit("bitcast", {x}, {{"to", std::string(name_of(dtype))}});
}

ValueId reshape(RewriteContext& ctx, ValueId x, const Shape& shape) {
  if (ctx.type(x).shape == shape) return x;
  return ctx.emit("reshape", {x}, {{"shape", Ints(shape)}});
}

ValueId affine(RewriteContext& ctx, ValueId x, double mul, double add) {
  return ctx.emit("affine", {x}, {{"mul", mul}, {"add", add}});
}

ValueId whole(RewriteContext& ctx, const char* stem, Ints values) {
  Tensor tensor = Tensor::zeros({DType::i32, {}});
  if (values.size() > 1) tensor.type.shape = {static_cast<int64_t>(values.size())};
  tensor.integers = numbers_of(values);
  return ctx.constant(stem, tensor);
}

// 2^(e - 127) from the byte e, as the bits of an f32; 255 is NaN.
ValueId power_of_two(RewriteContext& ctx, ValueId bytes) {
  constexpr int64_t kSubnormal = 0x400000;  // 2^-127
  constexpr int64_t kNan = 0x7FC00000;
  const ValueId e = cast(ctx, bytes, DType::i32);
  ValueId bits = ctx.emit("shift_left", {e, whole(ctx, "mantissa_bits", {23})});
  bits = ctx.emit("max", {bits, whole(ctx, "least_power", {kSubnormal})});
  const ValueId is_nan = ctx.emit("eq", {e, whole(ctx, "nan_byte", {255})});
  bits = ctx.emit("where", {is_nan, whole(ctx, "nan_bits", {kNan}), bits});
  return bitcast(ctx, bits, DType::f32);
}

// Scales per block in f32, [rows, blocks].
ValueId block_scales(RewriteContext& ctx, const Side& side) {
  const ValueId scales = ctx.input(side.scales);
  if (side.block == 32) return power_of_two(ctx, scales);
  if (side.block == 16) return cast(ctx, bitcast(ctx, scales, DType::f8e4m3), DType::f32);
  return scales;
}

// Codes of bytes in their low (shift 0) and high half, as f32 of one more dim, of size 2. The
// magnitudes of codes 0..7 are the largest of three lines.
ValueId unpacked(RewriteContext& ctx, ValueId bytes) {
  Shape shape = ctx.type(bytes).shape;
  shape.push_back(1);
  const ValueId pair = cast(ctx, reshape(ctx, bytes, shape), DType::i32);
  const ValueId code = ctx.emit(
      "bitwise_and",
      {ctx.emit("shift_right", {pair, whole(ctx, "halves", {0, 4})}), whole(ctx, "nibble", {15})});
  const ValueId magnitude =
      cast(ctx, ctx.emit("bitwise_and", {code, whole(ctx, "magnitude", {7})}), DType::f32);
  ValueId value = ctx.emit("max", {affine(ctx, magnitude, 0.5, 0), affine(ctx, magnitude, 1, -2)});
  value = ctx.emit("max", {value, affine(ctx, magnitude, 2, -8)});
  const ValueId is_negative = ctx.emit("gt", {code, whole(ctx, "largest_positive", {7})});
  return ctx.emit("where", {is_negative, ctx.emit("neg", {value}), value});
}

// Codes in any shape of [.., elements per byte], as f32 or the 8-bit float they are.
ValueId elements(RewriteContext& ctx, const Side& side, const Shape& bytes) {
  const ValueId codes = reshape(ctx, ctx.input(side.codes), bytes);
  if (side.is_packed()) return unpacked(ctx, codes);
  return bitcast(ctx, codes, dtype_from_name(side.format->name).value());
}

// The dense [rows, depth] matrix in `dtype`, which holds it exactly (f32 rounds once); scales per
// block are in it, others are left to the result.
ValueId dense(RewriteContext& ctx, const Side& side, DType dtype) {
  const int64_t per_byte = side.is_packed() ? 2 : 1;
  const Shape matrix = {side.rows, side.depth};
  if (!side.has_blocks()) {
    const Shape bytes = {side.rows, side.depth / per_byte};
    return reshape(ctx, cast(ctx, elements(ctx, side, bytes), dtype), matrix);
  }
  ValueId scales = block_scales(ctx, side);
  if (side.depth % side.block != 0) {
    // A partial last block: the scales are repeated to the full depth instead.
    scales = ctx.emit("expand", {reshape(ctx, scales, {side.rows, side.blocks(), 1})},
                      {{"shape", Ints{side.rows, side.blocks(), side.block}}});
    scales = reshape(ctx, scales, {side.rows, side.blocks() * side.block});
    scales = ctx.emit("narrow", {scales},
                      {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"len", side.depth}});
    const Shape bytes = {side.rows, side.depth / per_byte};
    const ValueId values = cast(ctx, reshape(ctx, elements(ctx, side, bytes), matrix), DType::f32);
    return cast(ctx, ctx.emit("mul", {values, scales}), dtype);
  }
  const Shape bytes = {side.rows, side.blocks(), side.block / per_byte};
  const ValueId values = cast(ctx, elements(ctx, side, bytes), DType::f32);
  Shape beside = {side.rows, side.blocks(), 1};
  if (side.is_packed()) beside.push_back(1);
  const ValueId scaled = ctx.emit("mul", {values, reshape(ctx, scales, beside)});
  return reshape(ctx, cast(ctx, scaled, dtype), matrix);
}

// The narrowest dtype that holds codes times the scales in them: halves hold every code; bf16 codes
// times E4M3 (8 significant bits at most) and powers of two; f32 scales want f32.
DType dense_dtype(const Side& a, const Side& b) {
  if (!a.has_blocks() && !b.has_blocks()) return DType::f16;
  return a.block == 128 ? DType::f32 : DType::bf16;
}

// Whether coded_matmul has b's form: it reads scales beside 4-bit codes as E4M3 alone.
bool is_coded(const Side& a, const Side& b) {
  if (a.rows > kMostCodedRows) return false;
  return !b.is_packed() || !b.has_blocks() || b.block == 16;
}

ValueId coded_product(RewriteContext& ctx, const Side& a, const Side& b) {
  std::vector<std::optional<ValueId>> inputs = {dense(ctx, a, DType::f32), ctx.input(kB)};
  Attributes attributes = {{"b_format", std::string(b.format->name)}};
  if (b.has_blocks()) {
    inputs.emplace_back(b.is_packed() ? ctx.input(kBScale) : block_scales(ctx, b));
    attributes["block"] = b.block;
  }
  return ctx.emit("coded_matmul", std::move(inputs), std::move(attributes));
}

bool decompose_scaled(RewriteContext& ctx) {
  const auto side = [&ctx](bool is_a) {
    return side_of(ctx, is_a, ctx.type(ctx.input(is_a ? kA : kB)).shape,
                   ctx.type(ctx.input(is_a ? kAScale : kBScale)).shape);
  };
  const Side a = side(true);
  const Side b = side(false);
  const DType dtype = dense_dtype(a, b);
  ValueId y = is_coded(a, b) ? coded_product(ctx, a, b)
                             : ctx.emit("matmul", {dense(ctx, a, dtype), dense(ctx, b, dtype)},
                                        {{"trans_b", true}, {"out_dtype", std::string("f32")}});
  if (!a.has_blocks()) {
    const Shape rows = a.form == ScaleForm::One ? Shape{} : Shape{a.rows, 1};
    y = ctx.emit("mul", {y, reshape(ctx, ctx.input(kAScale), rows)});
  }
  if (!b.has_blocks()) {
    const Shape columns = b.form == ScaleForm::One ? Shape{} : Shape{b.rows};
    y = ctx.emit("mul", {y, reshape(ctx, ctx.input(kBScale), columns)});
  }
  if (ctx.has_input(kScaledBias))
    y = ctx.emit("add", {y, cast(ctx, ctx.input(kScaledBias), DType::f32)});
  ctx.replace_output(0, y);
  return true;
}

// ---- coded_matmul(x, b, [scale]; b_format, block): x f32 [M, K] times codes [N, K], scales per
// block of K in f32, E4M3 beside e2m1; what scaled_matmul becomes for few rows ----

constexpr size_t kCodedScale = 2;

bool infer_coded(InferContext& ctx) {
  const bool packed = format_of(ctx, "b_format").is_packed();
  const Shape& x = ctx.shape(kA);
  const Shape& b = ctx.shape(kB);
  if (x.size() != 2 || b.size() != 2 || ctx.dtype(kA) != DType::f32 ||
      x[1] != b[1] * (packed ? 2 : 1)) {
    return ctx.fail(DiagCode::BadShape, "x is " + to_string(ctx.input(kA)) + " and b " +
                                            to_string(ctx.input(kB)) +
                                            ", wanted f32 [M, K] and codes [N, K]");
  }
  if (ctx.has_input(kCodedScale) != ctx.attrs().has("block")) {
    return ctx.fail(DiagCode::BadArity, "scale and block go together");
  }
  if (ctx.has_input(kCodedScale) &&
      ctx.shape(kCodedScale) != Shape{b[0], ceil_div(x[1], ctx.attrs().integer("block"))}) {
    return ctx.fail(DiagCode::BadShape, "scale is " + to_string(ctx.input(kCodedScale)));
  }
  ctx.set_output(0, {DType::f32, {x[0], b[0]}});
  return true;
}

bool evaluate_coded(EvaluateContext& ctx) {
  const SideScheme& format = format_of(ctx, "b_format");
  const Tensor& x = ctx.input(kA);
  const int64_t depth = x.type.shape[1];
  const int64_t block = block_of(ctx);
  std::vector<double> b(static_cast<size_t>(ctx.output(0).type.shape[1] * depth));
  for (int64_t i = 0; i < static_cast<int64_t>(b.size()); ++i) {
    double scale = 1;
    if (block != 0) {
      const auto at = static_cast<size_t>(i / depth * ceil_div(depth, block) + i % depth / block);
      const Tensor& scales = ctx.input(kCodedScale);
      scale = scales.is_float() ? scales.floats[at]
                                : double_from_e4m3(static_cast<uint8_t>(scales.integers[at]));
    }
    b[static_cast<size_t>(i)] = element_value(format, ctx.input(kB), i) * scale;
  }
  multiply(x.floats, b, depth, nullptr, ctx.output(0));
  return true;
}

bool lower_coded(LowerContext& ctx) {
  WeightedProduct product;
  product.x = ctx.dense_input(kA);
  product.w = ctx.dense_input(kB);
  product.y = ctx.output(0);
  product.m = product.y.shape()[0];
  product.n = product.y.shape()[1];
  product.k = product.x.shape()[1];
  product.scheme = &format_of(ctx, "b_format");
  product.along_depth = true;
  product.scale_block = std::max<int64_t>(product.k, 1);
  if (ctx.has_input(kCodedScale)) {
    product.scale = ctx.dense_input(kCodedScale);
    product.scale_kind = WeightScale::PerBlock;
    product.scale_block = block_of(ctx);
  }
  return lower_weighted_product(ctx, product);
}

constexpr std::string_view kFormatNames[] = {"f8e4m3", "f8e5m2", "e2m1"};
constexpr AttrSpec kBFormat{
    .name = "b_format", .type = AttrType::String, .required = true, .choices = kFormatNames};
constexpr AttrSpec kBlock{.name = "block", .type = AttrType::Int, .minimum = 1};
const AttrSpec kScaledAttrs[] = {
    {.name = "a_format", .type = AttrType::String, .required = true, .choices = kFormatNames},
    kBFormat,
    kBlock,
};
const AttrSpec kCodedAttrs[] = {kBFormat, kBlock};
constexpr uint32_t kScaledOptional[] = {kScaledBias};
constexpr uint32_t kCodedOptional[] = {kCodedScale};

const OpDef kScaledMatmuls[] = {
    {.name = "scaled_matmul",
     .signature = "scaled_matmul(a, b, a_scale, b_scale, [bias]; a_format, b_format, block) -> y",
     .inputs = {4, 5},
     .attrs = kScaledAttrs,
     .infer = infer_scaled,
     .evaluate = evaluate_scaled,
     .decompose = decompose_scaled,
     .optional_inputs = kScaledOptional},
    {.name = "coded_matmul",
     .signature = "coded_matmul(x, b, [scale]; b_format, block) -> y",
     .inputs = {2, 3},
     .attrs = kCodedAttrs,
     .infer = infer_coded,
     .evaluate = evaluate_coded,
     .lower = lower_coded,
     .optional_inputs = kCodedOptional},
};

}  // namespace

std::span<const OpDef> scaled_matmul_ops() {
  return kScaledMatmuls;
}

}  // namespace rlx
