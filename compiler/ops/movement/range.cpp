// SPDX-License-Identifier: Apache-2.0
// range, ramp, fill, eye (ops.md 6): tensors whose elements follow from where they stand. They are
// elementwise ops without a tensor behind them, so they join the regions that read them.
#include <array>
#include <cmath>

#include "compiler/ir/count_attribute.h"
#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/prepare.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr double kMostElements = 1099511627776.0;    // 2^40, above every dim of a graph file
constexpr int64_t kExactInFloat = int64_t{1} << 24;  // every lower count is an f32

// ---- ramp(start, delta; count) ----

bool check_scalars(InferContext& ctx) {
  if (!check_dtype(ctx, 0, DTypeSet::Number) || !check_equal_dtypes(ctx)) return false;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (!ctx.has_input(i) || ctx.shape(i).empty()) continue;
    return ctx.fail(DiagCode::BadRank, "input " + std::to_string(i) + " is " +
                                           to_string(ctx.shape(i)) + ", wanted rank 0");
  }
  return true;
}

bool infer_ramp(InferContext& ctx) {
  if (!check_scalars(ctx)) return false;
  ctx.set_output(0, {ctx.dtype(0), ctx.attrs().integers("count")});
  return true;
}

void fill_ramp(const Tensor& start, const Tensor& delta, Tensor& y) {
  for (int64_t i = 0; i < y.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (y.is_float()) {
      y.floats[at] = std::fma(static_cast<double>(i), delta.floats[0], start.floats[0]);
      continue;
    }
    const uint64_t bits = static_cast<uint64_t>(start.integers[0]) +
                          static_cast<uint64_t>(i) * static_cast<uint64_t>(delta.integers[0]);
    y.integers[at] = wrap_integer(y.type.dtype, static_cast<int64_t>(bits));
  }
}

bool evaluate_ramp(EvaluateContext& ctx) {
  fill_ramp(ctx.input(0), ctx.input(1), ctx.output(0));
  return true;
}

// start + i * delta with one rounding: f32 beyond 2^24 elements goes through f64, where both the
// index and the product are exact.
std::string scalar_ramp(const ScalarContext& ctx) {
  const std::string& start = ctx.operand(0);
  const std::string& delta = ctx.operand(1);
  const std::string at = coordinate_name(1);
  const bool large = ctx.attrs().integers("count")[0].range().most > kExactInFloat;
  switch (ctx.result_dtype()) {
    case DType::f64:
      return "rlx_fma(rlx_f64_from(" + at + "), " + delta + ", " + start + ")";
    case DType::f32:
      if (large) {
        return "rlx_f32(rlx_fma(rlx_f64_from(" + at + "), rlx_f64(" + delta + "), rlx_f64(" +
               start + ")))";
      }
      return "rlx_fma(rlx_f32(rlx_i32(" + at + ")), " + delta + ", " + start + ")";
    case DType::f16:
    case DType::bf16:
      return "rlx_fma(rlx_f32_from(" + at + "), " + delta + ", " + start + ")";
    default:
      break;
  }
  const std::string type(compute_type(ctx.result_dtype()));
  return "rlx_add(" + start + ", rlx_mul(" + type + "(" + at + "), " + delta + "))";
}

// ---- range(start, [limit], delta; count) ----

constexpr uint32_t kRangeOptional[] = {1};

// Elements of [start, limit) in steps of delta; nullopt where no such number is a size.
std::optional<int64_t> range_count(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (start.is_float()) {
    const double count = std::ceil((limit.floats[0] - start.floats[0]) / delta.floats[0]);
    if (!(count <= kMostElements)) return std::nullopt;  // NaN too
    return count <= 0 ? 0 : static_cast<int64_t>(count);
  }
  // The distance of two 64-bit numbers, and the magnitude of the lowest of them, fit unsigned ones.
  const int64_t first = start.integers[0];
  const int64_t end = limit.integers[0];
  const int64_t step = delta.integers[0];
  if (step == 0) return std::nullopt;
  if (step > 0 ? end <= first : end >= first) return 0;
  const uint64_t span = step > 0 ? static_cast<uint64_t>(end) - static_cast<uint64_t>(first)
                                 : static_cast<uint64_t>(first) - static_cast<uint64_t>(end);
  const uint64_t stride =
      step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = ceil_div(span, stride);
  if (static_cast<double>(count) > kMostElements) return std::nullopt;
  return static_cast<int64_t>(count);
}

bool infer_range(InferContext& ctx) {
  if (!check_scalars(ctx)) return false;
  if (ctx.attrs().has("count") == ctx.has_input(1)) {
    return ctx.fail(DiagCode::BadAttribute,
                    "got both or neither of limit and count, wanted one of them");
  }
  if (!ctx.attrs().has("count")) {
    return ctx.fail(DiagCode::BadShape,
                    "start, limit or delta is known only at run time, so the number of elements is "
                    "not known",
                    "give the number as the attribute count and leave limit out");
  }
  ctx.set_output(0, {ctx.dtype(0), ctx.attrs().integers("count")});
  return true;
}

bool evaluate_range(EvaluateContext& ctx) {
  fill_ramp(ctx.input(0), ctx.input(2), ctx.output(0));
  return true;
}

bool decompose_range(RewriteContext& ctx) {
  const Dim& count = ctx.type(ctx.node().outputs[0]).shape[0];
  ctx.replace_output(
      0, ctx.emit("ramp", {ctx.input(0), ctx.input(2)}, {{"count", count_attribute(count)}}));
  return true;
}

// ---- fill(; shape, value, dtype) ----

bool infer_fill(InferContext& ctx) {
  const DType dtype = ctx.attrs().dtype("dtype");
  if (!check_filling(ctx, dtype, "value")) return false;
  ctx.set_output(0, {dtype, ctx.attrs().integers("shape")});
  return true;
}

bool evaluate_fill(EvaluateContext& ctx) {
  Tensor& y = ctx.output(0);
  const double value = filling(ctx.attrs(), y.type.dtype, "value");
  for (int64_t i = 0; i < y.count(); ++i) set_element(y, i, value);
  return true;
}

// One element that every position of the shape reads: neither bytes of the plan nor a kernel.
bool decompose_fill(RewriteContext& ctx) {
  const TensorType type = ctx.type(ctx.node().outputs[0]);
  Tensor one = Tensor::zeros({type.dtype, {}});
  set_element(one, 0, filling(ctx.attrs(), type.dtype, "value"));
  const Attributes shape{{"shape", type.shape}};
  ctx.replace_output(0, ctx.emit("expand", {ctx.constant("value", one)}, shape));
  return true;
}

// ---- eye(; n, m, k, dtype) ----

bool infer_eye(InferContext& ctx) {
  const Dim rows = ctx.attrs().integers("n")[0];
  const Dim columns = ctx.attrs().has("m") ? ctx.attrs().integers("m")[0] : rows;
  const DType dtype = ctx.attrs().dtype("dtype");
  if (block_elements(dtype) != 1) {
    return ctx.fail(DiagCode::BadDtype, "blocks of " + std::string(name_of(dtype)) +
                                            " are not filled, wanted a type of single elements");
  }
  ctx.set_output(0, {dtype, {rows, columns}});
  return true;
}

bool evaluate_eye(EvaluateContext& ctx) {
  Tensor& y = ctx.output(0);
  const int64_t columns = y.type.shape[1];
  const int64_t k = ctx.attrs().integer("k");
  const double one = held_number(y.type.dtype, 1);
  for (int64_t row = 0; row < y.type.shape[0]; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      set_element(y, row * columns + column, column - row == k ? one : 0);
    }
  }
  return true;
}

std::string scalar_eye(const ScalarContext& ctx) {
  const DType dtype = ctx.result_dtype();
  return "(" + coordinate_name(1) + " - " + coordinate_name(2) +
         " == " + integer_literal(DType::i64, ctx.attrs().integer("k")) + " ? " +
         literal(dtype, held_number(dtype, 1)) + " : " + literal(dtype, 0) + ")";
}

constexpr AttrSpec kRampAttrs[] = {
    {.name = "count", .type = AttrType::Int, .required = true, .minimum = 0}};
constexpr AttrSpec kRangeAttrs[] = {{.name = "count", .type = AttrType::Int, .minimum = 0}};
constexpr AttrSpec kFillAttrs[] = {
    {.name = "shape", .type = AttrType::IntList, .required = true, .minimum = 0},
    {.name = "value", .type = AttrType::Float, .default_text = "0"},
    {.name = "dtype", .type = AttrType::DTypeName, .default_text = "\"f32\""},
};
constexpr AttrSpec kEyeAttrs[] = {
    {.name = "n", .type = AttrType::Int, .required = true, .minimum = 0, .consumed_by_infer = true},
    {.name = "m", .type = AttrType::Int, .minimum = 0, .consumed_by_infer = true},
    {.name = "k", .type = AttrType::Int, .default_text = "0"},
    {.name = "dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"f32\"",
     .consumed_by_infer = true},
};

}  // namespace

// infer reports inputs of other types and ranks than it wants.
bool prepare_range(const Module& module, Graph& graph, NodeId id, KnownValues& known,
                   Diagnostics& diagnostics) {
  const Node node = graph.node(id);
  if (node.inputs.size() != 3 || node.attributes.contains("count")) return true;
  std::vector<Tensor> bounds;
  for (const std::optional<ValueId>& input : node.inputs) {
    const Tensor* bound = input ? known.find(module, graph, *input) : nullptr;
    if (bound == nullptr || bound->count() != 1 || bound->type != graph.value(*node.inputs[0]).type)
      return true;
    bounds.push_back(*bound);
  }
  if (bounds[0].type.dtype == DType::bool_) return true;
  const std::optional<int64_t> count = range_count(bounds[0], bounds[1], bounds[2]);
  if (!count) {
    NodeContext ctx(*find_op("range"), node, diagnostics);
    return ctx.fail(DiagCode::BadShape, "no range goes from start to limit by that delta",
                    "delta must not be 0, and the range not be endless");
  }
  graph.change_node(id, [&count](Node& ranged) {
    ranged.inputs[1] = std::nullopt;
    ranged.attributes["count"] = *count;
  });
  return true;
}

std::span<const OpDef> range_ops() {
  static const std::array<OpDef, 4> ops = {
      OpDef{.name = "range",
            .signature = "range(start, [limit], delta; count) -> y",
            .inputs = {3, 3},
            .attrs = kRangeAttrs,
            .infer = infer_range,
            .evaluate = evaluate_range,
            .decompose = decompose_range,
            .optional_inputs = kRangeOptional},
      OpDef{.name = "ramp",
            .signature = "ramp(start, delta; count) -> y",
            .inputs = {2, 2},
            .attrs = kRampAttrs,
            .infer = infer_ramp,
            .evaluate = evaluate_ramp,
            .lower = lower_elementwise,
            .scalar = scalar_ramp},
      OpDef{.name = "fill",
            .signature = "fill(; shape, value=0, dtype=\"f32\") -> y",
            .inputs = {0, 0},
            .attrs = kFillAttrs,
            .infer = infer_fill,
            .evaluate = evaluate_fill,
            .decompose = decompose_fill},
      OpDef{.name = "eye",
            .signature = "eye(; n, m=n, k=0, dtype=\"f32\") -> y",
            .inputs = {0, 0},
            .attrs = kEyeAttrs,
            .infer = infer_eye,
            .evaluate = evaluate_eye,
            .lower = lower_elementwise,
            .scalar = scalar_eye},
  };
  return ops;
}

}  // namespace rlx
