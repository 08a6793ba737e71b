// SPDX-License-Identifier: Apache-2.0
// dequant_matmul, grouped_matmul and dequant_grouped_matmul (ops.md 3.5, 3.7): shapes, evaluation,
// and the product that the kernels get.
#include <algorithm>
#include <cmath>

#include "compiler/ops/lowering/block_weights.h"
#include "compiler/ops/weighted/weighted_product.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr size_t kX = 0;
constexpr size_t kW = 1;
constexpr size_t kScale = 2;      // dequant_matmul
constexpr size_t kZero = 3;       // dequant_matmul: zero points, or the factor of nvfp4
constexpr size_t kBias = 4;       // dequant_matmul
constexpr size_t kIndex = 2;      // grouped
constexpr size_t kGroupBias = 3;  // grouped

bool is_index_type(DType dtype) {
  return is_integer(dtype) || dtype == DType::f32 || dtype == DType::f16;
}

Shape with_last(Shape shape, int64_t last) {
  shape.back() = last;
  return shape;
}

std::string text_of(const Shape& shape) {
  return to_string(shape);
}

bool bad_shape(InferContext& ctx, const std::string& name, size_t input,
               const std::string& wanted) {
  return ctx.fail(DiagCode::BadShape,
                  name + " is " + to_string(ctx.input(input)) + ", wanted " + wanted);
}

bool check_float(InferContext& ctx, size_t input, const char* name) {
  if (is_short_float(ctx.dtype(input))) return true;
  return ctx.fail(DiagCode::BadDtype, std::string(name) + " is " +
                                          std::string(name_of(ctx.dtype(input))) +
                                          ", wanted f32, f16 or bf16");
}

// A block-typed w of `rank` dims whose last is K, named by `scheme`.
bool check_blocks(InferContext& ctx, size_t rank, int64_t k) {
  const TensorType& w = ctx.input(kW);
  const std::string scheme = ctx.attrs().text("scheme");
  if (!is_block_type(w.dtype) || name_of(w.dtype) != scheme) {
    return ctx.fail(DiagCode::BadDtype,
                    "w is " + to_string(w) + ", wanted blocks of scheme \"" + scheme + "\"");
  }
  const std::string wanted = rank == 3 ? "[E, N, K]" : "[N, K]";
  if (w.shape.size() != rank) return bad_shape(ctx, "w", kW, wanted);
  if (w.shape.back() % block_elements(w.dtype) != 0) {
    return bad_shape(
        ctx, "w", kW,
        "whole blocks of " + std::to_string(block_elements(w.dtype)) + " elements in its last dim");
  }
  if (w.shape.back() != k) {
    return bad_shape(ctx, "w", kW, wanted + " with K = " + std::to_string(k) + " of x");
  }
  return true;
}

// Of y: what out_dtype says, or x's own. nullopt after a diagnostic.
std::optional<DType> result_dtype(InferContext& ctx) {
  if (!ctx.attrs().has("out_dtype")) return ctx.dtype(kX);
  const DType dtype = ctx.attrs().dtype("out_dtype");
  if (dtype == ctx.dtype(kX) || (is_short_float(dtype) && is_short_float(ctx.dtype(kX))))
    return dtype;
  ctx.fail(DiagCode::BadAttribute, "out_dtype is " + std::string(name_of(dtype)) + " beside x of " +
                                       std::string(name_of(ctx.dtype(kX))) +
                                       ", wanted f32, f16 or bf16");
  return std::nullopt;
}

// ---- dequant_matmul ----

int64_t scale_block_of(const NodeContext& ctx, const SideScheme& scheme, int64_t k) {
  if (scheme.fixed_block != 0) return scheme.fixed_block;
  return scheme.wants_block ? ctx.attrs().integer("block_size") : std::max<int64_t>(k, 1);
}

bool is_code_type(const SideScheme& scheme, DType dtype) {
  switch (scheme.codes) {
    case WeightCodes::I8:
      return dtype == DType::i8;
    case WeightCodes::E4M3:
      return dtype == DType::u8 || dtype == DType::f8e4m3;
    case WeightCodes::E5M2:
      return dtype == DType::u8 || dtype == DType::f8e5m2;
    default:
      return dtype == DType::u8 || dtype == DType::i8;
  }
}

// N of the scheme's tensors after every check of w; nullopt after a diagnostic.
std::optional<int64_t> side_lines(InferContext& ctx, const SideScheme& scheme, int64_t k) {
  const TensorType& w = ctx.input(kW);
  if (!is_code_type(scheme, w.dtype)) {
    ctx.fail(DiagCode::BadDtype, "w is " + to_string(w) + ", which holds no codes of scheme \"" +
                                     std::string(scheme.name) + "\"");
    return std::nullopt;
  }
  if (scheme.along_depth) {
    if (k % 2 == 0 && w.shape.size() == 2 && w.shape[1] == k / 2) return w.shape[0];
    bad_shape(ctx, "w", kW, "[N, K / 2] with even K = " + std::to_string(k) + " of x");
    return std::nullopt;
  }
  if (!scheme.is_packed()) {
    if (w.shape.size() == 2 && w.shape[0] == k) return w.shape[1];
    bad_shape(ctx, "w", kW, "[K, N] with K = " + std::to_string(k) + " of x");
    return std::nullopt;
  }
  if (ctx.shape(kScale).size() != 2) {
    bad_shape(ctx, "scale", kScale, "rank 2");
    return std::nullopt;
  }
  const int64_t n = ctx.shape(kScale)[1];
  if (element_count(w.shape) == ceil_div(k * n, 2)) return n;
  bad_shape(ctx, "w", kW,
            std::to_string(ceil_div(k * n, 2)) +
                " bytes, two codes each, for [K, N] = " + text_of({k, n}));
  return std::nullopt;
}

bool check_scale(InferContext& ctx, const SideScheme& scheme, int64_t k, int64_t n) {
  const bool is_fp8 = scheme.codes == WeightCodes::E4M3 || scheme.codes == WeightCodes::E5M2;
  const DType dtype = ctx.dtype(kScale);
  const bool bytes = scheme.codes == WeightCodes::E2M1;
  if (bytes ? dtype != DType::u8 && dtype != DType::f8e4m3 : dtype != DType::f32) {
    return ctx.fail(DiagCode::BadDtype, "scale is " + std::string(name_of(dtype)) + ", wanted " +
                                            (bytes ? "u8 or f8e4m3" : "f32"));
  }
  if (is_fp8) {
    const Shape& shape = ctx.shape(kScale);
    if (element_count(shape) == 1 || shape == Shape{n}) return true;
    return bad_shape(ctx, "scale", kScale, "one value or [" + std::to_string(n) + "]");
  }
  const int64_t blocks = ceil_div(k, scale_block_of(ctx, scheme, k));
  const Shape wanted = scheme.along_depth ? Shape{n, blocks} : Shape{blocks, n};
  if (ctx.shape(kScale) != wanted) return bad_shape(ctx, "scale", kScale, text_of(wanted));
  return true;
}

bool check_zero(InferContext& ctx, const SideScheme& scheme) {
  if (ctx.dtype(kZero) != DType::f32) {
    return ctx.fail(DiagCode::BadDtype,
                    "input 3 is " + std::string(name_of(ctx.dtype(kZero))) + ", wanted f32");
  }
  if (scheme.has_zero) {
    if (ctx.shape(kZero) == ctx.shape(kScale)) return true;
    return bad_shape(ctx, "zp", kZero, "the shape of scale, " + text_of(ctx.shape(kScale)));
  }
  if (element_count(ctx.shape(kZero)) == 1) return true;
  return bad_shape(ctx, "the global scale", kZero, "one value");
}

bool check_side_inputs(InferContext& ctx, const SideScheme& scheme) {
  const bool is_fp8 = scheme.codes == WeightCodes::E4M3 || scheme.codes == WeightCodes::E5M2;
  const bool may_have_fourth = scheme.has_zero || scheme.codes == WeightCodes::E2M1;
  const std::string named = "scheme \"" + std::string(scheme.name) + "\" ";
  if (!is_fp8 && !ctx.has_input(kScale))
    return ctx.fail(DiagCode::BadArity, named + "wants a scale");
  if (scheme.has_zero && !ctx.has_input(kZero))
    return ctx.fail(DiagCode::BadArity, named + "wants zero points");
  if (!may_have_fourth && ctx.has_input(kZero)) {
    return ctx.fail(DiagCode::BadArity, named + "has no zero points, wanted null for input 3");
  }
  if (scheme.wants_block != ctx.attrs().has("block_size")) {
    return ctx.fail(DiagCode::BadAttribute,
                    named + (scheme.wants_block ? "wants block_size" : "has no block_size"));
  }
  return true;
}

// N after every check of w and its side tensors; nullopt after a diagnostic.
std::optional<int64_t> check_scheme(InferContext& ctx, int64_t k) {
  const std::string name = ctx.attrs().text("scheme");
  const SideScheme* scheme = find_side_scheme(name);
  if (scheme == nullptr) {
    const auto dtype = dtype_from_name(name);
    if (!dtype || !is_block_type(*dtype)) {
      ctx.fail(DiagCode::BadAttribute, "scheme \"" + name +
                                           "\" is neither a block type nor a scheme "
                                           "of side tensors");
      return std::nullopt;
    }
    if (ctx.has_input(kScale) || ctx.has_input(kZero) || ctx.attrs().has("block_size")) {
      ctx.fail(DiagCode::BadArity, "blocks of " + name +
                                       " hold their scales: wanted null for inputs "
                                       "2 and 3, and no block_size");
      return std::nullopt;
    }
    if (!check_blocks(ctx, 2, k)) return std::nullopt;
    return ctx.shape(kW)[0];
  }
  if (!check_side_inputs(ctx, *scheme)) return std::nullopt;
  const std::optional<int64_t> n = side_lines(ctx, *scheme, k);
  if (!n) return std::nullopt;
  if (ctx.has_input(kScale) && !check_scale(ctx, *scheme, k, *n)) return std::nullopt;
  if (ctx.has_input(kZero) && !check_zero(ctx, *scheme)) return std::nullopt;
  return n;
}

bool infer_dequant_matmul(InferContext& ctx) {
  if (!check_float(ctx, kX, "x")) return false;
  if (ctx.shape(kX).size() < 2) return bad_shape(ctx, "x", kX, "[.., M, K]");
  const std::optional<int64_t> n = check_scheme(ctx, ctx.shape(kX).back());
  if (!n) return false;
  if (ctx.has_input(kBias)) {
    if (!check_float(ctx, kBias, "bias")) return false;
    if (ctx.shape(kBias) != Shape{*n}) return bad_shape(ctx, "bias", kBias, text_of({*n}));
  }
  const std::optional<DType> dtype = result_dtype(ctx);
  if (!dtype) return false;
  ctx.set_output(0, {*dtype, with_last(ctx.shape(kX), *n)});
  return true;
}

double code_value(const SideScheme& scheme, const Tensor& w, int64_t at) {
  const auto byte = [&w](int64_t i) {
    return static_cast<uint8_t>(w.integers[static_cast<size_t>(i)]);
  };
  const auto nibble = [&](int64_t i) { return byte(i / 2) >> (4 * (i % 2)) & 15; };
  switch (scheme.codes) {
    case WeightCodes::I8:
      return static_cast<int8_t>(byte(at));
    case WeightCodes::I4:
      return nibble(at) < 8 ? nibble(at) : nibble(at) - 16;
    case WeightCodes::U4:
      return nibble(at);
    case WeightCodes::E4M3:
      return double_from_e4m3(byte(at));
    case WeightCodes::E5M2:
      return double_from_e5m2(byte(at));
    default:
      return double_from_e2m1(static_cast<uint8_t>(nibble(at)));
  }
}

double side_scale(const EvaluateContext& ctx, const SideScheme& scheme, int64_t at) {
  if (!ctx.has_input(kScale)) return 1;
  const Tensor& scale = ctx.input(kScale);
  const auto i = static_cast<size_t>(scale.count() == 1 ? 0 : at);
  if (scheme.codes != WeightCodes::E2M1) return scale.floats[i];
  const double factor = ctx.has_input(kZero) ? ctx.input(kZero).floats[0] : 1;
  return double_from_e4m3(static_cast<uint8_t>(scale.integers[i])) * factor;
}

// The decoded matrix as [n, k].
std::vector<double> side_weights(const EvaluateContext& ctx, const SideScheme& scheme, int64_t n,
                                 int64_t k) {
  std::vector<double> weights(static_cast<size_t>(n * k));
  const int64_t block = scale_block_of(ctx, scheme, k);
  const int64_t blocks = ceil_div(k, block);
  for (int64_t line = 0; line < n; ++line) {
    for (int64_t depth = 0; depth < k; ++depth) {
      const int64_t at = scheme.along_depth ? line * k + depth : depth * n + line;
      const int64_t scale_at =
          scheme.along_depth ? line * blocks + depth / block : depth / block * n + line;
      const double zero =
          scheme.has_zero ? ctx.input(kZero).floats[static_cast<size_t>(scale_at)] : 0;
      weights[static_cast<size_t>(line * k + depth)] =
          (code_value(scheme, ctx.input(kW), at) - zero) * side_scale(ctx, scheme, scale_at);
    }
  }
  return weights;
}

std::vector<double> block_values(const Tensor& w) {
  std::vector<double> values;
  for (const BlockElement& element : decode_blocks(w)) values.push_back(element.value());
  return values;
}

// One row of x times [n, k] weights at `first`, into row `row` of y.
struct RowProduct {
  int64_t row;
  int64_t n;
  int64_t k;
  int64_t line_stride;   // between lines of the weights
  int64_t depth_stride;  // between depths
  int64_t first;
};
void multiply_row(const Tensor& x, const std::vector<double>& w, const RowProduct& size,
                  const Tensor* bias, int64_t bias_first, Tensor& y) {
  for (int64_t line = 0; line < size.n; ++line) {
    double sum = 0;
    double magnitude = 0;
    for (int64_t depth = 0; depth < size.k; ++depth) {
      const double term =
          x.floats[static_cast<size_t>(size.row * size.k + depth)] *
          w[static_cast<size_t>(size.first + line * size.line_stride + depth * size.depth_stride)];
      sum += term;
      magnitude += std::fabs(term);
    }
    if (bias != nullptr) {
      const double added = bias->floats[static_cast<size_t>(bias_first + line)];
      sum += added;
      magnitude += std::fabs(added);
    }
    const auto at = static_cast<size_t>(size.row * size.n + line);
    y.floats[at] = sum;
    y.magnitudes[at] = magnitude;
  }
}

bool evaluate_dequant_matmul(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(kX);
  Tensor& y = ctx.output(0);
  const int64_t k = x.type.shape.back();
  const int64_t n = y.type.shape.back();
  const SideScheme* scheme = find_side_scheme(ctx.attrs().text("scheme"));
  const std::vector<double> w =
      scheme == nullptr ? block_values(ctx.input(kW)) : side_weights(ctx, *scheme, n, k);
  y.magnitudes.assign(y.floats.size(), 0);
  y.terms = k + 1;
  const Tensor* bias = ctx.has_input(kBias) ? &ctx.input(kBias) : nullptr;
  const int64_t rows = n == 0 ? 0 : y.count() / n;
  for (int64_t row = 0; row < rows; ++row) {
    multiply_row(x, w, {row, n, k, k, 1, 0}, bias, 0, y);
  }
  return true;
}

bool lower_dequant_matmul(LowerContext& ctx) {
  WeightedProduct product;
  product.x = ctx.dense_input(kX);
  product.y = ctx.output(0);
  product.k = product.x.shape().back();
  product.n = product.y.shape().back();
  product.m = product.n == 0 ? 0 : element_count(product.y.shape()) / product.n;
  product.w = ctx.dense_input(kW);
  product.scheme = find_side_scheme(ctx.attrs().text("scheme"));
  if (product.scheme != nullptr) {
    product.along_depth = product.scheme->along_depth;
    product.scale_block = scale_block_of(ctx, *product.scheme, product.k);
  }
  if (ctx.has_input(kScale)) {
    product.scale = ctx.dense_input(kScale);
    const bool one = !product.scheme->wants_block && product.scheme->fixed_block == 0;
    const bool single = element_count(product.scale->shape()) == 1;
    product.scale_kind =
        !one ? WeightScale::PerBlock : (single ? WeightScale::One : WeightScale::PerColumn);
  }
  if (ctx.has_input(kZero)) product.zero = ctx.dense_input(kZero);
  if (ctx.has_input(kBias)) product.bias = ctx.dense_input(kBias);
  return lower_weighted_product(ctx, product);
}

// ---- grouped ----

// Whether the matrices are [E, N, K]: blocks always are.
bool is_transposed(const NodeContext& ctx) {
  return ctx.node().op == "dequant_grouped_matmul" || ctx.attrs().flag("trans_w");
}

bool check_dense_experts(InferContext& ctx, int64_t k) {
  const bool wide = ctx.dtype(kX) == DType::f64;
  const bool good = wide ? ctx.dtype(kW) == DType::f64 : is_short_float(ctx.dtype(kW));
  if (!good) {
    return ctx.fail(DiagCode::BadDtype, "w is " + std::string(name_of(ctx.dtype(kW))) + " beside " +
                                            std::string(name_of(ctx.dtype(kX))) +
                                            "; wanted f32, f16 or bf16 in any mixture, or two f64");
  }
  const bool transposed = is_transposed(ctx);
  const Shape& w = ctx.shape(kW);
  if (w.size() == 3 && w[transposed ? 2 : 1] == k) return true;
  return bad_shape(ctx, "w", kW,
                   std::string(transposed ? "[E, N, K]" : "[E, K, N]") +
                       " with K = " + std::to_string(k) + " of x");
}

bool infer_grouped(InferContext& ctx) {
  const bool blocks = ctx.node().op == "dequant_grouped_matmul";
  const bool wide = !blocks && ctx.dtype(kX) == DType::f64;
  if (!wide && !check_float(ctx, kX, "x")) return false;
  if (ctx.shape(kX).empty()) return bad_shape(ctx, "x", kX, "[.., K]");
  const int64_t k = ctx.shape(kX).back();
  if (blocks ? !check_blocks(ctx, 3, k) : !check_dense_experts(ctx, k)) return false;
  const int64_t n = ctx.shape(kW)[is_transposed(ctx) ? 1 : 2];
  if (!is_index_type(ctx.dtype(kIndex))) {
    return ctx.fail(DiagCode::BadDtype, "index is " + std::string(name_of(ctx.dtype(kIndex))) +
                                            ", wanted an integer type (or f32, f16)");
  }
  const Shape rows(ctx.shape(kX).begin(), ctx.shape(kX).end() - 1);
  if (ctx.shape(kIndex) != rows) {
    return bad_shape(ctx, "index", kIndex, text_of(rows) + ", an expert for each row of x");
  }
  if (ctx.has_input(kGroupBias)) {
    if (wide ? ctx.dtype(kGroupBias) != DType::f64 : !is_short_float(ctx.dtype(kGroupBias))) {
      return ctx.fail(DiagCode::BadDtype, "bias is " + std::string(name_of(ctx.dtype(kGroupBias))) +
                                              " beside " + std::string(name_of(ctx.dtype(kX))));
    }
    const Shape wanted{ctx.shape(kW)[0], n};
    if (ctx.shape(kGroupBias) != wanted) return bad_shape(ctx, "bias", kGroupBias, text_of(wanted));
  }
  const std::optional<DType> dtype = result_dtype(ctx);
  if (!dtype) return false;
  ctx.set_output(0, {*dtype, with_last(ctx.shape(kX), n)});
  return true;
}

// The row's expert; nullopt where it is none of them.
std::optional<int64_t> expert_at(const Tensor& index, int64_t row, int64_t experts) {
  const auto i = static_cast<size_t>(row);
  int64_t expert = 0;
  if (!index.is_float()) {
    expert = index.integers[i];
  } else if (!std::isnan(index.floats[i])) {
    expert = static_cast<int64_t>(std::clamp(index.floats[i], -1e18, 1e18));
  }
  if (expert < 0 || expert >= experts) return std::nullopt;
  return expert;
}

bool evaluate_grouped(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(kX);
  const Tensor& w = ctx.input(kW);
  Tensor& y = ctx.output(0);
  const int64_t k = x.type.shape.back();
  const int64_t n = y.type.shape.back();
  const int64_t experts = w.type.shape[0];
  const std::vector<double> weights = is_block_type(w.type.dtype) ? block_values(w) : w.floats;
  const bool transposed = is_transposed(ctx);
  y.magnitudes.assign(y.floats.size(), 0);
  y.terms = k + 1;
  const Tensor* bias = ctx.has_input(kGroupBias) ? &ctx.input(kGroupBias) : nullptr;
  const int64_t rows = ctx.input(kIndex).count();
  for (int64_t row = 0; row < rows; ++row) {
    const std::optional<int64_t> expert = expert_at(ctx.input(kIndex), row, experts);
    if (!expert) continue;
    multiply_row(x, weights, {row, n, k, transposed ? k : 1, transposed ? 1 : n, *expert * n * k},
                 bias, *expert * n, y);
  }
  return true;
}

bool lower_grouped(LowerContext& ctx) {
  WeightedProduct product;
  product.x = ctx.dense_input(kX);
  product.y = ctx.output(0);
  product.k = product.x.shape().back();
  product.n = product.y.shape().back();
  product.index = ctx.dense_input(kIndex);
  product.m = element_count(product.index->shape());
  product.w = ctx.dense_input(kW);
  product.along_depth = is_transposed(ctx);
  product.experts = product.w.shape()[0];
  if (ctx.node().op == "dequant_grouped_matmul") {
    RLX_CHECK(name_of(product.w.dtype()) == ctx.attrs().text("scheme"),
              "scheme of " + ctx.node().name);
  }
  if (ctx.has_input(kGroupBias)) product.bias = ctx.dense_input(kGroupBias);
  return lower_weighted_product(ctx, product);
}

const AttrSpec kDequantMatmulAttrs[] = {
    {.name = "scheme", .type = AttrType::String, .required = true},
    {.name = "block_size", .type = AttrType::Int, .minimum = 1},
    {.name = "out_dtype", .type = AttrType::DTypeName, .consumed_by_infer = true},
};
const AttrSpec kGroupedAttrs[] = {
    {.name = "trans_w", .type = AttrType::Bool, .default_text = "false"},
    {.name = "out_dtype", .type = AttrType::DTypeName, .consumed_by_infer = true},
};
const AttrSpec kDequantGroupedAttrs[] = {
    {.name = "scheme", .type = AttrType::String, .required = true},
    {.name = "out_dtype", .type = AttrType::DTypeName, .consumed_by_infer = true},
};
constexpr uint32_t kDequantOptional[] = {kScale, kZero, kBias};
constexpr uint32_t kGroupedOptional[] = {kGroupBias};

const OpDef kWeightedMatmuls[] = {
    {.name = "dequant_matmul",
     .signature = "dequant_matmul(x, w, [scale], [zp_or_global], [bias]; scheme, block_size, "
                  "out_dtype) -> y",
     .inputs = {2, 5},
     .attrs = kDequantMatmulAttrs,
     .infer = infer_dequant_matmul,
     .evaluate = evaluate_dequant_matmul,
     .lower = lower_dequant_matmul,
     .optional_inputs = kDequantOptional},
    {.name = "grouped_matmul",
     .signature = "grouped_matmul(x, w, index, [bias]; trans_w=false, out_dtype) -> y",
     .inputs = {3, 4},
     .attrs = kGroupedAttrs,
     .infer = infer_grouped,
     .evaluate = evaluate_grouped,
     .lower = lower_grouped,
     .optional_inputs = kGroupedOptional},
    {.name = "dequant_grouped_matmul",
     .signature = "dequant_grouped_matmul(x, w, index, [bias]; scheme, out_dtype) -> y",
     .inputs = {3, 4},
     .attrs = kDequantGroupedAttrs,
     .infer = infer_grouped,
     .evaluate = evaluate_grouped,
     .lower = lower_grouped,
     .optional_inputs = kGroupedOptional},
};

}  // namespace

std::span<const OpDef> weighted_matmul_ops() {
  return kWeightedMatmuls;
}

}  // namespace rlx
